// A tokenizer's tokens while its files are read: text as the files spell it, and id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shardlm {

class Vocab {
 public:
  Vocab() = default;
  Vocab(Vocab&&) = default;
  Vocab& operator=(Vocab&&) = default;

  /// Error(model_files) if the text has another id, or the id another text; `where` is the file.
  /// The same entry again is no error.
  void add(const std::string& text, std::int32_t id, const std::string& where);
  /// All entries of a JSON object {"text": id, …}.
  void add_all(const nlohmann::json& object, const std::string& where);
  /// The same of a JSON text, into an empty vocabulary.
  void add_all_of_text(std::string_view json_text, const std::string& where);

  std::optional<std::int32_t> find(std::string_view text) const;
  /// Null if no token has this id.
  const std::string* text(std::int32_t id) const;
  /// Largest id + 1; 0 if there is none.
  std::int32_t id_limit() const { return static_cast<std::int32_t>(by_id_.size()); }

 private:
  class QuickReader;
  /// False, and nothing is changed, if the text or the id is known, or the id too large.
  bool try_add(const std::string& text, std::uint64_t id);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> by_id_;  // into ids_, whose keys do not move
};

/// A token's id: a whole number from 0 up. `token` names it in the messages.
std::int32_t parse_token_id(const nlohmann::json& value, std::string_view token,
                            const std::string& where);

}  // namespace shardlm
