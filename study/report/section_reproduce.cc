#include <fmt/format.h>

#include <algorithm>

#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

constexpr std::size_t kMostMessage = 600;

// The last lines, without those that only rule off.
std::string end_of(const std::string& text) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of("-=* \t") != std::string::npos)
      kept += (kept.empty() ? "" : "\n") + line;
  }
  return kept.size() <= kMostMessage ? kept : "…" + kept.substr(kept.size() - kMostMessage);
}

std::string folded(const std::string& summary, const std::string& body) {
  return fmt::format("<details class=\"data\"><summary>{}</summary>\n<pre>{}</pre></details>\n",
                     escaped(summary), escaped(body));
}

std::string commands(const Facts& facts) {
  std::string all;
  for (const CellStatus& cell : facts.cells)
    all += "# " + cell.id + "  " + cell.factors + "\n" + cell.command + "\n";
  return all.empty() ? "" : folded("The exact command of every cell", all);
}

std::string cell_table(const Facts& facts) {
  Table table("Cells of the plan", {"cell", "kind", "factors", "state", "good launches", "planned"},
              4);
  for (const CellStatus& cell : facts.cells) {
    const bool skipped = !cell.skipped.empty();
    table.row({cell.id, cell.kind, cell.factors,
               skipped                   ? "skipped: " + cell.skipped
               : cell.ok >= cell.planned ? "complete"
                                         : "incomplete",
               std::to_string(cell.ok), std::to_string(cell.planned)},
              skipped || cell.ok < cell.planned ? "doubt" : "");
  }
  return table.empty()
             ? ""
             : "<div id=\"cells\">" +
                   table.details("All cells, with those that were skipped and why") + "</div>\n";
}

std::string failure_table(const Facts& facts) {
  Table table("Launches that did not end well",
              {"cell", "factors", "status", "ending", "launch", "last message"}, 6);
  for (const Failure& f : facts.failures)
    table.row({f.cell, f.factors, f.status, f.ending, number_text(f.launch, 6), end_of(f.messages)},
              "doubt");
  if (table.empty()) return {};
  return "<div id=\"failures\"><h3>Launches that did not end well</h3>\n" + table.html() +
         "</div>\n";
}

std::string all_tests(const Facts& facts) {
  Table table(
      "All tests",
      {"cell", "test", "what", "doubts", "ranks", "nodes", "n", "tokens/s", "low…high", "ms"}, 4);
  for (const BenchRow& row : facts.benches) {
    std::string what = row_phrase(row);
    for (const std::string& more :
         {row.allreduce, row.wire, row.overlap == "none" ? "" : row.overlap, row.emulate}) {
      if (!more.empty()) what += ", " + more;
    }
    const bool hide = row.approximate() && !row.quality;
    table.row({row.cell, row.test, what, doubts(row), std::to_string(row.ranks),
               std::to_string(row.nodes), std::to_string(row.rate.launches),
               hide ? "withheld" : number_text(row.rate.middle), hide ? "–" : range_text(row.rate),
               hide ? "–" : number_text(row.time_ms.middle)});
  }
  return table.details("All tests in one table");
}

}  // namespace

std::string reproduce_section(const Facts& facts) {
  std::size_t skipped = 0;
  for (const CellStatus& cell : facts.cells) skipped += cell.skipped.empty() ? 0 : 1;
  std::string html = paragraph(
      "reading", fmt::format("{} of the plan, {} skipped; {} ended well, {} did not.",
                             count_text(static_cast<double>(facts.cells.size()), "cell"), skipped,
                             count_text(static_cast<double>(facts.launches_ok), "launch"),
                             facts.failures.size()));
  html +=
      "<pre class=\"command\">shardlm study run study.yaml --out FOLDER\nshardlm study report "
      "FOLDER</pre>\n";
  html += failure_table(facts) + cell_table(facts) + all_tests(facts) + commands(facts);
  if (!facts.yaml.empty()) html += folded("study.yaml as it was run", facts.yaml);
  return html;
}

}  // namespace shardlm::report
