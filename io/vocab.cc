#include "io/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace shardlm {
namespace {

// A bound on memory, since tables are indexed by id: sixteen times the largest vocabularies in use.
constexpr std::int32_t kLargestId = (1 << 22) - 1;

}  // namespace

// Takes a flat object of whole numbers into a vocabulary as it is read, in a fifth of the time that
// a tree of values takes; stops at anything else without a word.
class Vocab::QuickReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit QuickReader(Vocab& vocab) : vocab_(vocab) {}

  bool start_object(std::size_t) override { return depth_++ == 0; }
  bool key(string_t& text) override {
    key_.swap(text);
    return true;
  }
  bool number_unsigned(number_unsigned_t id) override {
    return depth_ == 1 && vocab_.try_add(key_, id);
  }
  bool end_object() override { return true; }

  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool string(string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  Vocab& vocab_;
  int depth_ = 0;
  std::string key_;
};

bool Vocab::try_add(const std::string& text, std::uint64_t id) {
  if (id > kLargestId) return false;
  if (id >= by_id_.size()) by_id_.resize(id + 1);
  if (by_id_[id] != nullptr) return false;
  const auto [entry, added] = ids_.emplace(text, static_cast<std::int32_t>(id));
  if (added) by_id_[id] = &entry->first;
  return added;
}

void Vocab::add(const std::string& text, std::int32_t id, const std::string& where) {
  if (try_add(text, static_cast<std::uint64_t>(id))) return;
  const auto known = ids_.find(text);
  if (known != ids_.end() && known->second == id) return;
  if (known != ids_.end()) {
    fail(ExitCode::model_files, {.what = "token " + in_quotes(text),
                                 .found = fmt::format("two ids, {} and {}", known->second, id),
                                 .where = where});
  }
  fail(ExitCode::model_files,
       {.what = fmt::format("id {}", id),
        .found = fmt::format("two tokens, {} and {}", in_quotes(*this->text(id)), in_quotes(text)),
        .where = where});
}

void Vocab::add_all(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object()) {
    fail(ExitCode::model_files, {.what = "vocabulary",
                                 .expected = "an object of tokens and ids",
                                 .found = object.type_name(),
                                 .where = where});
  }
  ids_.reserve(ids_.size() + object.size());
  for (const auto& [text, id] : object.items()) add(text, parse_token_id(id, text, where), where);
}

void Vocab::add_all_of_text(std::string_view json_text, const std::string& where) {
  // The library lets a byte order mark and a NUL pass, which are no JSON.
  const bool odd = json_text.starts_with('\xEF') || json_text.find('\0') != json_text.npos;
  ids_.reserve(static_cast<std::size_t>(std::count(json_text.begin(), json_text.end(), ':')));
  QuickReader reader(*this);
  if (!odd && nlohmann::json::sax_parse(json_text, &reader)) return;
  *this = Vocab();
  add_all(parse_json(json_text, where), where);  // says what is wrong
}

std::optional<std::int32_t> Vocab::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocab::text(std::int32_t id) const {
  return id >= 0 && id < id_limit() ? by_id_[static_cast<std::size_t>(id)] : nullptr;
}

std::int32_t parse_token_id(const nlohmann::json& value, std::string_view token,
                            const std::string& where) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLargestId) {
    fail(ExitCode::model_files,
         {.what = "id of token " + in_quotes(token),
          .expected = fmt::format("a whole number from 0 to {}", kLargestId),
          .found =
              printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 40),
          .where = where});
  }
  return value.get<std::int32_t>();
}

}  // namespace shardlm
