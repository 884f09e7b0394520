// Milliseconds a token over a link that one does not have: what the ranks compute, as measured or
// predicted, and all-reduces by their formulas. The page's script does the same sum.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/cost_model.h"
#include "study/report/facts.h"

namespace shardlm::report {

/// A rank count of the what-if.
struct WhatIfRanks {
  int ranks = 1;
  double base_ms = 0;  ///< all of a step but its all-reduces and waiting for the link
  struct Choice {
    std::string name;
    CostTerms terms;
  };
  std::vector<Choice> algorithms = {};  ///< empty of one rank
};
struct WhatIf {
  std::string source;  ///< "predicted computation", "measured computation"
  std::string start;   ///< which link the start is
  double calls = 0, bytes = 0;
  LinkCost link;  ///< at the start
  std::vector<WhatIfRanks> ranks = {};
  double batch = 1;
};

std::string link_name(const LinkClass& link);  ///< "node", "shm, latency_us=50"

/// Nothing if the study decoded on no more than one rank.
std::optional<WhatIf> make_what_if(const Facts& facts);

struct WhatIfStep {
  double ms = 0;
  std::string algorithm = {};  ///< the quickest
};
WhatIfStep what_if_step(const WhatIf& w, const WhatIfRanks& r, const LinkCost& link);

}  // namespace shardlm::report
