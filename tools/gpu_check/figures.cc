#include "tools/gpu_check/figures.h"

#include <cmath>
#include <cstdio>
#include <fstream>

#include "base/error.h"

namespace shardlm::gpu_check {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Figures& Figures::put(std::string_view name, std::string rendered) {
  entries_.emplace_back(name, std::move(rendered));
  return *this;
}

Figures& Figures::set(std::string_view name, double value) {
  if (!std::isfinite(value)) return put(name, "null");
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return put(name, text);
}

Figures& Figures::set(std::string_view name, std::string_view value) {
  return put(name, quoted(value));
}

Figures& Figures::set(std::string_view name, const Figures& value) {
  return put(name, value.json());
}

Figures& Figures::set(std::string_view name, const std::vector<Figures>& values) {
  std::string list = "[";
  for (const Figures& value : values) list += (list.size() > 1 ? "," : "") + value.json();
  return put(name, list + "]");
}

std::string Figures::json() const {
  std::string object = "{";
  for (const auto& [name, value] : entries_) {
    if (object.size() > 1) object += ",";
    object += quoted(name) + ":" + value;
  }
  return object + "}";
}

void Figures::save(const std::string& path) const {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::trunc);
  file << json() << "\n";
  file.close();
  if (!file) fail(ExitCode::usage, {.what = "cannot write figures", .where = path});
}

}  // namespace shardlm::gpu_check
