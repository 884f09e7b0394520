#include "launcher/allreduce_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "launcher/bench_environment.h"
#include "launcher/environment_record.h"
#include "launcher/whole_file.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

constexpr Site kSite{SiteKind::load};
constexpr const char* kFormat = "shardlm all-reduce table 1";
constexpr const char* kMethod = "1";  // of measuring: times of another one are not comparable

// Every rank's text, on all ranks.
std::vector<std::string> texts_of_all(Communicator& comm, const std::string& mine) {
  std::vector<std::vector<std::byte>> all;
  comm.gather(kSite, std::as_bytes(std::span(mine)), all, 0);
  std::vector<std::string> texts;
  for (int r = 0; r < comm.size(); ++r) {
    std::vector<std::byte> message;
    if (comm.rank() == 0) message = all[static_cast<std::size_t>(r)];
    comm.broadcast(kSite, message, 0);
    texts.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
  }
  return texts;
}

nlohmann::ordered_json json_of(const TuneSample& s) {
  nlohmann::ordered_json object = {{"algorithm", choice_text(s.choice)},
                                   {"bytes", s.bytes},
                                   {"median_us", s.median_us},
                                   {"low_us", s.low_us},
                                   {"high_us", s.high_us},
                                   {"calls", s.calls},
                                   {"wrong", s.n_wrong}};
  object["p99_us"] = s.p99_us < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(s.p99_us);
  return object;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& expected,
                         const std::string& found) {
  fail(ExitCode::usage, {.what = "all-reduce table",
                         .expected = expected,
                         .found = found,
                         .where = path.string(),
                         .remedy = "run shardlm tune with the same mpirun options"});
}

std::string text_at(const nlohmann::json& object, const char* key, const fs::path& path) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string())
    refuse(path, fmt::format("a file of shardlm tune with a text '{}'", key), "none");
  return object[key].get<std::string>();
}

}  // namespace

AllReduceEnvironment allreduce_environment(const Job& job) {
  const CoreShare& cores = job.world.core_share();
  const std::string share = fmt::format("{} of {}", cores.cores, cores.sharers);
  return {{"method", kMethod},
          {"mpi", mpi_library_version()},
          {"ranks_of_nodes", fmt::format("{}", fmt::join(ranks_of_nodes(job.world), ","))},
          {"cpus", counted_text(texts_of_all(job.control, cpu_name()))},
          {"cores_and_sharers", counted_text(texts_of_all(job.control, share))},
          {"oversubscribed", job.world.oversubscribed() ? "yes" : "no"}};
}

// FNV-1a, 64 bits.
std::string environment_hash(const AllReduceEnvironment& environment) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash = (hash ^ 0) * 0x100000001b3;  // where a text ends counts
  };
  for (const auto& [name, value] : environment) {
    add(name);
    add(value);
  }
  return fmt::format("{:016x}", hash);
}

fs::path default_allreduce_file(const std::string& hash) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  fs::path folder = variable("XDG_CACHE_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = fs::path(variable("HOME")) / ".cache";
  if (folder.empty()) return {};
  return folder / "shardlm" / fmt::format("allreduce-{}.json", hash);
}

void write_allreduce_file(const fs::path& path, const AllReduceEnvironment& environment,
                          std::span<const TuneSample> samples, const AlgorithmTable& table) {
  nlohmann::ordered_json object = {
      {"format", kFormat}, {"hash", environment_hash(environment)}, {"rules", table.text()}};
  for (const auto& [name, value] : environment) object["environment"][name] = value;
  for (const TuneSample& sample : samples) object["measured"].push_back(json_of(sample));
  write_whole_file(path, object.dump(1) + "\n", "the all-reduce table");
}

AllReduceFile read_allreduce_file(const fs::path& path) {
  nlohmann::json object;
  try {
    object = read_json_file(path);
  } catch (const Error& error) {
    refuse(path, "a file of shardlm tune", error.what());
  }
  const std::string format = text_at(object, "format", path);
  if (format != kFormat) refuse(path, kFormat, format);
  try {
    return {text_at(object, "hash", path), parse_algorithm_table(text_at(object, "rules", path))};
  } catch (const Error& error) {
    refuse(path, "rules that this version knows", error.what());
  }
}

}  // namespace shardlm
