#include "io/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "io/merges.h"
#include "io/printable.h"
#include "io/special_tokens.h"

namespace shardlm {
namespace {

using nlohmann::json;

// An object of the file, with its name for messages. Every field is asked for by name, and the rest
// is refused: a field that we do not know may change ids.
class Fields {
 public:
  Fields(const json& object, std::string name, const std::string& where)
      : object_(object), name_(std::move(name)), where_(where) {
    if (!object.is_object()) refuse("", "an object", object.type_name());
  }

  /// A null value if the field is absent.
  const json& get(const std::string& key) {
    static const json kNull;
    known_.push_back(key);
    const auto found = object_.find(key);
    return found == object_.end() ? kNull : *found;
  }

  bool boolean(const std::string& key, bool otherwise) {
    const json& value = get(key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) refuse(key, "true or false", value.type_name());
    return value.get<bool>();
  }

  /// Refuses the field unless it is absent, null, or one of `harmless`.
  void unset(const std::string& key, std::initializer_list<json> harmless = {}) {
    const json& value = get(key);
    bool ok = value.is_null();
    for (const json& one : harmless) ok = ok || value == one;
    if (!ok) refuse(key, "none", describe_value(value) + ", which is not implemented");
  }

  /// Refuses fields that nobody has asked for.
  void no_others() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        refuse(key, "no such field", "one, which is not implemented");
      }
    }
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const std::string& found) const {
    const std::string dot = name_.empty() || key.empty() ? "" : ".";
    fail(ExitCode::model_files, {.what = printable(name_ + dot + key),
                                 .expected = expected,
                                 .found = found,
                                 .where = where_});
  }

  /// "\"NFC\"" of {"type": "NFC", …}; else the value itself.
  static std::string describe_value(const json& value) {
    const auto type = value.is_object() ? value.find("type") : value.end();
    if (value.is_object() && type != value.end() && type->is_string()) return type->dump();
    return printable(value.dump(), 60);
  }

 private:
  const json& object_;
  const std::string name_;
  const std::string& where_;
  std::vector<std::string> known_;
};

bool is_type(const json& value, std::string_view type) {
  if (!value.is_object()) return false;
  const auto found = value.find("type");
  return found != value.end() && *found == type;
}

void read_model(const json& model, const std::string& where, TokenizerFiles& files) {
  Fields fields(model, "model", where);
  if (const json& type = fields.get("type"); !type.is_null() && type != "BPE") {
    fields.refuse("type", "\"BPE\"", printable(type.dump(), 60) + ", which is not implemented");
  }
  fields.unset("dropout", {0.0});
  fields.unset("continuing_subword_prefix", {""});
  fields.unset("end_of_word_suffix", {""});
  fields.unset("fuse_unk", {false});
  fields.unset("byte_fallback", {false});
  fields.unset("ignore_merges", {false});
  files.vocab.add_all(fields.get("vocab"), where);
  files.merges = parse_merges_json(fields.get("merges"), files.vocab, where);
  if (const json& unknown = fields.get("unk_token"); !unknown.is_null()) {
    const auto id =
        unknown.is_string() ? files.vocab.find(unknown.get<std::string>()) : std::nullopt;
    if (!id) fields.refuse("unk_token", "a token of the vocabulary", printable(unknown.dump(), 60));
    files.unknown = id;
  }
  fields.no_others();
}

void read_pre_tokenizer(const json& value, const std::string& where, TokenizerFiles& files) {
  if (!is_type(value, "ByteLevel")) {
    fail(ExitCode::model_files,
         {.what = "pre_tokenizer",
          .expected = "\"ByteLevel\"",
          .found = value.is_null() ? "none"
                                   : Fields::describe_value(value) + ", which is not implemented",
          .where = where});
  }
  Fields fields(value, "pre_tokenizer", where);
  fields.get("type");
  fields.get("trim_offsets");  // offsets into the text, which we do not report
  files.add_prefix_space = fields.boolean("add_prefix_space", true);
  files.split_pieces = fields.boolean("use_regex", true);
  fields.no_others();
}

// Of the post-processors, those that add no token to a single text.
bool adds_nothing(const json& post_processor) {
  if (post_processor.is_null() || is_type(post_processor, "ByteLevel")) return true;
  static const json kTextAlone = json::parse(R"([{"Sequence": {"id": "A", "type_id": 0}}])");
  return is_type(post_processor, "TemplateProcessing") &&
         post_processor.value("single", json()) == kTextAlone;
}

void warn_of_batching(const json& value, const std::string& name, const std::string& where) {
  if (!value.is_null()) {
    log::warning(where + ": " + name +
                 " is not applied (Transformers overrides it in each call too)");
  }
}

}  // namespace

void read_tokenizer_json(const json& root, const std::string& where, TokenizerFiles& files) {
  Fields fields(root, "", where);
  fields.get("version");
  warn_of_batching(fields.get("truncation"), "truncation", where);
  warn_of_batching(fields.get("padding"), "padding", where);
  fields.unset("normalizer");
  read_pre_tokenizer(fields.get("pre_tokenizer"), where, files);
  if (const json& post = fields.get("post_processor"); !adds_nothing(post)) {
    fields.refuse("post_processor", "one that adds no token",
                  Fields::describe_value(post) + ", which is not implemented");
  }
  if (const json& decoder = fields.get("decoder");
      !decoder.is_null() && !is_type(decoder, "ByteLevel")) {
    fields.refuse("decoder", "\"ByteLevel\"",
                  Fields::describe_value(decoder) + ", which is not implemented");
  }
  read_model(fields.get("model"), where, files);
  fields.get("added_tokens");
  fields.no_others();
  read_added_tokens_array(root, where, files);
}

void read_added_tokens_array(const json& root, const std::string& where, TokenizerFiles& files) {
  Fields fields(root, "", where);
  const json& list = fields.get("added_tokens");
  if (list.is_null()) return;
  if (!list.is_array()) fields.refuse("added_tokens", "an array", list.type_name());
  for (const json& value : list) {
    AddedToken token = parse_added_token(value, where, "an entry of added_tokens");
    token.id = parse_token_id(value.value("id", json()), token.text, where);
    add_token(std::move(token), where, files);
  }
}

}  // namespace shardlm
