// The text whose logits are compared.
#include <algorithm>
#include <string_view>

#include "base/philox.h"
#include "study/wire_quality.h"

namespace shardlm {
namespace {

// The beginning of Jane Austen's "Pride and Prejudice" (London, 1813), in the public domain.
constexpr std::string_view kText =
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
    "must be in want of a wife. However little known the feelings or views of such a man may be "
    "on his first entering a neighbourhood, this truth is so well fixed in the minds of the "
    "surrounding families, that he is considered as the rightful property of some one or other "
    "of their daughters. \"My dear Mr. Bennet,\" said his lady to him one day, \"have you heard "
    "that Netherfield Park is let at last?\" Mr. Bennet replied that he had not. \"But it is,\" "
    "returned she; \"for Mrs. Long has just been here, and she told me all about it.\"";
constexpr std::int64_t kMostTokens = 128;  // passed

}  // namespace

QualityText quality_ids(const Tokenizer* tokenizer, std::int64_t vocab_size,
                        std::int64_t capacity) {
  const auto most =
      static_cast<std::size_t>(std::clamp<std::int64_t>(capacity, 0, kMostTokens)) + 1;
  QualityText text;
  if (tokenizer != nullptr) {
    text.ids = tokenizer->encode(kText, SpecialText::plain);
    if (text.ids.size() > most) text.ids.resize(most);
    const bool known = std::all_of(text.ids.begin(), text.ids.end(),
                                   [&](std::int32_t id) { return id < vocab_size; });
    if (known && text.ids.size() > 1) return text;
  }
  text = {.ids = {}, .text = false};
  for (std::uint32_t i = 0; i < most; ++i) {
    const auto words = philox4x32_10({i, 0, 0, 0}, {});
    text.ids.push_back(
        static_cast<std::int32_t>(words[0] % static_cast<std::uint64_t>(vocab_size)));
  }
  return text;
}

}  // namespace shardlm
