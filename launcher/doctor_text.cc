// The report as tables for a person.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "launcher/bytes_text.h"
#include "launcher/doctor_report.h"

namespace shardlm {
namespace {

/// Columns as wide as their widest cell.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { add(std::move(heads)); }
  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths_[i] = std::max(widths_[i], cells[i].size());
    rows_.push_back(std::move(cells));
  }
  std::string text() const {
    std::string all;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i)
        line += fmt::format("{:<{}}  ", row[i], widths_[i]);
      all += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return all;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string device_text(const DoctorReport& report, std::size_t r) {
  if (!report.decision || report.decision->kind == BackendKind::cpu) return "-";
  const int index = report.decision->devices[r];
  for (const GpuDevice& device : report.ranks[r].gpus.survey.devices) {
    if (device.index == index) return fmt::format("{} ({})", index, device.bus_id);
  }
  return fmt::format("{}", index);
}

std::string ranks_table(const DoctorReport& report) {
  Table table({"rank", "host", "process", "cores", "threads", "NUMA", "memory free", "of", "GPU"});
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankFacts& facts = report.ranks[r];
    const HostFacts& m = facts.machine;
    table.add({fmt::format("{}", r), facts.gpus.host, fmt::format("{}", m.pid),
               or_dash(number_list_text(m.cores)), fmt::format("{}", facts.threads),
               or_dash(number_list_text(m.numa_nodes)), bytes_text(m.usable_bytes()),
               bytes_text(m.memory_bytes), device_text(report, r)});
  }
  return table.text();
}

// The first rank of each host, in rank order.
std::vector<const RankFacts*> first_of_hosts(const DoctorReport& report) {
  std::vector<const RankFacts*> first;
  std::set<std::string> seen;
  for (const RankFacts& facts : report.ranks) {
    if (seen.insert(facts.gpus.host).second) first.push_back(&facts);
  }
  return first;
}

std::string host_lines(const RankFacts& facts) {
  const HostFacts& m = facts.machine;
  std::string text = fmt::format("\n{}: {}; pages of {}, huge pages {}", facts.gpus.host, facts.mpi,
                                 bytes_text(m.page_bytes), or_dash(m.huge_pages));
  if (m.memory_limit_bytes) {
    text += fmt::format("; memory limited to {}", bytes_text(*m.memory_limit_bytes));
  }
  if (m.shm_free_bytes) text += fmt::format("; /dev/shm {} free", bytes_text(*m.shm_free_bytes));
  text += fmt::format("; lockable memory {}\n",
                      m.memlock_bytes ? bytes_text(*m.memlock_bytes) : "unlimited");
  const GpuSurvey& survey = facts.gpus.survey;
  if (!survey.versions.empty()) text += fmt::format("CUDA: {}\n", survey.versions);
  if (survey.devices.empty()) text += fmt::format("no GPU: {}\n", survey.none_because);
  return text;
}

// One line a GPU; the last columns are the P2P matrix.
std::string gpus_table(const GpuSurvey& survey) {
  if (survey.devices.empty()) return {};
  std::vector<std::string> heads = {"GPU", "bus id", "name", "sm", "SMs", "memory", "P2P with"};
  for (const GpuDevice& device : survey.devices) heads.push_back(fmt::format("{}", device.index));
  Table table(std::move(heads));
  for (const GpuDevice& device : survey.devices) {
    std::vector<std::string> cells = {
        fmt::format("{}", device.index),
        device.bus_id,
        device.name,
        fmt::format("{}.{}", device.compute_major, device.compute_minor),
        fmt::format("{}", device.n_sm),
        bytes_text(device.total_bytes),
        ""};
    for (const GpuDevice& other : survey.devices) {
      const bool peer = std::count(device.peers.begin(), device.peers.end(), other.index) > 0;
      cells.push_back(other.index == device.index ? "." : peer ? "yes" : "no");
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string model_table(const DoctorReport& report) {
  if (!report.model) return {};
  const ModelNeed& model = *report.model;
  const auto bytes = [](std::int64_t n) { return bytes_text(static_cast<std::uint64_t>(n)); };
  Table table({"rank", "weights", "keys and values", "workspace", "sum", "free"});
  for (std::size_t r = 0; r < model.ranks.size(); ++r) {
    const MemoryNeed& need = model.ranks[r];
    const auto usable = usable_bytes(report, r);
    table.add({fmt::format("{}", r), bytes(need.weights), bytes(need.kv), bytes(need.workspace),
               bytes(need.total()), usable ? bytes_text(*usable) : "-"});
  }
  return fmt::format("\n{}: {}, {} tokens in the cache\n{}", model.model,
                     precision_text(model.precision), model.sizes.kv_tokens, table.text());
}

std::string findings_text(const std::vector<Finding>& findings) {
  if (findings.empty()) return "\nfindings: none\n";
  std::string text = "\nfindings:\n";
  for (const Finding& finding : findings) {
    text += fmt::format("- {}{}\n  remedy: {}\n",
                        finding.code == ExitCode::ok ? "" : "ends a job: ", finding.what,
                        or_dash(finding.remedy));
  }
  return text;
}

std::string backend_line(const DoctorReport& report) {
  if (!report.decision) return "backend: none that these options allow";
  if (report.decision->kind == BackendKind::cpu) return decision_line(*report.decision, "");
  return fmt::format("backend: cuda, {}", report.decision->summary);
}

}  // namespace

std::string report_text(const DoctorReport& report, const std::vector<Finding>& findings) {
  std::string text = fmt::format("{}\n\n{}", backend_line(report), ranks_table(report));
  for (const RankFacts* facts : first_of_hosts(report)) {
    text += host_lines(*facts) + gpus_table(facts->gpus.survey);
  }
  return text + model_table(report) + findings_text(findings);
}

}  // namespace shardlm
