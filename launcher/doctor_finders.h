// The parts of find_problems() (launcher/doctor_report.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/doctor_report.h"

namespace shardlm {

using RanksByHost = std::map<std::string, std::vector<int>>;
RanksByHost ranks_by_host(const DoctorReport& report);

/// True if the ranks compute on GPUs.
bool on_gpus(const DoctorReport& report);

/// Adds what ends a job on GPUs: one that cannot be asked.
void find_silent_devices(const DoctorReport& report, std::vector<Finding>& found);
/// Adds what makes a job slow there, and GPUs that are not seen.
void find_gpu_troubles(const DoctorReport& report, std::vector<Finding>& found);

}  // namespace shardlm
