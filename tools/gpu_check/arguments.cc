#include "tools/gpu_check/arguments.h"

#include <charconv>

#include "base/error.h"

namespace shardlm::gpu_check {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& expected,
                         const std::string& found) {
  fail(ExitCode::usage, {.what = what, .expected = expected, .found = "'" + found + "'"});
}

DType dtype_of(const std::string& text) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (dtype_text(dtype) == text) return dtype;
  }
  refuse("element type", "f32, f16 or bf16", text);
}

bool is_on(const std::string& text) {
  if (text != "on" && text != "off") refuse("switch", "on or off", text);
  return text == "on";
}

}  // namespace

std::string dtype_text(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::f16 ? "f16" : "bf16";
}

Arguments::Arguments(int argc, char** argv) {
  if (argc < 2) refuse("gpu_check", "a command", "");
  command_ = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    if (name.size() < 3 || !name.starts_with("--")) refuse("argument", "--name value", name);
    if (i + 1 == argc) refuse(name, "a value", "");
    values_[name.substr(2)] = argv[i + 1];
  }
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) {
  asked_[name] = true;
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::int64_t Arguments::number(const std::string& name, std::int64_t otherwise) {
  const std::string value = text(name, std::to_string(otherwise));
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || at != end) refuse("--" + name, "a whole number", value);
  return number;
}

std::vector<std::string> Arguments::list(const std::string& name, const std::string& otherwise) {
  std::vector<std::string> parts{""};
  for (const char c : text(name, otherwise)) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<DType> Arguments::dtypes(const std::string& name, const std::string& otherwise) {
  std::vector<DType> dtypes;
  for (const std::string& part : list(name, otherwise)) dtypes.push_back(dtype_of(part));
  return dtypes;
}

std::vector<bool> Arguments::switches(const std::string& name, const std::string& otherwise) {
  std::vector<bool> switches;
  for (const std::string& part : list(name, otherwise)) switches.push_back(is_on(part));
  return switches;
}

void Arguments::finish() const {
  for (const auto& [name, value] : values_) {
    if (!asked_.contains(name)) refuse("command " + command_, "an option it has", "--" + name);
  }
}

}  // namespace shardlm::gpu_check
