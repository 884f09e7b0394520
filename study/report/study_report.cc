#include "study/report/study_report.h"

#include <fmt/format.h>

#include <array>

#include "study/report/html.h"
#include "study/report/json_fields.h"
#include "study/report/number_text.h"
#include "study/report/page_parts.h"
#include "study/report/sections.h"

namespace shardlm {
namespace report {
namespace {

// Above this many bytes of raw data the page leaves out samples.
constexpr std::size_t kMostRaw = 6'000'000;

struct Section {
  const char* title;
  const char* nav;
  const char* lead;    ///< what it shows, in a line
  const char* absent;  ///< what a study needs for it
  std::string (*html)(const Facts&);
};

// In the order of docs/report.md; the numbers stay when a section is missing.
constexpr std::array<Section, 12> kSections = {{
    {"The answer", "Answer", "", "", answer_section},
    {"Set-up", "Set-up", "What was measured, on what, and by which method.", "", setup_section},
    {"Scaling", "Scaling", "How speed and efficiency change with the number of ranks.",
     "the same work on two rank counts or more", scaling_section},
    {"Where the time goes", "Time", "Every step, cut into four parts that add up to its time.",
     "steps cut into compute, wait, transfer and other", time_section},
    {"Collectives", "Collectives",
     "All-reduces alone, algorithm against algorithm, beside the model.", "a cell of kind coll",
     collectives_section},
    {"Is the model right?", "Model",
     "What was predicted before measuring, beside what was measured.",
     "a calibration or predictions", model_section},
    {"Batch and prompt", "Batch", "What more work at once buys.", "two batch sizes or prompts",
     sweep_section},
    {"Tails", "Tails", "Not how fast on average, but how late a token can be.",
     "decoding with its gaps kept", tails_section},
    {"What if?", "What if", "The same model over a link that is not here.",
     "decoding on two rank counts with counted all-reduces", what_if_section},
    {"Strategies", "Strategies", "Speed never stands without what it costs in quality.",
     "two algorithms, wire formats or overlaps at equal ranks", strategies_section},
    {"Bytes", "Bytes", "What should be moved, and what was.", "counted bytes on two ranks or more",
     bytes_section},
    {"Reproduce", "Reproduce", "", "", reproduce_section},
}};

// Without the raw samples, which the folder's own files keep.
void thin(Json& launch) {
  if (!launch.is_object() || !launch.contains("results") || !launch["results"].is_array()) return;
  for (Json& result : launch["results"]) {
    if (!result.is_object()) continue;
    for (const char* name : {"samples_us", "itl_samples_ms", "seconds"}) {
      if (result.contains(name)) result[name] = "left out of the page; see cells.jsonl";
    }
  }
}

std::string raw_json(const StudyData& study, bool thinned) {
  Json all = {{"plan", study.plan},
              {"calibration", study.calibration},
              {"more_calibrations", study.more_calibrations},
              {"predictions", study.predictions},
              {"launches", Json::array()}};
  for (Json launch : study.launches) {
    if (thinned) thin(launch);
    all["launches"].push_back(std::move(launch));
  }
  return all.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string raw_data(const StudyData& study) {
  std::string json = raw_json(study, false);
  const bool thinned = json.size() > kMostRaw;
  if (thinned) json = raw_json(study, true);
  return paragraph("note",
                   fmt::format("The study's raw data ({}{}) stands in this page as JSON, in the "
                               "element <code>study-data</code>.",
                               bytes_text(static_cast<double>(json.size())),
                               thinned ? ", without samples: those are in cells.jsonl only" : "")) +
         "<script type=\"application/json\" id=\"study-data\">" + script_safe(json) + "</script>\n";
}

std::string environment_of(const Facts& facts, const std::string& name) {
  for (const auto& [key, value] : facts.environment) {
    if (key == name) return value;
  }
  return {};
}

std::string header(const Facts& facts) {
  std::vector<std::string> meta;
  const std::string mpi = environment_of(facts, "mpi");  // some name themselves at length
  for (const std::string& text :
       {environment_of(facts, "cpu"), mpi.substr(0, mpi.find(',')), facts.started.substr(0, 10)}) {
    if (!text.empty()) meta.push_back(escaped(text));
  }
  meta.push_back(count_text(static_cast<double>(facts.cells.size()), "cell"));
  meta.push_back(count_text(static_cast<double>(facts.launches_ok), "good launch"));
  if (!facts.method_version.empty()) meta.push_back("method " + escaped(facts.method_version));
  std::string line;
  for (const std::string& m : meta) line += (line.empty() ? "" : " · ") + m;
  return "<header class=\"top\">\n<p class=\"kicker\">Scaling study · shardlm</p>\n<h1>" +
         escaped(facts.name) + "</h1>\n<p class=\"meta\">" + line +
         "</p>\n<button type=\"button\" id=\"theme\" aria-label=\"Change between light and dark\" "
         "hidden>Dark</button>\n</header>\n";
}

std::string absent_list(const std::vector<const Section*>& absent) {
  if (absent.empty()) return {};
  std::string items;
  for (const Section* s : absent)
    items += fmt::format("<li><b>{}</b> – it would need {}.</li>\n", s->title, s->absent);
  return "<section id=\"absent\">\n<h2>Not in this study</h2>\n<ul class=\"absent\">\n" + items +
         "</ul>\n</section>\n";
}

std::string page(const StudyData& study) {
  const Facts facts = gather_facts(study);
  std::string body, nav;
  std::vector<const Section*> absent;
  for (std::size_t i = 0; i < kSections.size(); ++i) {
    const Section& s = kSections[i];
    std::string html = s.html(facts);
    if (i + 1 == kSections.size()) {
      body += absent_list(absent);
      html += raw_data(study);
    }
    if (html.empty()) {
      absent.push_back(&s);
      continue;
    }
    nav += fmt::format("<li><a href=\"#s{}\">{}</a></li>\n", i + 1, s.nav);
    body += fmt::format(
        "<section id=\"s{0}\" aria-labelledby=\"h{0}\">\n<h2 id=\"h{0}\"><span "
        "class=\"no\">{0}</span>{1}</h2>\n{2}{3}</section>\n",
        i + 1, s.title, *s.lead == 0 ? "" : paragraph("lead", s.lead), html);
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"shardlm study report\">\n<title>{} – scaling "
      "study</title>\n<link rel=\"icon\" href=\"data:,\">\n"
      "<style>{}</style>\n</head>\n<body>\n{}<nav "
      "aria-label=\"Sections\"><ol>\n{}</ol></nav>\n<main>\n{}</main>\n"
      "<footer>Made by <code>shardlm study report</code>. How to read each figure, and what may "
      "not be concluded: docs/report.md of the project.</footer>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      escaped(facts.name), page_style(), header(facts), nav, body, page_script());
}

}  // namespace
}  // namespace report

std::string study_report_html(const StudyData& study) { return report::page(study); }

}  // namespace shardlm
