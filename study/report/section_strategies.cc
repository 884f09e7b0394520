#include <fmt/format.h>

#include <algorithm>

#include "study/report/chart_rows.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

constexpr std::size_t kMostFigures = 8;

// A speed of rounded sums is shown beside what the rounding costs or not at all.
bool withheld(const BenchRow& row) { return row.approximate() && !row.quality; }

// What the others are compared with: exact, nothing chosen; else the first that is not approximate.
const BenchRow* baseline(const Rows& rows) {
  const BenchRow* base = nullptr;
  int least = 100;
  for (const BenchRow* row : rows) {
    if (row->approximate()) continue;
    const int unusual = (row->allreduce != "auto" && !row->allreduce.empty() ? 1 : 0) +
                        (row->overlap != "none" && !row->overlap.empty() ? 1 : 0);
    if (unusual < least) {
      least = unusual;
      base = row;
    }
  }
  return base;
}

std::string speed_panel(const Rows& rows, const std::vector<std::string>& labels,
                        const BenchRow& base, const std::string& id) {
  DotChart chart{.id = id + "-speed",
                 .title = "Speed of each strategy",
                 .description = "A row a strategy; the line is the base.",
                 .x_title = "tokens/s",
                 .dots = {},
                 .rule = base.rate.middle};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = *rows[i];
    Dot dot{.label = labels[i], .colour = row.approximate() ? 1 : 0, .hollow = row.doubtful()};
    if (withheld(row)) {
      dot.text = "withheld: its quality is unknown";
    } else {
      dot.value = row.rate.middle;
      dot.low = row.rate.low;
      dot.high = row.rate.high;
      dot.text = fmt::format("{}: {} tokens/s ({}; n = {})", labels[i],
                             number_text(row.rate.middle), range_text(row.rate), row.rate.launches);
    }
    chart.dots.push_back(std::move(dot));
  }
  return paragraph("panel-title", "Speed") + dot_chart(chart);
}

std::string quality_panel(const Rows& rows, const std::vector<std::string>& labels,
                          const std::string& id) {
  DotChart chart{
      .id = id + "-quality",
      .title = "What each strategy costs in quality",
      .description =
          "Kullback-Leibler divergence from unrounded sums, logarithmic; exact ones have none.",
      .x_title = "KL divergence, nats a token",
      .dots = {},
      .logarithmic = true};
  bool any = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = *rows[i];
    Dot dot{.label = labels[i], .colour = 1};
    if (row.quality && row.quality->kl > 0) {
      dot.value = row.quality->kl;
      dot.text = fmt::format("{}: KL {} nats", labels[i], number_text(row.quality->kl));
      any = true;
    } else if (row.quality) {
      dot.text = "0 (within double precision)";
    } else {
      dot.text = row.approximate()       ? "not measured"
                 : row.exactness.empty() ? "not stated"
                                         : row.exactness;
    }
    chart.dots.push_back(std::move(dot));
  }
  return any ? paragraph("panel-title", "Cost in quality") + dot_chart(chart) : std::string();
}

std::string against(const BenchRow& row, const BenchRow& base) {
  if (&row == &base) return "the base";
  if (withheld(row)) return "withheld";
  const double change = row.rate.middle / base.rate.middle - 1;
  switch (compare(row.rate, base.rate)) {
    case Verdict::higher:
      return "faster, " + signed_percent_text(change);
    case Verdict::lower:
      return "slower, " + signed_percent_text(change);
    case Verdict::no_difference:
      return "no difference (" + signed_percent_text(change) + ")";
    case Verdict::unknown:
      break;
  }
  return "unknown (" + signed_percent_text(change) + ")";
}

std::string table_of(const Rows& rows, const std::vector<std::string>& labels, const BenchRow& base,
                     const std::string& caption) {
  Table table(caption,
              {"strategy", "sums", "against the base", "n", "tokens/s", "low…high", "max |Δlogit|",
               "KL nats", "top-1", "perplexity", "tokens compared", "doubts"},
              3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = *rows[i];
    const auto& q = row.quality;
    const bool hide = withheld(row);
    table.row({labels[i], row.exactness.empty() ? "–" : row.exactness, against(row, base),
               std::to_string(row.rate.launches), hide ? "withheld" : number_text(row.rate.middle),
               hide ? "–" : range_text(row.rate), q ? number_text(q->max_logit_difference) : "–",
               q ? number_text(q->kl) : "–", q ? fmt::format("{:.2f} %", q->top1 * 100) : "–",
               q && q->perplexity_change && q->fixed_text
                   ? fmt::format("{:+.3f} %", *q->perplexity_change * 100)
                   : "–",
               q ? number_text(q->tokens, 6) + (q->fixed_text ? "" : " random") : "–",
               doubts(row)});
  }
  return table.html();
}

std::string reading_of(const Rows& rows, const std::vector<std::string>& labels,
                       const BenchRow& base) {
  const BenchRow* best = &base;
  std::string name, hidden;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (withheld(*rows[i])) hidden = " Speeds without a measured quality are withheld.";
    if (rows[i] == &base) continue;
    if (withheld(*rows[i]) || compare(rows[i]->rate, base.rate) != Verdict::higher ||
        rows[i]->rate.middle <= best->rate.middle)
      continue;
    best = rows[i];
    name = labels[i];
  }
  if (best == &base)
    return fmt::format("No strategy is faster than the base ({} tokens/s) beyond the spreads.",
                       number_text(base.rate.middle)) +
           hidden;
  std::string text = fmt::format(
      "<b>{}</b> is fastest: {} against the base's {} tokens/s", escaped(name),
      signed_percent_text(best->rate.middle / base.rate.middle - 1), number_text(base.rate.middle));
  if (best->quality) {
    text += fmt::format(", at a KL divergence of {} nats and {:.2f} % equal first choices",
                        number_text(best->quality->kl), best->quality->top1 * 100);
  } else {
    text += best->exactness == "exact"       ? ", with the same sums"
            : best->exactness == "reordered" ? ", with sums in another order"
                                             : "";
  }
  return text + "." + hidden;
}

// Groups of equal work on equal ranks over equal links; decoding first, then by their size.
std::vector<Group> groups_of(const Facts& facts) {
  std::vector<Group> groups;
  for (Group& group : group_rows(
           facts.benches, {"allreduce", "wire", "overlap", "factor reduction", "factor head"})) {
    if (group.rows.size() > 1 && group.rows.front()->ranks > 1) groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    const auto order = [](const Group& g) {
      return std::pair(!g.rows.front()->decode, -static_cast<long>(g.rows.size()));
    };
    return order(a) < order(b);
  });
  return groups;
}

const BenchRow& base_of(const Group& group) {
  const BenchRow* base = baseline(group.rows);
  return base == nullptr ? *group.rows.front() : *base;
}

std::string title_of(const BenchRow& base) {
  return fmt::format("{} on {}{}", base.decode ? "Decoding" : "Prefill",
                     count_text(base.ranks, "rank"),
                     base.emulate.empty() ? "" : ", emulated " + base.emulate);
}

std::string figure(const Group& group, const std::string& id) {
  const BenchRow& base = base_of(group);
  const auto labels = row_labels(group.rows);
  Figure f{.id = id, .title = title_of(base), .reading = reading_of(group.rows, labels, base)};
  f.panels = {speed_panel(group.rows, labels, base, id)};
  const std::string quality = quality_panel(group.rows, labels, id);
  if (!quality.empty()) f.panels.push_back(quality);
  const bool rounded = std::any_of(group.rows.begin(), group.rows.end(),
                                   [](const BenchRow* row) { return row->approximate(); });
  f.caption =
      escaped(row_phrase(base)) + ". " + launches_phrase(group.rows) + hollow_phrase(group.rows) +
      (rounded ? " Orange squares round sums on the way (approximate)." : "") +
      " Strategies are categories: nothing is joined." +
      (base.messages_only ? " Nothing was computed: the tokens are those of the messages alone."
                          : "");
  f.tables = table_of(group.rows, labels, base, f.title);
  return f.html();
}

}  // namespace

std::string strategies_highlight(const Facts& facts) {
  const auto groups = groups_of(facts);
  if (groups.empty()) return {};
  const Group& first = groups.front();
  return escaped(title_of(base_of(first))) + ": " +
         reading_of(first.rows, row_labels(first.rows), base_of(first));
}

std::string strategies_section(const Facts& facts) {
  const auto groups = groups_of(facts);
  std::string html;
  for (std::size_t i = 0; i < groups.size() && i < kMostFigures; ++i)
    html += figure(groups[i], fmt::format("strategies-{}", i));
  if (groups.size() > kMostFigures) {
    html +=
        paragraph("note", fmt::format("{} more groups of strategies are in the table of all tests.",
                                      groups.size() - kMostFigures));
  }
  return html;
}

}  // namespace shardlm::report
