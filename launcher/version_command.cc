#include "launcher/version_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "backend/cpu/cpu_backend.h"
#include "build_info.h"
#include "comm/mpi_world.h"
#include "io/utf8.h"

namespace shardlm {

std::vector<std::pair<std::string, std::string>> version_facts() {
  return {{"version", build_info::kVersion},    {"commit", build_info::kCommit},
          {"compiler", build_info::kCompiler},  {"mpi", mpi_library_version()},
          {"simd", cpu_simd_target()},          {"build_type", build_info::kBuildType},
          {"cxx_flags", build_info::kCxxFlags}, {"sanitize", build_info::kSanitize},
          {"coverage", build_info::kCoverage},  {"tests", build_info::kTests}};
}

void run_version(const VersionOptions& options, std::ostream& out) {
  if (!options.shared.json) {
    for (const auto& [name, value] : version_facts()) {
      out << fmt::format("{:<11}{}\n", name, value.empty() ? "none" : value);
    }
    return;
  }
  auto object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : version_facts()) object[name] = sanitize_utf8(value);
  out << object.dump() << '\n';
}

}  // namespace shardlm
