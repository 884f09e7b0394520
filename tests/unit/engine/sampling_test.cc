#include "engine/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

void expect_refused(const SamplingParams& params, const char* flag, const char* value) {
  try {
    validate(params);
    ADD_FAILURE() << flag << " " << value << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(flag));
    EXPECT_THAT(error.what(), HasSubstr(value));
  }
}

TEST(SamplingParams, WrongValuesAreRefusedByTheirFlag) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  expect_refused({.temperature = -1}, "--temperature", "-1");
  expect_refused({.temperature = nan}, "--temperature", "nan");
  expect_refused({.temperature = inf}, "--temperature", "inf");
  expect_refused({.top_k = -2}, "--top-k", "-2");
  expect_refused({.top_p = 1.5}, "--top-p", "1.5");
  expect_refused({.top_p = -0.1}, "--top-p", "-0.1");
  expect_refused({.top_p = nan}, "--top-p", "nan");
  expect_refused({.min_p = 1.1}, "--min-p", "1.1");
  expect_refused({.min_p = nan}, "--min-p", "nan");
  expect_refused({.repetition_penalty = 0}, "--repetition-penalty", "0");
  expect_refused({.repetition_penalty = -1}, "--repetition-penalty", "-1");
  expect_refused({.repetition_penalty = inf}, "--repetition-penalty", "inf");
  expect_refused({.presence_penalty = nan}, "--presence-penalty", "nan");
  expect_refused({.frequency_penalty = -inf}, "--frequency-penalty", "-inf");
  expect_refused({.logprobs = -2}, "--logprobs", "-2");
}

TEST(SamplingParams, EdgesAreAccepted) {
  validate({});
  validate({.temperature = 1e30, .top_k = 1LL << 31, .top_p = 0, .min_p = 1});
  validate({.temperature = 0,
            .top_k = -1,
            .repetition_penalty = 0.5,
            .presence_penalty = -2,
            .frequency_penalty = 2,
            .logprobs = 0});
}

}  // namespace
}  // namespace shardlm
