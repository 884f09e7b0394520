#include "backend/cpu/read_bandwidth.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardlm {
namespace {

TEST(ReadBandwidth, ReadsEveryFloat) {
  std::vector<float> data(4096, 1);
  EXPECT_EQ(read_all(data.data(), 4096), 4096);  // exact in float32
  data[4095] = 3;
  data[1024] = 5;
  EXPECT_EQ(read_all(data.data(), 4096), 4102);
  EXPECT_EQ(read_all(data.data(), 1024), 1024);
  EXPECT_EQ(read_all(data.data(), 0), 0);
}

TEST(ReadBandwidth, MeasuresWholePages) {
  for (const int threads : {1, 3}) {
    ReadBandwidth memory(100'001, threads);
    EXPECT_EQ(memory.bytes(), 25U * 4096);
    EXPECT_GT(memory.pass_s(), 0);
  }
  EXPECT_EQ(ReadBandwidth(0, 1).bytes(), 4096U);
}

}  // namespace
}  // namespace shardlm
