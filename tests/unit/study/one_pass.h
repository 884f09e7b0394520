// A pass of two ranks in a run of 1000 ns, small enough to add up by hand:
//
//   rank 0   other 100 | plan 10 | 190 | embed 100, waits 50 | 200 | attention 50 | 50 | answers
//   100
//            | other 200
//   rank 1   plan 120, waits 100 | 230 | embed 50 | 100 | attention 160, waits 100 | 30 | answers
//   10
//            | other 300
#pragma once

#include "tests/unit/study/made_up.h"

namespace shardlm {

inline MadeUp one_pass() {
  MadeUp made(2, 0, 1000);
  made.call(Op::broadcast, {SiteKind::step}, 40, {{100, 110}, {0, 120}});
  made.step({1, Phase::decode, 1}, {{110, 700}, {120, 690}});
  made.wire_tx = 24;
  made.sum({SiteKind::embed}, 24, {{300, 400}, {350, 400}});
  made.sum({SiteKind::attn_out, 0}, 24, {{600, 650}, {500, 660}});
  made.wire_tx = -1;
  made.call(Op::gather, {SiteKind::lm_head}, 16, {{700, 800}, {690, 700}});
  return made;
}

}  // namespace shardlm
