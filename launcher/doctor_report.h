// What `shardlm doctor` knows once all ranks have told it, and what it makes of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/gpus.h"
#include "launcher/host_facts.h"
#include "model/plan.h"

namespace shardlm {

/// One rank.
struct RankFacts {
  HostFacts machine;
  RankGpus gpus;  ///< and the host's name
  int threads = 1;
  std::string mpi;                            ///< the library, its first line
  std::optional<DeviceMemory> device_memory;  ///< of the GPU that it takes
  std::string device_problem;                 ///< why that GPU could not be asked
};

/// What --model needs.
struct ModelNeed {
  std::string model;
  ModelConfig config;
  Precision precision;
  JobSizes sizes;
  std::vector<MemoryNeed> ranks;
};

struct DoctorReport {
  std::vector<RankFacts> ranks;
  std::optional<BackendDecision> decision;  ///< none: refused
  std::optional<BackendRefusal> refusal;
  std::optional<ModelNeed> model;
};

struct Finding {
  std::string what, remedy;
  ExitCode code = ExitCode::ok;  ///< with which a job would end because of it; ok: it would run
};

/// All that is wrong or slow, what would end a job first. A pure function.
std::vector<Finding> find_problems(const DoctorReport& report);

/// What the rank's parts of the model may fill, together with those of the ranks that share it: its
/// GPU, or its host's memory. None if it is not known where it would compute.
std::optional<std::uint64_t> usable_bytes(const DoctorReport& report, std::size_t rank);

/// The exit code of the first finding that would end a job; ok if none would.
ExitCode exit_code(const std::vector<Finding>& findings);

std::string report_text(const DoctorReport& report, const std::vector<Finding>& findings);
/// One JSON object (docs/cli.md).
std::string report_json(const DoctorReport& report, const std::vector<Finding>& findings);

}  // namespace shardlm
