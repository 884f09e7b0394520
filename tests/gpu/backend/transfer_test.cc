// What goes to the device comes back, whatever its type, shape and stride.
#include <cmath>

#include "backend/cuda/transfer.h"
#include "base/error.h"
#include "tests/gpu/backend/device_backend.h"

namespace shardlm::cuda {
namespace {

class Types : public testing::TestWithParam<DType> {};

TEST_P(Types, AMatrixComesBackAsItWas) {
  CudaBackend backend({.precision = all_of(GetParam())});
  for (const auto& [rows, cols] : {std::pair{1, 1}, {3, 5}, {17, 64}, {2, 1000}, {0, 7}, {4, 0}}) {
    const HostMatrix m = random_matrix(rows, cols, 1, GetParam());
    EXPECT_EQ(download(backend, upload(backend, m, true)).data, m.data) << rows << "x" << cols;
  }
}

TEST_P(Types, AViewIsFilledAndReadWithoutItsNeighbours) {
  CudaBackend backend({.precision = all_of(GetParam())});
  const HostMatrix whole = random_matrix(6, 10, 1, GetParam());
  const HostMatrix part = random_matrix(2, 3, 2, GetParam());
  const Tensor t = upload(backend, whole, true);
  const Tensor view = t.row_range(3, 5).columns(4, 7);
  backend.upload(part.data, view);
  EXPECT_EQ(download(backend, view).data, part.data);
  HostMatrix expected = whole;
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 3; ++c) expected.at(3 + r, 4 + c) = part.at(r, c);
  }
  EXPECT_EQ(download(backend, t).data, expected.data);
}

TEST_P(Types, MatricesAbovePageLockedPiecesGoInSeveral) {
  CudaBackend backend({.precision = all_of(GetParam())});
  constexpr auto kPiece = static_cast<std::int64_t>(Transfer::kPieceBytes / 4);
  // Many rows a piece, and a row above a piece.
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{3 * kPiece / 1000, 1000}, {1, 2 * kPiece + 5}}) {
    HostMatrix m(rows, cols);
    for (std::size_t i = 0; i < m.data.size(); ++i) m.data[i] = static_cast<float>(i % 251);
    EXPECT_EQ(download(backend, upload(backend, m, true)).data, m.data);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Types, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(Transfer, SizesThatDifferAreABug) {
  CudaBackend backend({});
  const Tensor t = backend.allocate(2, 3);
  std::vector<float> five(5);
  EXPECT_THROW(backend.upload(five, t), Error);
  EXPECT_THROW(backend.download(t, five), Error);
}

TEST(Memory, TensorsOfEqualStepsTakeTurns) {
  CudaBackend backend({});
  const auto step = [&] {
    const Tensor a = backend.allocate(4, 100), b = backend.allocate(4, 300);
    EXPECT_NE(a.address(0), b.address(0));
  };
  step();
  const std::size_t first = backend.allocations();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(backend.allocations(), first);
}

TEST(Memory, RowsStartWhereTheWidestLoadMay) {
  CudaBackend backend({.precision = all_of(DType::bf16)});
  for (const std::int64_t cols : {1, 7, 8, 9}) {
    const Tensor t = backend.allocate_activation(3, cols);
    for (std::int64_t r = 0; r < 3; ++r) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.address(r)) % 16, 0U);
    }
  }
}

TEST(Precision, MixedWeightsAndActivationsAreRefused) {
  EXPECT_THROW(CudaBackend({.precision = {.weights = DType::bf16}}), Error);
  EXPECT_THROW(CudaBackend({.precision = all_of(DType::f64)}), Error);
}

}  // namespace
}  // namespace shardlm::cuda
