#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

std::string pair_html(const std::string& name, const std::string& value, bool changed) {
  const std::string mark = changed ? badge("warn", "differs between launches") : std::string();
  return fmt::format("<div><dt>{}</dt><dd>{} {}</dd></div>\n", escaped(name),
                     value.empty() ? "–" : escaped(value), mark);
}

std::string environment(const Facts& facts) {
  if (facts.environment.empty()) return {};
  std::string html = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts.environment) {
    const auto& changed = facts.environment_changes;
    html +=
        pair_html(name, value, std::find(changed.begin(), changed.end(), name) != changed.end());
  }
  return html + "</dl>\n";
}

std::string study_facts(const Facts& facts) {
  std::string html = "<dl class=\"facts\">\n";
  html += pair_html("method version", facts.method_version, false);
  html += pair_html("launches of a cell", number_text(facts.launches_asked, 6), false);
  html += pair_html("order", fmt::format("random, seed {}", facts.seed), false);
  html += pair_html("began", facts.started, false);
  html += pair_html("time in launches", time_text(facts.wall_s), false);
  html += pair_html("calibration", facts.calibration_hash, false);
  return html + "</dl>\n";
}

// Which rank sat where, of the test with the most ranks.
std::string binding(const Facts& facts) {
  const BenchRow* most = nullptr;
  for (const BenchRow& row : facts.benches) {
    if (!row.rank_times.empty() && (most == nullptr || row.ranks > most->ranks)) most = &row;
  }
  if (most == nullptr) return {};
  std::map<std::string, std::vector<const RankTimes*>> hosts;
  for (const RankTimes& r : most->rank_times) hosts[r.host].push_back(&r);
  std::string html;
  for (const auto& [host, ranks] : hosts) {
    html += fmt::format("<div class=\"host\"><b>{}</b><ul>",
                        escaped(host.empty() ? "a host without a name" : host));
    for (const RankTimes* r : ranks) {
      const std::string core = r->core.empty() ? "not bound" : fmt::format("core {}", r->core);
      html += fmt::format("<li><b>rank {}</b><span>{}</span></li>", r->rank, escaped(core));
    }
    html += "</ul></div>\n";
  }
  Figure f{.id = "binding",
           .title = "Where the ranks ran",
           .reading = fmt::format("{} on {}, as bound in the largest run.",
                                  count_text(most->ranks, "rank"),
                                  count_text(static_cast<double>(hosts.size()), "host")),
           .panels = {},
           .caption = {},
           .tables = "<div class=\"hosts\">\n" + html + "</div>\n"};
  return f.html();
}

}  // namespace

std::string setup_section(const Facts& facts) {
  return study_facts(facts) + binding(facts) +
         (facts.environment.empty()
              ? std::string()
              : "<h3>Environment of the first launch</h3>\n" + environment(facts));
}

}  // namespace shardlm::report
