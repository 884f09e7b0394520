#include <algorithm>

#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {

std::string launches_phrase(const Rows& rows) {
  if (rows.empty()) return {};
  std::size_t least = rows.front()->rate.launches, most = least;
  for (const BenchRow* row : rows) {
    least = std::min(least, row->rate.launches);
    most = std::max(most, row->rate.launches);
  }
  std::string text = "Medians over n = " + std::to_string(least);
  if (most != least) text += " to " + std::to_string(most);
  text += most == 1 ? " launch" : " launches";
  if (least >= 6)
    return text + "; whiskers are the 95 % interval of that median (order statistics).";
  if (most >= 6)
    return text + "; whiskers are the 95 % interval from 6 launches on, least to largest below.";
  if (least >= 2)
    return text +
           "; whiskers run from the least to the largest: under 6 launches no confidence interval "
           "can be claimed.";
  return text +
         "; whiskers are the interval over its repetitions and say nothing of other launches.";
}

std::string hollow_phrase(const Rows& rows) {
  bool noisy = false, crowded = false;
  for (const BenchRow* row : rows) {
    noisy = noisy || row->noisy > 0;
    crowded = crowded || row->oversubscribed > 0;
  }
  if (!noisy && !crowded) return {};
  return std::string(" Hollow points: ") + (noisy ? "a noisy machine" : "") +
         (noisy && crowded ? ", or " : "") + (crowded ? "more ranks than cores" : "") + ".";
}

}  // namespace shardlm::report
