// Files above 4 GiB, without the disk space: all but the header is a hole.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

// The tensor table of GPT-2 XL in F32: n_embd 1600, 48 layers, 1024 positions, 50257 ids.
class XlTable {
 public:
  XlTable() {
    add("wte.weight", 50257, 1600);
    add("wpe.weight", 1024, 1600);
    for (int i = 0; i < 48; ++i) {
      const std::string h = fmt::format("h.{}.", i);
      add(h + "ln_1.weight", 1, 1600), add(h + "ln_1.bias", 1, 1600);
      add(h + "attn.c_attn.weight", 1600, 4800), add(h + "attn.c_attn.bias", 1, 4800);
      add(h + "attn.c_proj.weight", 1600, 1600), add(h + "attn.c_proj.bias", 1, 1600);
      add(h + "ln_2.weight", 1, 1600), add(h + "ln_2.bias", 1, 1600);
      add(h + "mlp.c_fc.weight", 1600, 6400), add(h + "mlp.c_fc.bias", 1, 6400);
      add(h + "mlp.c_proj.weight", 6400, 1600), add(h + "mlp.c_proj.bias", 1, 1600);
    }
    add("ln_f.weight", 1, 1600), add("ln_f.bias", 1, 1600);
  }
  std::string header() const { return header_ + "}"; }
  std::uint64_t bytes() const { return end_; }

 private:
  void add(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    const std::uint64_t begin = end_;
    end_ += rows * cols * 4;
    header_ += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{},{}],"data_offsets":[{},{}]}})",
                           begin == 0 ? "" : ",", name, rows, cols, begin, end_);
  }

  std::string header_ = "{";
  std::uint64_t end_ = 0;
};

TEST(SparseFile, trap117_offsets_and_sizes_have_64_bits) {
  const XlTable table;
  ASSERT_EQ(table.bytes(), 6'230'444'800U);  // 1,557,611,200 parameters
  const test::TempFolder folder;
  const std::string head = test::safetensors(table.header());
  const auto path = folder.write("model.safetensors", head);
  std::filesystem::resize_file(path, head.size() + table.bytes());

  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.file_bytes(), head.size() + 6'230'444'800U);
  EXPECT_EQ(file.data().size(), 6'230'444'800U);
  std::int64_t parameters = 0;
  for (const HostTensor& tensor : file.tensors()) parameters += tensor.elements();
  EXPECT_EQ(parameters, 1'557'611'200);

  // The last tensor, ln_f.bias, begins 1600 floats before the end; mark its third value.
  const std::uint64_t begin = 6'230'444'800U - 1600 * 4;
  const HostTensor& last = file.tensors().back();
  EXPECT_EQ(last.name, "ln_f.bias");
  EXPECT_EQ(static_cast<std::uint64_t>(last.bytes.data() - file.data().data()), begin);
  std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(head.size() + begin + 2 * 4));
  out.write("\x00\x00\x20\x41", 4);
  out.close();  // 10.0
  std::vector<float> values(4);
  last.read(0, values);
  EXPECT_EQ(values, (std::vector<float>{0, 0, 10, 0}));
}

// A row beyond 2^32 bytes inside one tensor: [1100000, 1000] F32 is 4.4 GB.
TEST(SparseFile, trap117_rows_beyond_4_gib_are_found) {
  const test::TempFolder folder;
  const std::string head = test::safetensors(
      R"({"x":{"dtype":"F32","shape":[1100000,1000],"data_offsets":[0,4400000000]}})");
  const auto path = folder.write("model.safetensors", head);
  std::filesystem::resize_file(path, head.size() + 4'400'000'000U);
  std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(head.size() + 4 * 1'099'999'000LL));
  out.write("\x00\x00\x20\x41", 4);
  out.close();

  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<float> row(2);
  file.tensors()[0].read(1'099'999'000, row);
  EXPECT_EQ(row, (std::vector<float>{10, 0}));
}

}  // namespace
}  // namespace shardlm
