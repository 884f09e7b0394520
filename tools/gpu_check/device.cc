// gpu_check device
#include <cstdio>

#include "comm/gpu.h"
#include "tools/gpu_check/commands.h"
#include "tools/gpu_check/figures.h"
#include "tools/gpu_check/peaks.h"
#include "tools/gpu_check/ranks.h"

namespace shardlm::gpu_check {
namespace {

Figures figures_of(const GpuDevice& device) {
  Figures figures;
  figures.set("name", device.name).set("bus_id", device.bus_id);
  figures.set("compute_capability",
              std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor));
  figures.set("multiprocessors", device.n_sm).set("memory_bytes", device.total_bytes);
  figures.set("peers", device.peers.size());
  figures.set("peaks", figures_of(peaks_of(device)));
  return figures;
}

}  // namespace

int run_device(Arguments& arguments) {
  const std::string path = arguments.text("figures", "");
  arguments.finish();
  const GpuSurvey survey = survey_gpus();
  if (survey.devices.empty()) throw Skip{survey.none_because};
  std::vector<Figures> devices;
  for (const GpuDevice& device : survey.devices) devices.push_back(figures_of(device));
  Figures().set("versions", survey.versions).set("devices", devices).save(path);
  std::printf("%zu x %s; %s\n", survey.devices.size(), survey.devices.front().name.c_str(),
              survey.versions.c_str());
  return 0;
}

}  // namespace shardlm::gpu_check
