#include <fmt/format.h>

#include <cmath>

#include "comm/algorithm.h"
#include "study/cost_model.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

// Bytes that all ranks send in a step by the formula; none where there is none, or where elements
// are rounded on the way and so have another size.
std::optional<double> sent_by_formula(const BenchRow& row) {
  const Traffic& t = *row.traffic;
  if (!row.wire.empty() && row.wire != "f32") return std::nullopt;
  const auto algorithm = parse_algorithm(t.algorithms);
  if (!algorithm || t.bytes_per_call < 1 || t.bytes_per_call > 1e12) return std::nullopt;
  const auto bytes =
      total_sent_bytes(*algorithm, row.ranks, static_cast<std::uint64_t>(t.bytes_per_call));
  if (!bytes) return std::nullopt;
  return static_cast<double>(*bytes) * t.calls;
}

enum class Match { equal, differs, unknown };

Match match(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return Match::unknown;
  return std::abs(*a - *b) < 0.5 ? Match::equal : Match::differs;
}

std::string mark(Match m) {
  if (m == Match::equal) return badge("good", "equal");
  if (m == Match::differs) return badge("bad", "differs");
  return badge("plain", "not compared");
}

}  // namespace

std::string bytes_section(const Facts& facts) {
  Table table("Bytes of all-reduces in a step",
              {"cell", "test", "algorithm", "ranks", "calls: formula", "counted",
               "payload B: formula", "counted", "sent B: formula", "counted", "verdict"},
              3);
  std::size_t equal = 0, differs = 0, sent = 0;
  for (const BenchRow& row : facts.benches) {
    if (!row.traffic || row.ranks == 1) continue;
    const Traffic& t = *row.traffic;
    const auto formula = sent_by_formula(row);
    const Match payload = match(t.expected_bytes, t.counted_bytes),
                calls = match(t.expected_calls, t.calls);
    const Match moved = t.sent_bytes ? match(formula, t.sent_bytes) : Match::unknown;
    Match all = payload;
    if (calls == Match::differs || moved == Match::differs) all = Match::differs;
    equal += all == Match::equal ? 1 : 0;
    differs += all == Match::differs ? 1 : 0;
    sent += moved == Match::equal ? 1 : 0;
    table.row_html({row.cell, row.test, t.algorithms, std::to_string(row.ranks),
                    number_text(t.expected_calls, 9), number_text(t.calls, 9),
                    number_text(t.expected_bytes, 12), number_text(t.counted_bytes, 12),
                    number_text(formula, 12), number_text(t.sent_bytes, 12)},
                   mark(all));
  }
  if (table.empty()) return {};
  Figure f{.id = "bytes", .title = "Bytes: formula against count"};
  f.reading = differs == 0 ? fmt::format("All {} agree with the formula to the byte",
                                         count_text(static_cast<double>(equal), "test"))
                           : fmt::format("<b>{} of {} tests do not agree with the formula</b>",
                                         differs, equal + differs);
  f.reading +=
      sent > 0 ? fmt::format("; in {} the bytes that the algorithm sent were compared too.", sent)
               : ".";
  f.caption =
      "Payload: (2 × layers + 1) sums of batch × tokens × width × 4 bytes, per rank. Sent: by all "
      "ranks, as the algorithm moves it; "
      "not counted where the MPI library does it, not compared where elements are rounded or "
      "several algorithms took part.";
  f.tables = table.details();
  return f.html();
}

}  // namespace shardlm::report
