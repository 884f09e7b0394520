#include <nlohmann/json.hpp>

#include "launcher/doctor_report.h"

namespace shardlm {
namespace {

using nlohmann::ordered_json;

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json gpu_json(const GpuDevice& d) {
  return {{"index", d.index},
          {"name", d.name},
          {"bus_id", d.bus_id},
          {"uuid", d.uuid},
          {"compute", std::to_string(d.compute_major) + "." + std::to_string(d.compute_minor)},
          {"multiprocessors", d.n_sm},
          {"memory_bytes", d.total_bytes},
          {"peers", d.peers}};
}

ordered_json rank_json(const DoctorReport& report, std::size_t r) {
  const RankFacts& facts = report.ranks[r];
  const HostFacts& m = facts.machine;
  const GpuSurvey& survey = facts.gpus.survey;
  ordered_json gpus = ordered_json::array();
  for (const GpuDevice& device : survey.devices) gpus.push_back(gpu_json(device));
  const bool has_gpu = report.decision && report.decision->kind == BackendKind::cuda;
  return {{"rank", r},
          {"host", facts.gpus.host},
          {"pid", m.pid},
          {"cores", m.cores},
          {"threads", facts.threads},
          {"numa_nodes", m.numa_nodes},
          {"memory_bytes", m.memory_bytes},
          {"memory_available_bytes", m.memory_available_bytes},
          {"memory_limit_bytes", or_null(m.memory_limit_bytes)},
          {"page_bytes", m.page_bytes},
          {"huge_pages", m.huge_pages},
          {"shm_free_bytes", or_null(m.shm_free_bytes)},
          {"memlock_bytes", or_null(m.memlock_bytes)},
          {"mpi", facts.mpi},
          {"cuda_built_in", survey.built_in},
          {"cuda_versions", survey.versions},
          {"no_gpu_because", survey.none_because},
          {"gpus", gpus},
          {"device", has_gpu ? ordered_json(report.decision->devices[r]) : ordered_json(nullptr)},
          {"device_free_bytes", facts.device_memory ? ordered_json(facts.device_memory->free_bytes)
                                                    : ordered_json(nullptr)}};
}

ordered_json model_json(const DoctorReport& report) {
  if (!report.model) return nullptr;
  const ModelNeed& model = *report.model;
  ordered_json ranks = ordered_json::array();
  for (std::size_t r = 0; r < model.ranks.size(); ++r) {
    const MemoryNeed& need = model.ranks[r];
    ranks.push_back({{"rank", r},
                     {"weight_bytes", need.weights},
                     {"kv_bytes", need.kv},
                     {"workspace_bytes", need.workspace},
                     {"usable_bytes", or_null(usable_bytes(report, r))}});
  }
  return {{"model", model.model},
          {"dtype", dtype_name(model.precision.weights)},
          {"kv_dtype", dtype_name(model.precision.kv)},
          {"kv_tokens", model.sizes.kv_tokens},
          {"per_rank", ranks}};
}

}  // namespace

std::string report_json(const DoctorReport& report, const std::vector<Finding>& findings) {
  ordered_json ranks = ordered_json::array();
  for (std::size_t r = 0; r < report.ranks.size(); ++r) ranks.push_back(rank_json(report, r));
  ordered_json list = ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"what", finding.what},
                    {"remedy", finding.remedy},
                    {"ends_a_job", finding.code != ExitCode::ok}});
  }
  const auto& decision = report.decision;
  const ordered_json result = {
      {"ranks", ranks},
      {"backend", decision ? ordered_json(backend_name(decision->kind)) : ordered_json(nullptr)},
      {"because", decision ? decision->because : ""},
      {"shared_gpu", decision && decision->shared_gpu},
      {"model", model_json(report)},
      {"findings", list}};
  // Names of devices and hosts are bytes of others.
  return result.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace shardlm
