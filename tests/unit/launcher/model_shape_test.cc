#include "launcher/model_shape.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelConfig shape(const std::string& text) { return parse_shape(text, "--shape"); }

std::string refusal(const std::string& text) {
  try {
    shape(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "no error";
}

// The published numbers of parameters.
TEST(ModelShape, KnowsTheSizesOfGpt2) {
  EXPECT_EQ(parameter_count(shape("gpt2")), 124'439'808);
  EXPECT_EQ(parameter_count(shape("gpt2-medium")), 354'823'168);
  EXPECT_EQ(parameter_count(shape("gpt2-large")), 774'030'080);
  EXPECT_EQ(parameter_count(shape("gpt2-xl")), 1'557'611'200);
  EXPECT_EQ(shape("gpt2-xl").n_head, 25);
  EXPECT_EQ(shape("gpt2-medium").n_positions, 1024);
}

// Within 2 % of the published numbers: those are rounded, and count what is sparse alike.
TEST(ModelShape, KnowsLargerOnes) {
  const auto billions = [](const char* name) {
    return static_cast<double>(parameter_count(shape(name))) * 1e-9;
  };
  EXPECT_NEAR(billions("gpt3-2.7b"), 2.7, 0.02 * 2.7);
  EXPECT_NEAR(billions("gpt3-6.7b"), 6.7, 0.02 * 6.7);
  EXPECT_NEAR(billions("gpt3-13b"), 13, 0.02 * 13);
  EXPECT_NEAR(billions("opt-66b"), 66, 0.02 * 66);
  EXPECT_NEAR(billions("gpt3-175b"), 175, 0.02 * 175);
  EXPECT_EQ(shape("gpt3-2.7b").head_dim(), 80);
  EXPECT_EQ(shape("gpt3-175b").head_dim(), 128);
  EXPECT_EQ(shape("gpt3-175b").n_positions, 2048);
  EXPECT_EQ(shape("gpt3-175b,n_positions=64").n_positions, 64);
  EXPECT_EQ(shape("gpt2").n_positions, 1024);
}

TEST(ModelShape, RefusesWhatNoCounterHolds) {
  EXPECT_THAT(refusal("n_layer=16777216,n_embd=16777216,n_head=1"),
              AllOf(HasSubstr("at most 1e+15 parameters"), HasSubstr("--shape")));
  EXPECT_THAT(refusal("vocab_size=16777216,n_positions=16777216,n_embd=16777216,n_head=1,n_layer=1"),
              HasSubstr("parameters"));
}

TEST(ModelShape, FillsUpWithGpt2) {
  const ModelConfig c = shape("n_layer=48,n_embd=1600,n_head=25");
  EXPECT_EQ(parameter_count(c), parameter_count(shape("gpt2-xl")));
  const ModelConfig d = shape("n_embd=64,n_head=4,n_inner=100,n_positions=20,vocab_size=11");
  EXPECT_EQ(d.n_layer, 12);
  EXPECT_EQ(d.n_inner, 100);
  EXPECT_EQ(d.n_positions, 20);
  EXPECT_EQ(d.vocab_size, 11);
  const ModelConfig e = shape("gpt2-xl,n_layer=6,n_embd=800");
  EXPECT_EQ(e.n_layer, 6);
  EXPECT_EQ(e.n_inner, 3200);
  EXPECT_EQ(e.n_head, 25);
}

TEST(ModelShape, RefusesWhatIsNone) {
  EXPECT_THAT(refusal("gpt3"), AllOf(HasSubstr("--shape"), HasSubstr("\"gpt3\"")));
  EXPECT_THAT(refusal("n_layr=3"), HasSubstr("did you mean n_layer"));
  EXPECT_THAT(refusal("n_layer=3,gpt2"), HasSubstr("\"gpt2\""));
  EXPECT_THAT(refusal("n_layer"), HasSubstr("\"n_layer\""));
  EXPECT_THAT(refusal("n_layer=3,n_layer=4"), HasSubstr("n_layer is given twice"));
  EXPECT_THAT(refusal("n_layer=0"), AllOf(HasSubstr("n_layer"), HasSubstr("from 1 to")));
  EXPECT_THAT(refusal("n_layer=99999999"), HasSubstr("from 1 to"));
  EXPECT_THAT(refusal("n_layer="), HasSubstr("\"\""));
  EXPECT_THAT(refusal("n_embd=100,n_head=3"), AllOf(HasSubstr("divisor"), HasSubstr("found 3")));
  EXPECT_THAT(refusal("gpt2,,n_layer=3"), HasSubstr("commas"));
}

}  // namespace
}  // namespace shardlm
