// Tokens that are recognised in a text as they stand, before it is split and merged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlm {

/// The fields are those of Hugging Face's AddedToken, with its meaning and defaults.
struct AddedToken {
  std::string text;  ///< not empty
  std::int32_t id = 0;
  bool special = false;
  bool normalized = false;   ///< looked for after those that are not, in what these leave
  bool single_word = false;  ///< only where no word character (Unicode's \w) touches it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
};

/// Reads {"content": …, "special": …, …} except the id. `where` is the file, `what` names the
/// token. Unknown fields are refused by name.
AddedToken parse_added_token(const nlohmann::json& object, const std::string& where,
                             const std::string& what);

/// Finds added tokens: the leftmost match, the longest of those that begin there.
class AddedTokenMatcher {
 public:
  struct Part {
    std::string_view text;           ///< of the text; for a token with what it strips
    std::optional<std::int32_t> id;  ///< none: ordinary text, never empty
  };

  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  /// The parts of `text`, in order.
  std::vector<Part> split(std::string_view text) const;

 private:
  /// Tokens by first byte, the longest first.
  using Table = std::array<std::vector<AddedToken>, 256>;
  static const AddedToken* match(const Table& table, std::string_view text, std::size_t at);
  static void split_once(const Table& table, std::string_view text, std::vector<Part>& parts);

  std::array<Table, 2> passes_;  // tokens that are not `normalized`, then those that are
};

}  // namespace shardlm
