#include "comm/agreement.h"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "comm/call.h"

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::load, -1};

// On the wire: nothing for success, else one byte of exit code and the text.
std::vector<std::byte> pack(ExitCode code, std::string_view text) {
  std::vector<std::byte> bytes{static_cast<std::byte>(code)};
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

ExitCode unpack_code(std::span<const std::byte> bytes) {
  return static_cast<ExitCode>(bytes.front());
}

std::string unpack_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1};
}

struct Complaint {
  std::string text;
  std::vector<int> ranks;
};

std::vector<Complaint> distinct(const std::vector<std::vector<std::byte>>& reports) {
  std::vector<Complaint> complaints;
  for (std::size_t r = 0; r < reports.size(); ++r) {
    if (reports[r].empty()) continue;
    const std::string text = unpack_text(reports[r]);
    std::size_t i = 0;
    while (i < complaints.size() && complaints[i].text != text) ++i;
    if (i == complaints.size()) complaints.push_back({text, {}});
    complaints[i].ranks.push_back(static_cast<int>(r));
  }
  return complaints;
}

// What all ranks will throw; empty if none failed.
std::vector<std::byte> verdict(const std::vector<std::vector<std::byte>>& reports) {
  const std::vector<Complaint> complaints = distinct(reports);
  if (complaints.empty()) return {};
  const auto lowest = static_cast<std::size_t>(complaints.front().ranks.front());
  std::string text;
  for (const Complaint& complaint : complaints) {
    if (!text.empty()) text += '\n';
    if (complaint.ranks.size() < reports.size()) text += ranks_text(complaint.ranks) + ": ";
    text += complaint.text;
  }
  return pack(unpack_code(reports[lowest]), text);
}

void throw_decided(const Communicator& comm, std::span<const std::byte> decided) {
  if (decided.empty()) return;
  throw AgreedFailure(unpack_code(decided), unpack_text(decided), comm.rank() != 0);
}

}  // namespace

void agree_with_root(Communicator& comm, const std::optional<Error>& of_root) {
  std::vector<std::byte> decided;
  if (comm.rank() == 0 && of_root) decided = pack(of_root->code(), of_root->what());
  comm.broadcast(kSite, decided, 0);
  throw_decided(comm, decided);
}

void agree(Communicator& comm, const std::optional<Error>& mine) {
  std::vector<std::byte> report;
  if (mine) report = pack(mine->code(), mine->what());
  std::vector<std::vector<std::byte>> reports;
  comm.gather(kSite, report, reports, 0);
  std::vector<std::byte> decided;
  if (comm.rank() == 0) decided = verdict(reports);
  comm.broadcast(kSite, decided, 0);
  throw_decided(comm, decided);
}

}  // namespace shardlm
