#include "launcher/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/nearest_name.h"
#include "launcher/options_values.h"

namespace shardlm {
namespace {

struct Size {
  const char* name;
  std::int64_t n_layer, n_embd, n_head;
};
constexpr std::array kSizes = {Size{"gpt2", 12, 768, 12}, Size{"gpt2-medium", 24, 1024, 16},
                               Size{"gpt2-large", 36, 1280, 20}, Size{"gpt2-xl", 48, 1600, 25}};

struct Dimension {
  const char* name;
  std::int64_t ModelConfig::*member;
};
constexpr std::array kDimensions = {Dimension{"n_layer", &ModelConfig::n_layer},
                                    Dimension{"n_embd", &ModelConfig::n_embd},
                                    Dimension{"n_head", &ModelConfig::n_head},
                                    Dimension{"n_inner", &ModelConfig::n_inner},
                                    Dimension{"n_positions", &ModelConfig::n_positions},
                                    Dimension{"vocab_size", &ModelConfig::vocab_size}};

// Products of two dimensions stay far inside 64 bits.
constexpr IntegerRange kAllowed{1, std::int64_t{1} << 24};

std::vector<std::string> known_words() {
  std::vector<std::string> words;
  for (const Size& s : kSizes) words.emplace_back(s.name);
  for (const Dimension& d : kDimensions) words.emplace_back(d.name);
  return words;
}

[[noreturn]] void refuse_word(const std::string& word, const std::string& where) {
  const std::vector<std::string> known = known_words();
  fail(ExitCode::usage, {.what = "unknown part of a shape",
                         .expected = "a size (gpt2, gpt2-medium, gpt2-large, gpt2-xl) first, or "
                                     "n_layer, n_embd, n_head, n_inner, n_positions or vocab_size "
                                     "with = and a number",
                         .found = in_quotes(word),
                         .where = where,
                         .remedy = suggestion(word.substr(0, word.find('=')), known, "")});
}

void set_size(const Size& size, ModelConfig& config) {
  config.n_layer = size.n_layer;
  config.n_embd = size.n_embd;
  config.n_head = size.n_head;
}

void set_dimension(const std::string& word, const std::string& where, ModelConfig& config,
                   std::set<std::string>& given) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const auto dimension = std::find_if(kDimensions.begin(), kDimensions.end(),
                                      [&](const Dimension& d) { return d.name == name; });
  if (equals == std::string::npos || dimension == kDimensions.end()) refuse_word(word, where);
  if (!given.insert(name).second) {
    fail(ExitCode::usage, {.what = name + " is given twice", .where = where, .remedy = "give one"});
  }
  config.*(dimension->member) =
      parse_integer(word.substr(equals + 1), where + ": " + name, kAllowed);
}

}  // namespace

ModelConfig parse_shape(const std::string& text, const std::string& where) {
  ModelConfig config;
  config.family = "gpt2";
  set_size(kSizes[0], config);
  config.n_positions = 1024;
  config.vocab_size = 50257;
  std::set<std::string> given;
  bool first = true;
  for (const std::string& word : split_list(text, where)) {
    const auto size =
        std::find_if(kSizes.begin(), kSizes.end(), [&](const Size& s) { return s.name == word; });
    if (first && size != kSizes.end()) {
      set_size(*size, config);
    } else {
      set_dimension(word, where, config, given);
    }
    first = false;
  }
  if (!given.contains("n_inner")) config.n_inner = 4 * config.n_embd;
  if (config.n_embd % config.n_head != 0) {
    fail(ExitCode::usage, {.what = "n_head",
                           .expected = fmt::format("a divisor of n_embd {}", config.n_embd),
                           .found = std::to_string(config.n_head),
                           .where = where,
                           .remedy = "give n_head and n_embd that fit each other"});
  }
  return config;
}

std::int64_t parameter_count(const ModelConfig& c) {
  const std::int64_t d = c.n_embd;
  const std::int64_t layer = 4 * d * (d + 1) + 2 * d * c.n_inner + c.n_inner + d + 4 * d;
  const std::int64_t tables = c.tie_word_embeddings ? 1 : 2;
  return c.n_layer * layer + 2 * d + (c.n_positions + tables * c.vocab_size) * d;
}

}  // namespace shardlm
