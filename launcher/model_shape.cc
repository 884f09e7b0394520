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
  std::int64_t n_positions = 1024, vocab_size = 50257;
};
// GPT-3: Brown et al. 2020 (arXiv 2005.14165), table 2.1, as blocks of GPT-2 (theirs are sparse in
// every other layer, which saves attention's arithmetic alone). Its 13B has n_embd 5140 with 40
// heads of 128, which do not divide: 5120 here. Its 2.7B has 32 heads of 80. OPT-66B: Zhang et al.
// 2022 (arXiv 2205.01068), table 1, with OPT's vocabulary; ReLU and biases count as here.
constexpr std::array kSizes = {Size{"gpt2", 12, 768, 12},
                               Size{"gpt2-medium", 24, 1024, 16},
                               Size{"gpt2-large", 36, 1280, 20},
                               Size{"gpt2-xl", 48, 1600, 25},
                               Size{"gpt3-2.7b", 32, 2560, 32, 2048},
                               Size{"gpt3-6.7b", 32, 4096, 32, 2048},
                               Size{"gpt3-13b", 40, 5120, 40, 2048},
                               Size{"opt-66b", 64, 9216, 72, 2048, 50272},
                               Size{"gpt3-175b", 96, 12288, 96, 2048}};

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

constexpr double kMostParameters = 1e15;

// Products of two dimensions stay far inside 64 bits.
constexpr IntegerRange kAllowed{1, std::int64_t{1} << 24};

std::vector<std::string> known_words() {
  std::vector<std::string> words;
  for (const Size& s : kSizes) words.emplace_back(s.name);
  for (const Dimension& d : kDimensions) words.emplace_back(d.name);
  return words;
}

std::string size_names() {
  std::string names;
  for (const Size& s : kSizes) names += fmt::format("{}{}", names.empty() ? "" : ", ", s.name);
  return names;
}

[[noreturn]] void refuse_word(const std::string& word, const std::string& where) {
  const std::vector<std::string> known = known_words();
  fail(ExitCode::usage, {.what = "unknown part of a shape",
                         .expected = fmt::format(
                             "a size ({}) first, or n_layer, n_embd, n_head, n_inner, n_positions "
                             "or vocab_size with = and a number",
                             size_names()),
                         .found = in_quotes(word),
                         .where = where,
                         .remedy = suggestion(word.substr(0, word.find('=')), known, "")});
}

void set_size(const Size& size, ModelConfig& config) {
  config.n_layer = size.n_layer;
  config.n_embd = size.n_embd;
  config.n_head = size.n_head;
  config.n_positions = size.n_positions;
  config.vocab_size = size.vocab_size;
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

// Counts of bytes and operations must stay far inside 64 bits.
void check_size(const ModelConfig& c, const std::string& where) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double layer = (4 * real(c.n_embd) + 2 * real(c.n_inner)) * real(c.n_embd);
  const double all = real(c.n_layer) * (layer + 16 * real(c.n_embd + c.n_inner)) +
                     (real(c.n_positions) + 2 * real(c.vocab_size)) * real(c.n_embd);
  if (all <= kMostParameters) return;
  fail(ExitCode::usage, {.what = "a shape",
                         .expected = fmt::format("at most {:g} parameters", kMostParameters),
                         .found = fmt::format("{:.3g}", all),
                         .where = where,
                         .remedy = "give smaller dimensions"});
}

}  // namespace

ModelConfig parse_shape(const std::string& text, const std::string& where) {
  ModelConfig config;
  config.family = "gpt2";
  set_size(kSizes[0], config);
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
  check_size(config, where);
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
