#include "backend/cuda/kernels/gather.h"

#include "backend/cuda/kernels/convert.h"
#include "tests/gpu/kernels/device.h"

namespace shardlm::cuda {
namespace {

using Layout = DeviceMatrix::Layout;

class Gather : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(Gather);
class Convert : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(Convert);

/// Rows of a table picked by plain loops; the values are exact in every type.
std::vector<double> picked(const std::vector<float>& table, std::int64_t n_rows, std::int64_t n,
                           const std::vector<std::int32_t>& ids, std::int64_t first_id) {
  std::vector<double> rows;
  for (const std::int32_t id : ids) {
    const std::int64_t row = id - first_id;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool known = row >= 0 && row < n_rows;
      rows.push_back(known ? table[static_cast<std::size_t>(row * n + i)] : 0.0);
    }
  }
  return rows;
}

TEST_P(Gather, EmbedsTheIdsOfItsShard) {
  const std::vector<std::int32_t> ids{7, 3, 9, 2, 10, -1, 7, 2147483647, -2147483647 - 1};
  const auto n_ids = static_cast<std::int64_t>(ids.size());
  const DeviceArray<std::int32_t> device_ids(ids);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t n : {1, 3, 8, 65, 1032}) {  // 1032: more chunks than threads
      for (const Layout layout : {Layout{}, Layout{.gap = 3, .offset = 1}}) {
        const auto values = random_values(7 * n, 1, dtype);  // ids 3 to 9
        const DeviceMatrix table(dtype, 7, n, values, layout);
        const DeviceMatrix out(DType::f32, n_ids, n, layout);
        embed(stream, table.view(), 3, device_ids.data(), out.view());
        stream.finish();
        EXPECT_TRUE(all_near(out.values(), picked(values, 7, n, ids, 3), 0)) << n;
      }
    }
  }
}

TEST_P(Gather, PicksRowsInTheTypeOfTheTable) {
  const std::vector<std::int32_t> ids{4, 0, -1, 2, 5};
  const DeviceArray<std::int32_t> device_ids(ids);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t n : {2, 40, 63}) {
      for (const Layout layout : {Layout{}, Layout{.gap = 8, .offset = 8}, Layout{.gap = 1}}) {
        const auto values = random_values(5 * n, 2, dtype);
        const DeviceMatrix table(dtype, 5, n, values, layout);
        const DeviceMatrix out(dtype, 5, n, layout);
        gather_rows(stream, table.view(), device_ids.data(), out.view());
        stream.finish();
        EXPECT_TRUE(all_near(out.values(), picked(values, 5, n, ids, 0), 0)) << n;
      }
    }
  }
}

TEST_P(Gather, NothingToPickIsNoLaunch) {
  const DeviceMatrix table(DType::f32, 5, 4), none(DType::f32, 0, 4), no_columns(DType::f32, 3, 0);
  const DeviceMatrix no_table(DType::f32, 0, 4), out(DType::f32, 2, 4);
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{0, 1});
  embed(stream, table.view(), 0, nullptr, none.view());
  embed(stream, no_columns.view(), 0, nullptr, no_columns.view());
  embed(stream, no_table.view(), 0, ids.data(), out.view());  // a rank without vocabulary
  stream.finish();
  EXPECT_TRUE(all_near(out.values(), std::vector<double>(8, 0.0), 0));
}

TEST_P(Convert, RoundsToNearestBetweenAllTypes) {
  for (const DType from : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t n : {1, 8, 29, 160}) {
        for (const Layout layout : {Layout{}, Layout{.gap = 5, .offset = 3}, Layout{.gap = 8}}) {
          const auto values = random_values(3 * n, 4, from, 5);
          const DeviceMatrix source(from, 3, n, values, layout), target(to, 3, n, layout);
          convert(stream, source.view(), target.view());
          stream.finish();
          const std::vector<double> want(values.begin(), values.end());
          EXPECT_TRUE(all_near(target.values(), want, smallest(to), rounding(to)));
        }
      }
    }
  }
}

TEST_P(Convert, EmptyAndUnequalShapes) {
  const DeviceMatrix none(DType::f16, 0, 4), other(DType::f32, 0, 4), more(DType::f32, 1, 4);
  convert(stream, none.view(), other.view());
  EXPECT_THROW(convert(stream, none.view(), more.view()), std::exception);
}

TEST_P(Convert, RefusesOtherTypes) {
  const DeviceMatrix x(DType::f32, 1, 4);
  MatrixView integers = x.view();
  integers.dtype = DType::i32;
  EXPECT_THROW(convert(stream, x.view(), integers), std::exception);
  EXPECT_THROW(convert(stream, integers, x.view()), std::exception);
  EXPECT_THROW(embed(stream, x.view(), 0, nullptr, integers), std::exception);
  EXPECT_THROW(gather_rows(stream, x.view(), nullptr, integers), std::exception);
}

}  // namespace
}  // namespace shardlm::cuda
