#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

std::string tile(const std::string& value, const std::string& what, const std::string& more) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span><small>{}</small></div>\n",
                     escaped(value), escaped(what), escaped(more));
}

std::string item(const std::string& kind, const std::string& word, const std::string& html) {
  return "<li>" + badge(kind, word) + "<span>" + html + "</span></li>\n";
}

// What the best is compared with: the next best rank count.
const ScalingStep* runner_up(const Scaling& s) {
  const ScalingStep* best = &s.best();
  const ScalingStep* second = nullptr;
  for (const ScalingStep& step : s.steps) {
    if (&step == best) continue;
    if (second == nullptr || step.row->rate.middle > second->row->rate.middle) second = &step;
  }
  return second;
}

std::string verdict_phrase(Verdict verdict) {
  switch (verdict) {
    case Verdict::higher:
      return "faster, the spreads do not overlap";
    case Verdict::lower:
      return "slower, the spreads do not overlap";
    case Verdict::no_difference:
      return "the spreads overlap, so no difference can be claimed";
    case Verdict::unknown:
      break;
  }
  return "one of them has no spread, so nothing can be claimed";
}

std::string confidence(const Scaling& s) {
  const ScalingStep& best = s.best();
  std::string text = "Confidence: " + spread_text(best.row->rate) + " (" +
                     range_text(best.row->rate) + " tokens/s).";
  if (best.row != &s.base())
    text += " Against " + count_text(s.base().ranks, "rank") + ": " +
            verdict_phrase(compare(best.row->rate, s.base().rate)) + ".";
  const ScalingStep* second = runner_up(s);
  if (second != nullptr && second->row != &s.base()) {
    text += " Against the next best, " + count_text(second->row->ranks, "rank") + " (" +
            number_text(second->row->rate.middle) +
            " tokens/s): " + verdict_phrase(compare(best.row->rate, second->row->rate)) + ".";
  }
  return text;
}

std::string limit_sentence(const ScalingStep& best) {
  const auto limit = limit_of(best);
  if (!limit) return {};
  if (limit->factor > 0.97) {
    return fmt::format("Nothing takes more than {} of the efficiency.",
                       percent_text(1 - limit->factor));
  }
  std::string factors = fmt::format(
      "load balance {}, serialisation {}, transfer {}", number_text(best.row->load_balance, 2),
      number_text(best.row->serialisation, 2), number_text(best.row->transfer_efficiency, 2));
  if (best.compute_scaling) factors += ", computation " + number_text(best.compute_scaling, 2);
  return fmt::format("Limited most by <b>{}</b> (factor {}): {}. All factors: {}.", limit->name,
                     number_text(limit->factor, 2), limit->reason, factors);
}

std::string scaling_answer(const Scaling& s) {
  const ScalingStep& best = s.best();
  const BenchRow &row = *best.row, &base = s.base();
  std::string headline;
  if (s.weak) {
    headline = fmt::format("Weak scaling keeps {} of its efficiency on {}.",
                           percent_text(best.efficiency.middle), count_text(row.ranks, "rank"));
  } else if (&row == &base) {
    headline = fmt::format("More ranks than {} do not pay here.", base.ranks);
  } else {
    headline = fmt::format("{} {} fastest: {} the speed of {}.", count_text(row.ranks, "rank"),
                           row.ranks == 1 ? "is" : "are", times_text(best.speedup.middle),
                           count_text(base.ranks, "rank"));
  }
  std::string html = paragraph("headline", headline);
  html += paragraph(
      "sub", "For " + escaped(row_phrase(row)) + ", on " + count_text(row.nodes, "node") + ".");
  html += "<div class=\"tiles\">\n";
  html += tile(number_text(row.rate.middle), "tokens/s", range_text(row.rate));
  html += tile(
      number_text(row.time_ms.middle) + " ms",
      row.decode ? "a decoding step" : "to the first token",
      "base: " + number_text(base.time_ms.middle) + " ms on " + count_text(base.ranks, "rank"));
  html += tile(times_text(best.speedup.middle), s.weak ? "the work a second" : "speed-up",
               range_text(best.speedup));
  html += tile(percent_text(best.efficiency.middle), "efficiency",
               range_text(scaled(best.efficiency, 100)) + " %");
  html += "</div>\n";
  const std::string limit = limit_sentence(best);
  if (!limit.empty()) html += paragraph("why", limit);
  return html + paragraph("why", confidence(s));
}

// Where nothing was scaled: the fastest test, with what it is.
std::string plain_answer(const Facts& facts) {
  const BenchRow* best = nullptr;
  for (const BenchRow& row : facts.benches) {
    if (!tells_speed(row)) continue;
    if (best == nullptr ||
        std::pair(row.decode, row.rate.middle) > std::pair(best->decode, best->rate.middle))
      best = &row;
  }
  if (best == nullptr) return {};
  std::string html =
      paragraph("headline", fmt::format("{} tokens/s at best.", number_text(best->rate.middle)));
  html += paragraph(
      "sub", escaped(row_phrase(*best)) + ", on " + count_text(best->ranks, "rank") +
                 (best->allreduce.empty() ? "" : ", all-reduce " + escaped(best->allreduce)) +
                 (best->emulate.empty() ? "" : ", emulated link " + escaped(best->emulate)) + ".");
  return html +
         paragraph("why", "Confidence: " + spread_text(best->rate) + " (" + range_text(best->rate) +
                              " tokens/s). No rank count was compared with another.");
}

struct Counts {
  std::size_t noisy = 0, crowded = 0, emulated = 0, approximate = 0, few = 0, open = 0, tests = 0,
              wrong = 0;
};

Counts counts_of(const Facts& facts) {
  Counts c;
  for (const BenchRow& row : facts.benches) {
    ++c.tests;
    c.noisy += row.noisy > 0 ? 1 : 0;
    c.crowded += row.oversubscribed > 0 ? 1 : 0;
    c.emulated += row.emulate.empty() ? 0 : 1;
    c.approximate += row.approximate() ? 1 : 0;
    c.few += row.rate.launches < 6 ? 1 : 0;
    c.open += row.open > 0 ? 1 : 0;
  }
  for (const CollRow& row : facts.colls) {
    ++c.tests;
    c.noisy += row.noisy > 0 ? 1 : 0;
    c.crowded += row.oversubscribed > 0 ? 1 : 0;
    c.emulated += row.emulate.empty() ? 0 : 1;
    c.few += row.us.launches < 6 ? 1 : 0;
    c.wrong += row.wrong > 0 ? 1 : 0;
  }
  return c;
}

std::string of_tests(std::size_t n, const Counts& c) {
  return fmt::format("{} of {} tests", n, c.tests);
}

std::string machine_changes(const Facts& facts) {
  static const std::set<std::string> kMatter = {"commit",    "compiler", "cpu",    "governor",
                                                "host",      "hosts",    "kernel", "mpi",
                                                "cxx_flags", "virtual",  "smt"};
  std::vector<std::string> names;
  for (const std::string& name : facts.environment_changes) {
    if (kMatter.contains(name)) names.push_back(name);
  }
  return list_text(names);
}

std::string warnings(const Facts& facts) {
  const Counts c = counts_of(facts);
  std::string html;
  if (c.wrong > 0)
    html +=
        item("bad", "wrong sums", of_tests(c.wrong, c) + ": a collective returned a wrong sum.");
  if (!facts.failures.empty())
    html += item("bad", "failed",
                 fmt::format("{} did not end well; <a href=\"#failures\">all are listed</a>.",
                             count_text(static_cast<double>(facts.failures.size()), "launch")));
  std::size_t skipped = 0, missing = 0;
  for (const CellStatus& cell : facts.cells) {
    skipped += cell.skipped.empty() ? 0 : 1;
    missing += cell.skipped.empty() && cell.ok < cell.planned ? 1 : 0;
  }
  if (skipped > 0)
    html += item("plain", "skipped",
                 fmt::format("{} by plan; <a href=\"#cells\">with the reason</a>.",
                             count_text(static_cast<double>(skipped), "cell")));
  if (missing > 0)
    html += item("warn", "incomplete",
                 fmt::format("{} with fewer good launches than planned.",
                             count_text(static_cast<double>(missing), "cell")));
  if (c.noisy > 0)
    html +=
        item("warn", "noisy",
             of_tests(c.noisy, c) + " ran beside other work, by the canary (p99/p50 over 1.5).");
  if (c.crowded > 0)
    html += item(
        "warn", "oversubscribed",
        of_tests(c.crowded, c) +
            " had more ranks times threads than cores: their times are no property of the method.");
  if (c.emulated > 0)
    html += item("warn", "emulated", of_tests(c.emulated, c) + " ran over an emulated link.");
  if (c.approximate > 0)
    html += item(
        "warn", "approximate",
        of_tests(c.approximate, c) + " round sums on the way; <a href=\"#s10\">what it costs</a>.");
  if (c.open > 0)
    html += item("warn", "open",
                 of_tests(c.open, c) + ": the parts of the time do not add up within 1 %.");
  if (c.few > 0)
    html += item("warn", "few launches",
                 of_tests(c.few, c) +
                     " have fewer than 6 launches: ranges are shown, no confidence intervals.");
  if (const std::string names = machine_changes(facts); !names.empty())
    html += item("warn", "changed", "not the same in all launches: " + escaped(names) + ".");
  for (const std::string& note : facts.notes) html += item("warn", "files", escaped(note));
  if (html.empty())
    html = item("good", "clean",
                "No noisy, oversubscribed, emulated, approximate or failed launches.");
  return "<ul class=\"warnings\">\n" + html + "</ul>\n";
}

// What other sections have found, a sentence each.
std::string highlights(const Facts& facts) {
  std::string items;
  const auto add = [&](const char* anchor, const char* name, const std::string& sentence) {
    if (!sentence.empty())
      items +=
          fmt::format("<li><a href=\"#{}\">{}</a><span>{}</span></li>\n", anchor, name, sentence);
  };
  add("s10", "Strategies", strategies_highlight(facts));
  add("s5", "Collectives", collectives_highlight(facts));
  add("s6", "Model", model_highlight(facts));
  return items.empty() ? "" : "<ul class=\"also\">\n" + items + "</ul>\n";
}

}  // namespace

std::string answer_section(const Facts& facts) {
  std::string html;
  const auto strong = strong_scalings(facts), weak = weak_scalings(facts);
  if (!strong.empty()) {
    html = scaling_answer(strong.front());
  } else if (!weak.empty()) {
    html = scaling_answer(weak.front());
  } else {
    html = plain_answer(facts);
  }
  if (html.empty() && !facts.colls.empty())
    html = paragraph("headline", "Which all-reduce is fastest depends on size and ranks.");
  if (html.empty())
    html = paragraph("headline", facts.benches.empty()
                                     ? "Nothing was measured."
                                     : "Messages alone: no speed of a model was measured.");
  return "<div class=\"answer\">\n" + html + highlights(facts) + warnings(facts) + "</div>\n";
}

}  // namespace shardlm::report
