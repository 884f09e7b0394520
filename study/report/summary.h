// What several launches of the same cell say together.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardlm::report {

/// Of `n` values in ascending order, the places (from 0) of the two between which the median lies
/// with a confidence of at least 95 %, whatever their distribution: order statistics, exactly by
/// the binomial distribution. None below 6 values.
std::optional<std::pair<std::size_t, std::size_t>> median_interval(std::size_t n);

/// What the ends of a Summary are.
enum class Spread {
  none,         ///< there are none
  repetitions,  ///< of one launch: the interval that it gave for itself
  range,        ///< the least and the largest of 2 to 5 launches: no interval can be claimed
  interval,     ///< the 95 % interval of the median over launches
};

struct Summary {
  std::size_t launches = 0;
  double middle = 0;  ///< the median over launches
  std::optional<double> low = {}, high = {};
  Spread spread = Spread::none;
};
Summary summarise(std::vector<double> launches);

/// "95 % interval of the median over 6 launches", "least and largest of 5 launches"
std::string spread_text(const Summary& summary);
std::string range_text(const Summary& summary);  ///< "53.6…54.3", "–"

enum class Verdict { higher, lower, no_difference, unknown };
/// Of a against b, by whether their ends overlap; unknown where one has none.
Verdict compare(const Summary& a, const Summary& b);

/// a / b with the widest ends that those of a and b allow.
Summary ratio(const Summary& a, const Summary& b);
Summary scaled(Summary summary, double factor);

}  // namespace shardlm::report
