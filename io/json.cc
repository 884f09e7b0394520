#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/mapped_file.h"
#include "io/printable.h"

namespace shardlm {
namespace {

using nlohmann::json;

// Builds the value from the library's events. Not its callback interface: that one scans the parent
// again after each nested object (quadratic in their number), and it keeps the last of equal keys.
class StrictBuilder final : public nlohmann::json_sax<json> {
 public:
  StrictBuilder(json& root, const std::string& where, int max_depth)
      : root_(root), where_(where), max_depth_(max_depth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [member, added] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!added) refuse("the key " + in_quotes(name) + " is given twice in one object");
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    std::string_view text = error.what();  // "[json.exception.parse_error.101] parse error at …"
    text.remove_prefix(std::min(text.find("] ") + 2, text.size()));
    refuse(printable(text, 300));
  }

 private:
  json& place(json&& value) {
    if (open_.empty()) return root_ = std::move(value);
    if (!open_.back()->is_array()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }

  bool add(json&& value) {
    place(std::move(value));
    return true;
  }

  bool open(json&& value) {
    if (std::cmp_greater_equal(open_.size(), max_depth_)) {
      refuse(fmt::format("objects and arrays are nested more than {} deep", max_depth_));
    }
    open_.push_back(&place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::model_files, {.what = "not valid JSON: " + what, .where = where_});
  }

  json& root_;
  const std::string& where_;
  const int max_depth_;
  std::vector<json*> open_;  // from the root to the innermost open object or array
  json* member_ = nullptr;   // where the value of the last key goes
};

// What the library lets pass: it ends at a NUL, and skips a byte order mark.
void refuse_nul_and_mark(std::string_view text, const std::string& where) {
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    fail(ExitCode::model_files,
         {.what = fmt::format("not valid JSON: a NUL byte at offset {}", at), .where = where});
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    fail(ExitCode::model_files, {.what = "not valid JSON: the text starts with a byte order mark",
                                 .where = where,
                                 .remedy = "save the file as UTF-8 without one"});
  }
}

}  // namespace

json parse_json(std::string_view text, const std::string& where, int max_depth) {
  refuse_nul_and_mark(text, where);
  json root;
  StrictBuilder builder(root, where, max_depth);
  const bool done = json::sax_parse(text.begin(), text.end(), &builder);
  check(done, "the JSON reader stopped without an error");
  return root;
}

json read_json_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  refuse_pointer_text(file.bytes(), file.path());
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  return parse_json({text, file.bytes().size()}, file.path());
}

}  // namespace shardlm
