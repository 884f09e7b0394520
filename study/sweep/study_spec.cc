#include "study/sweep/study_spec.h"

namespace shardlm {

const std::vector<std::string>& factor_names() {
  static const std::vector<std::string> names = {
      "ranks", "nodes",     "threads",       "shape",     "dtype",  "kv-dtype",
      "batch", "prompt",    "generate",      "allreduce", "wire",   "overlap",
      "comm",  "reduction", "prefill-chunk", "compute",   "emulate"};
  return names;
}

std::string level_of(const Factors& factors, const std::string& name, const std::string& fallback) {
  const auto found = factors.find(name);
  return found == factors.end() ? fallback : found->second;
}

int ranks_of(const Factors& factors) { return std::stoi(level_of(factors, "ranks", "1")); }
int nodes_of(const Factors& factors) { return std::stoi(level_of(factors, "nodes", "1")); }
int threads_of(const Factors& factors) { return std::stoi(level_of(factors, "threads", "0")); }

std::string factors_text(const Factors& factors) {
  std::string text;
  for (const std::string& name : factor_names()) {
    const auto found = factors.find(name);
    if (found == factors.end()) continue;
    text += (text.empty() ? "" : " ") + name + "=" + found->second;
  }
  return text;
}

}  // namespace shardlm
