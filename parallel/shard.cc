#include "parallel/shard.h"

namespace shardlm {

std::int64_t total_size(std::span<const Range> ranges) {
  std::int64_t total = 0;
  for (const Range& r : ranges) total += r.size();
  return total;
}

namespace {

// Reads `ranges` of one stored row, side by side.
void read_ranges(const HostTensor& tensor, std::int64_t row_start, std::span<const Range> ranges,
                 std::span<float> to) {
  std::size_t at = 0;
  for (const Range& r : ranges) {
    const auto n = static_cast<std::size_t>(r.size());
    tensor.read(row_start + r.begin, to.subspan(at, n));
    at += n;
  }
}

// The stored row that holds the i-th element of the concatenated ranges.
std::int64_t pick(std::span<const Range> ranges, std::int64_t i) {
  for (const Range& r : ranges) {
    if (i < r.size()) return r.begin + i;
    i -= r.size();
  }
  return -1;  // not reached: i < total_size(ranges)
}

// The inputs and outputs of a matrix that this rank keeps, whichever way round the file has it.
std::unique_ptr<WeightMatrix> load_cut(Backend& backend, WeightSource& source,
                                       const HostMatrix& matrix, const std::vector<Range>& inputs,
                                       const std::vector<Range>& outputs) {
  const bool by_output = matrix.rows_are_outputs;
  const std::vector<Range>& rows = by_output ? outputs : inputs;
  const std::vector<Range>& cols = by_output ? inputs : outputs;
  const std::int64_t row_length = by_output ? matrix.in : matrix.out;
  MatrixSource cut{.in = total_size(inputs),
                   .out = total_size(outputs),
                   .rows_are_outputs = by_output,
                   .read_row =
                       [&](std::int64_t i, std::span<float> to) {
                         read_ranges(matrix.tensor, pick(rows, i) * row_length, cols, to);
                       },
                   .vocabulary = matrix.vocabulary,
                   .done_with_rows =
                       [&](std::int64_t first, std::int64_t end) {
                         const std::int64_t from = pick(rows, first), to = pick(rows, end - 1) + 1;
                         source.done_with(matrix.tensor, from * row_length,
                                          (to - from) * row_length);
                       }};
  const DType weights = backend.precision().weights;
  source.took(matrix.tensor, cut.in * cut.out, cut.vocabulary ? table_type(weights) : weights);
  return backend.make_matrix(cut);
}

}  // namespace

std::unique_ptr<WeightMatrix> load_columns(Backend& backend, WeightSource& source,
                                           const HostMatrix& matrix,
                                           const std::vector<Range>& columns) {
  return load_cut(backend, source, matrix, {{0, matrix.in}}, columns);
}

std::unique_ptr<WeightMatrix> load_rows(Backend& backend, WeightSource& source,
                                        const HostMatrix& matrix, Range rows) {
  return load_cut(backend, source, matrix, {rows}, {{0, matrix.out}});
}

Tensor load_vector(Backend& backend, WeightSource& source, const HostTensor& vector,
                   std::span<const Range> ranges) {
  std::vector<float> values(static_cast<std::size_t>(total_size(ranges)));
  read_ranges(vector, 0, ranges, values);
  Tensor out = backend.allocate_activation(1, total_size(ranges));
  backend.upload(values, out);
  source.took(vector, out.elements(), out.dtype());
  return out;
}

Tensor load_replicated(Backend& backend, WeightSource& source, const HostTensor& tensor) {
  const std::int64_t cols = tensor.shape.back();
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  tensor.read(0, values);
  Tensor out = backend.allocate(cols == 0 ? 1 : tensor.elements() / cols, cols);
  backend.upload(values, out);
  source.took(tensor, tensor.elements(), DType::f32);
  source.done_with(tensor, 0, tensor.elements());
  return out;
}

}  // namespace shardlm
