#include "comm/algorithm_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::array kSites = {SiteKind::embed, SiteKind::attn_out, SiteKind::mlp_out};
constexpr std::array kPhases = {Phase::prefill, Phase::decode};
constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();

[[noreturn]] void refuse(const std::string& expected, std::string_view found,
                         std::string_view where) {
  fail(ExitCode::usage, {.what = "all-reduce algorithm",
                         .expected = expected,
                         .found = fmt::format("'{}'", found),
                         .where = found == where ? "" : fmt::format("'{}'", where)});
}

template <class Names>
std::string names_of(const Names& values) {
  std::vector<std::string_view> names;
  for (const auto value : values) names.push_back(name(value));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool by_messages(Algorithm algorithm) {
  return Algorithm::direct <= algorithm && algorithm <= Algorithm::tree;
}

Algorithm algorithm_of(std::string_view text, std::string_view where) {
  const auto algorithm = parse_algorithm(text);
  if (!algorithm) refuse("auto, table, or one of " + names_of(all_algorithms()), text, where);
  return *algorithm;
}

Algorithm between_nodes_of(std::string_view text, std::string_view where) {
  const Algorithm algorithm = algorithm_of(text, where);
  if (!by_messages(algorithm))
    refuse("direct, recdbl, rabenseifner, ring, star or tree between nodes", text, where);
  return algorithm;
}

void check_wire(const AllReduceChoice& choice, std::string_view where) {
  if (choice.wire == WireFormat::f32) return;
  if (choice.algorithm == Algorithm::mpi)
    refuse("f32, since the MPI library adds what it sends", name(choice.wire), where);
  if (choice.algorithm == Algorithm::shm_oneshot && choice.wire == WireFormat::int8)
    refuse("f32, bf16 or f16 with shm-oneshot; int8 with shm-twoshot", "int8", where);
}

// Cuts `text` at the last `mark`: what is behind it; the whole stays in `text` if it has none.
std::optional<std::string_view> cut_behind(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view behind = text.substr(at + mark.size());
  text = text.substr(0, at);
  return behind;
}

template <class Enum, std::size_t n, class Text>
std::optional<Enum> named(std::string_view word, const std::array<Enum, n>& values, Text&& text) {
  const auto it =
      std::find_if(values.begin(), values.end(), [&](Enum value) { return word == text(value); });
  return it == values.end() ? std::nullopt : std::optional(*it);
}

std::size_t bytes_of(std::string_view text, std::string_view where) {
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size())
    refuse("a number of bytes behind '<='", text, where);
  return bytes;
}

void read_place(std::string_view word, std::string_view where, AllReduceRule& rule) {
  const auto site = named(word, kSites, [](SiteKind kind) { return site_text({kind, -1}); });
  const auto phase = named(word, kPhases, phase_text);
  if (site && !rule.site && !rule.phase) {
    rule.site = site;
  } else if (phase && !rule.phase) {
    rule.phase = phase;
  } else {
    refuse("a site (embed, attn_out, mlp_out), a phase (prefill, decode) or SITE.PHASE", word,
           where);
  }
}

AllReduceRule parse_rule(std::string_view text) {
  AllReduceRule rule;
  std::string_view place = text;
  const auto choice = cut_behind(place, "=");
  if (!choice || place.ends_with('<')) {
    if (choice) refuse("=ALGORITHM behind the number of bytes", text, text);
    rule.choice = parse_choice(text);
    return rule;
  }
  rule.choice = parse_choice(*choice);
  if (const auto bytes = cut_behind(place, "<=")) rule.up_to_bytes = bytes_of(*bytes, text);
  if (place.empty() && rule.up_to_bytes != kAnySize) return rule;
  if (const std::size_t dot = place.find('.'); dot != std::string_view::npos) {
    read_place(place.substr(0, dot), text, rule);
    place = place.substr(dot + 1);
  }
  read_place(place, text, rule);
  return rule;
}

}  // namespace

std::string choice_text(const AllReduceChoice& choice) {
  std::string text(name(choice.algorithm));
  if (choice.algorithm == Algorithm::two_level)
    text += fmt::format("/{}", name(choice.between_nodes));
  if (choice.wire != WireFormat::f32) text += fmt::format(":{}", name(choice.wire));
  return text;
}

AllReduceChoice parse_choice(std::string_view text) {
  AllReduceChoice choice;
  std::string_view rest = text;
  if (const auto wire = cut_behind(rest, ":")) {
    const auto format = parse_wire_format(*wire);
    if (!format) refuse("one of " + names_of(all_wire_formats()) + " behind ':'", *wire, text);
    choice.wire = *format;
  }
  const auto between = cut_behind(rest, "/");
  choice.algorithm = algorithm_of(rest, text);
  if (between) {
    if (choice.algorithm != Algorithm::two_level) refuse("'/' behind two-level only", text, text);
    choice.between_nodes = between_nodes_of(*between, text);
  }
  check_wire(choice, text);
  return choice;
}

std::string rule_text(const AllReduceRule& rule) {
  std::string place;
  if (rule.site) place = site_text({*rule.site, -1});
  if (rule.phase) place += fmt::format("{}{}", place.empty() ? "" : ".", phase_text(*rule.phase));
  if (rule.up_to_bytes != kAnySize) place += fmt::format("<={}", rule.up_to_bytes);
  return fmt::format("{}{}{}", place, place.empty() ? "" : "=", choice_text(rule.choice));
}

std::optional<std::size_t> AlgorithmTable::find(Site site, Phase phase, std::size_t bytes) const {
  const Phase as = phase == Phase::load ? Phase::prefill : phase;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const AllReduceRule& rule = rules_[i];
    if ((!rule.site || *rule.site == site.kind) && (!rule.phase || *rule.phase == as) &&
        bytes <= rule.up_to_bytes)
      return i;
  }
  return std::nullopt;
}

AlgorithmTable AlgorithmTable::before(const AlgorithmTable& others) const {
  std::vector<AllReduceRule> rules = rules_;
  rules.insert(rules.end(), others.rules_.begin(), others.rules_.end());
  return AlgorithmTable(std::move(rules));
}

std::string AlgorithmTable::text() const {
  std::vector<std::string> rules;
  for (const AllReduceRule& rule : rules_) rules.push_back(rule_text(rule));
  return fmt::format("{}", fmt::join(rules, ","));
}

AlgorithmTable parse_algorithm_table(std::string_view text) {
  std::vector<AllReduceRule> rules;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view rule = text.substr(at, end - at);
    while (rule.starts_with(' ')) rule.remove_prefix(1);
    while (rule.ends_with(' ')) rule.remove_suffix(1);
    rules.push_back(parse_rule(rule));
    at = end + 1;
  }
  return AlgorithmTable(std::move(rules));
}

AlgorithmTable default_table(const GroupShape& shape) {
  const auto upto = [](std::size_t bytes, AllReduceChoice choice) {
    return AllReduceRule{.site = {}, .phase = {}, .up_to_bytes = bytes, .choice = choice};
  };
  const auto rest = [](AllReduceChoice choice) { return AllReduceRule{.choice = choice}; };
  if (shape.nodes == 1) {
    // Two ranks read as much either way, and one round is quicker than two.
    if (shape.ranks <= 2) return AlgorithmTable({rest({Algorithm::shm_oneshot})});
    return AlgorithmTable({upto(32768, {Algorithm::shm_oneshot}), rest({Algorithm::shm_twoshot})});
  }
  if (shape.most_ranks_on_a_node > 1) {
    const auto over = [](Algorithm between) {
      return AllReduceChoice{Algorithm::two_level, WireFormat::f32, between};
    };
    if (shape.nodes == 2) return AlgorithmTable({rest(over(Algorithm::direct))});
    return AlgorithmTable({upto(8192, over(Algorithm::direct)),
                           upto(65536, over(Algorithm::recdbl)),
                           rest(over(Algorithm::rabenseifner))});
  }
  if (shape.ranks <= 2) return AlgorithmTable({rest({Algorithm::direct})});
  return AlgorithmTable({upto(8192, {Algorithm::direct}), upto(65536, {Algorithm::recdbl}),
                         rest({Algorithm::rabenseifner})});
}

}  // namespace shardlm
