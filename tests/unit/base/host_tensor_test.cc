#include "base/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
HostTensor tensor_of(DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& data) {
  return {"w", dtype, std::move(shape), std::as_bytes(std::span(data)), "m.safetensors"};
}

TEST(HostTensor, shape_as_text) {
  EXPECT_EQ(shape_text(std::vector<std::int64_t>{4, 12}), "[4, 12]");
  EXPECT_EQ(shape_text({}), "[]");
}

TEST(HostTensor, elements_are_the_product_of_the_shape) {
  const auto elements = [](std::vector<std::int64_t> shape) {
    return HostTensor{"w", DType::f32, std::move(shape), {}, ""}.elements();
  };
  EXPECT_EQ(elements({}), 1);
  EXPECT_EQ(elements({0, 5}), 0);
  EXPECT_EQ(elements({50257, 1600, 100}), 8'041'120'000);
}

TEST(HostTensor, reads_any_range) {
  const std::vector<float> data = {1, 2, 3, 4, 5, 6};
  const HostTensor tensor = tensor_of(DType::f32, {2, 3}, data);
  std::vector<float> out(2);
  tensor.read(0, out);
  EXPECT_THAT(out, ElementsAre(1, 2));
  tensor.read(4, out);
  EXPECT_THAT(out, ElementsAre(5, 6));
  EXPECT_NO_THROW(tensor.read(6, {}));
}

TEST(HostTensor, converts_from_its_own_dtype) {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x7bff};  // 1, -2, 65504
  std::vector<float> out(2);
  tensor_of(DType::f16, {3}, halves).read(1, out);
  EXPECT_THAT(out, ElementsAre(-2.0F, 65504.0F));
  tensor_of(DType::bf16, {3}, std::vector<std::uint16_t>{0, 0x3f80, 0xc040}).read(1, out);
  EXPECT_THAT(out, ElementsAre(1.0F, -3.0F));
  tensor_of(DType::f64, {2}, std::vector<double>{0.5, 8}).read(0, out);
  EXPECT_THAT(out, ElementsAre(0.5F, 8.0F));
}

TEST(HostTensor, a_range_outside_is_a_bug_named_after_the_tensor) {
  const std::vector<double> data(4);
  const HostTensor tensor = tensor_of(DType::f64, {4}, data);
  std::vector<float> out(2);
  // The last ones wrap to 0 when multiplied by the 8 bytes of an element.
  for (const std::int64_t first : {std::int64_t{3}, std::int64_t{5}, std::int64_t{-1},
                                   std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 61,
                                   std::numeric_limits<std::int64_t>::max()}) {
    try {
      tensor.read(first, out);
      ADD_FAILURE() << first;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bug);
      EXPECT_THAT(error.what(), HasSubstr("read outside tensor w"));
    }
  }
}

TEST(HostTensor, a_dtype_that_is_no_float_is_refused_by_name) {
  const std::vector<std::int32_t> data = {1, 2};
  std::vector<float> out(1);
  for (const DType dtype : {DType::i32, DType::f4, DType::f6_e2m3, DType::boolean}) {
    try {
      tensor_of(dtype, {2}, data).read(0, out);
      ADD_FAILURE() << name(dtype);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model_files);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("m.safetensors"), HasSubstr("tensor w"),
                                      HasSubstr(std::string(name(dtype))), HasSubstr("BF16")));
    }
  }
}

}  // namespace
}  // namespace shardlm
