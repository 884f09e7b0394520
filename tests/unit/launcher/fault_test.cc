#include "launcher/fault.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shardlm {
namespace {

TEST(Fault, strikes_the_named_rank_at_the_named_step) {
  const Fault mine = Fault::parse("rank=2,stage=token:10,action=throw", 2);
  EXPECT_NO_THROW(mine.at_load());
  const StepHook hook = mine.step_hook();
  ASSERT_TRUE(hook);
  EXPECT_NO_THROW(hook(9));
  EXPECT_THROW(hook(10), Error);
  EXPECT_FALSE(Fault::parse("rank=2,stage=token:10,action=throw", 1).step_hook());
  EXPECT_THROW(Fault::parse("rank=0,stage=load,action=throw", 0).at_load(), Error);
  EXPECT_NO_THROW(Fault::parse("rank=0,stage=load,action=throw", 0).at_end());
  const Fault end = Fault::parse("rank=0,stage=end,action=throw", 0);
  EXPECT_NO_THROW(end.at_load());
  EXPECT_FALSE(end.step_hook());
  EXPECT_THROW(end.at_end(), Error);
  EXPECT_THROW(Fault::parse("rank=0,stage=forward,action=throw", 0).step_hook()(0), Error);
}

TEST(Fault, a_text_that_means_nothing_is_refused) {
  for (const char* text : {"", "rank=x,stage=load,action=throw", "rank=1,stage=load",
                           "rank=1,stage=never,action=kill", "rank=1,stage=end,action=sleep"}) {
    EXPECT_THROW(Fault::parse(text, 0), Error) << text;
  }
}

}  // namespace
}  // namespace shardlm
