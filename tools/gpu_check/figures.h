// What a command has measured, as JSON for the report and as a line for people.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardlm::gpu_check {

/// A JSON object in the order in which it was filled. Numbers that are not finite become null.
class Figures {
 public:
  Figures& set(std::string_view name, double value);
  Figures& set(std::string_view name, std::string_view value);
  Figures& set(std::string_view name, const char* value) {
    return set(name, std::string_view(value));
  }
  Figures& set(std::string_view name, const Figures& value);
  Figures& set(std::string_view name, const std::vector<Figures>& values);
  template <std::integral T>
  Figures& set(std::string_view name, T value) {
    return put(name, std::to_string(value));
  }
  Figures& set(std::string_view name, bool value) { return put(name, value ? "true" : "false"); }

  std::string json() const;
  /// Writes json() to the file; "" writes nothing. Error(usage) if that fails.
  void save(const std::string& path) const;

 private:
  Figures& put(std::string_view name, std::string rendered);
  std::vector<std::pair<std::string, std::string>> entries_;  // name, JSON value
};

}  // namespace shardlm::gpu_check
