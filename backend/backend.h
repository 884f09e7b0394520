// The interface of a device, at the height of an op. One implementation a folder: cpu/ (the
// reference for every other), later cuda/. A back end knows no ranks, no files and no models: a
// shard is just a smaller matrix to it. Work may be enqueued; only download() and synchronize()
// wait. Shapes: T = rows of this step (tokens of all its sequences, one after another).
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/fixed_point.h"
#include "backend/tensor.h"
#include "base/error.h"

namespace shardlm {

/// Element types of what a back end holds. Sums, the residual stream, softmax and the statistics of
/// LayerNorm are float32 whatever these are.
struct Precision {
  DType weights = DType::f32;      ///< matrices; biases, positions and LayerNorms stay float32
  DType activations = DType::f32;  ///< between the ops of a block
  DType kv = DType::f32;           ///< keys and values in the cache
  bool operator==(const Precision&) const = default;
};

/// The type of the vocabulary's tables (embedding and head) beside such weights: int4 costs too
/// much there, since every logit hangs on one row.
inline DType table_type(DType weights) { return weights == DType::q4 ? DType::q8 : weights; }

/// Inputs that a block of matmul_fixed must be a multiple of: those that stand in one piece in a
/// matrix of such weights.
inline std::int64_t fixed_granule(DType weights) {
  if (weights == DType::q8 || weights == DType::q4) return kQuantBlock;
  return weights == DType::bf16 ? 2 : 1;
}

/// A device's memory, where it is apart from the host's.
struct DeviceMemory {
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

/// Where a weight matrix [in, out] comes from. The back end reads each row once, in any order and
/// from several threads, and keeps the matrix in a layout of its own.
struct MatrixSource {
  std::int64_t in = 0, out = 0;
  bool rows_are_outputs = false;  ///< false: row k holds the `out` weights of input k; true: row j
                                  ///< holds the `in` weights of output j
  std::function<void(std::int64_t row, std::span<float> to)> read_row;
  bool vocabulary = false;  ///< an embedding table or a head: kept as table_type() says
  /// Told, once for each row and perhaps from several threads, which rows will not be read again,
  /// so that their pages can go; may be empty.
  std::function<void(std::int64_t first_row, std::int64_t end_row)> done_with_rows = {};
};

/// A weight matrix in the back end's own layout.
class WeightMatrix {
 public:
  virtual ~WeightMatrix() = default;
  virtual std::int64_t in() const = 0;
  virtual std::int64_t out() const = 0;
  virtual std::size_t bytes() const = 0;  ///< memory held, padding included
};

struct LayerNormParams {
  Tensor weight, bias;  ///< [1, n]
  float epsilon = 1e-5F;
};

enum class Activation {
  gelu_tanh,   ///< 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  gelu_erf,    ///< 0.5 x (1 + erf(x / sqrt(2)))
  gelu_quick,  ///< x sigmoid(1.702 x)
  relu,
  silu,
  tanh,
};

/// int32 values of a step (ids, positions, row numbers): a view of the host's; and of the device's
/// once a back end has put them there (run_pass). Ops take either.
struct Indices {
  Indices() = default;
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const std::int32_t>>
  Indices(const Range& values, const std::int32_t* on_device = nullptr)  // implicit: a view
      : host(values), device(on_device) {}
  std::int64_t size() const { return std::ssize(host); }
  std::span<const std::int32_t> host;
  const std::int32_t* device = nullptr;
};

/// The rows of one sequence in a step.
struct SequenceRows {
  std::int64_t first_row = 0;
  std::int64_t n_rows = 0;
  std::int64_t start = 0;  ///< position of the first row = tokens already in the cache
  std::span<const std::int32_t> blocks;  ///< KV blocks in order; cover start + n_rows tokens
};

/// The sequences of a step; `device` is what a back end has made of them, for itself alone.
struct Sequences {
  Sequences() = default;
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const SequenceRows>>
  Sequences(const Range& rows, const void* on_device = nullptr)  // implicit: a view
      : host(rows), device(on_device) {}
  std::span<const SequenceRows> host;
  const void* device = nullptr;
};

/// One forward pass: new tokens of any number of sequences, one after another, no padding.
struct Step {
  Indices ids;          ///< [T] token ids; -1: a row that belongs to no sequence
  Indices positions;    ///< [T] position of each in its sequence
  Sequences sequences;  ///< which rows belong to which sequence
  Indices logit_rows;   ///< rows whose logits are wanted, ascending
  bool repeatable = false;  ///< nobody listens to what happens inside, and no collective of the
                            ///< pass needs the host: it may be recorded and replayed
};

/// The key/value blocks of one layer for the heads that live here; laid out by the back end.
class KvStorage {
 public:
  virtual ~KvStorage() = default;
  virtual std::int64_t n_head() const = 0;
  virtual std::int64_t head_dim() const = 0;
  virtual std::int64_t n_blocks() const = 0;
  virtual std::int64_t block_tokens() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// What a row of the residual stream becomes: x += sum of the addends in their order, + bias; and,
/// if `norm`, normed = layer_norm(x). Float32 throughout, in exactly this order.
struct ResidualUpdate {
  const Tensor* bias = nullptr;           ///< [1, n] or none
  Tensor* residual = nullptr;             ///< [T, n]
  const LayerNormParams* norm = nullptr;  ///< none: `normed` stays untouched
  Tensor* normed = nullptr;               ///< [T, n]
};

/// A logit of one vocabulary id that is changed before sampling.
struct LogitPenalty {
  std::int32_t id = 0;    ///< global id
  bool repeated = false;  ///< repetition: logit > 0 ? logit / repetition : logit * repetition
  float subtract = 0;     ///< presence + count * frequency
};

/// A place in the order of penalised logits (higher first, equal ones by the lower id).
struct LogitBound {
  float penalised = 0;
  std::int32_t id = 0;  ///< global id
};
inline constexpr std::size_t kLogitBounds = 4;  ///< most that a query may name

/// A question about one row of a vocabulary shard's logits. A reply may hold more than was asked.
struct LogitQuery {
  float repetition = 1;                          ///< factor for the `repeated` penalties
  std::span<const LogitPenalty> penalties = {};  ///< sorted by id; may hold ids of other shards
  double temperature = 0;                        ///< 0: candidates by penalised logit alone
  int n_candidates = 1;                          ///< best penalised ids wanted (ties: lowest id)
  bool noise = false;  ///< rank candidates by logit / temperature + Gumbel(seed, sequence,
                       ///< position, id) instead: the best one is then an exact sample
  std::uint64_t seed = 0, sequence = 0, position = 0;
  int n_top = 0;             ///< best raw ids wanted, for log-probabilities
  std::int32_t target = -1;  ///< an id whose raw logit is wanted; -1: none
  bool raw_sum = true;       ///< LogitReply::raw.sum is wanted, which costs an exponential an id
  bool tempered_sum = true;  ///< the same of LogitReply::tempered
  int n_bounds = 0;          ///< bounds[0 .. n_bounds): LogitReply::before is wanted
  std::array<LogitBound, kLogitBounds> bounds{};
};

struct Candidate {
  std::int32_t id = 0;  ///< global id
  float raw = 0;        ///< the logit
  float penalised = 0;  ///< the logit after penalties
  double score = 0;     ///< what ranks it: penalised, or with noise penalised / temperature + noise
};

/// Sum of exp(x - max) over a set of logits, kept apart from its max so that shards can be joined.
struct LogSumExp {
  double max = 0;  ///< -infinity if the set is empty
  double sum = 0;
};

struct LogitReply {
  std::int32_t first_bad_id = -1;  ///< first allowed id with a logit that is not finite
  LogSumExp raw;                   ///< over the shard's allowed ids; sum if asked for
  LogSumExp tempered;              ///< of penalised / temperature (temperature 0: of penalised)
  /// As tempered.sum, over the ids that come before a bound.
  std::array<double, kLogitBounds> before{};
  std::vector<Candidate> candidates;  ///< best first; all of the shard if it has fewer
  std::vector<Candidate> top;         ///< best raw first
  std::optional<float> target;        ///< raw logit of the target if it is of this shard
};

/// What the rows of a logits tensor stand for.
struct VocabShard {
  std::int32_t begin = 0;                 ///< global id of column 0
  std::span<const std::uint8_t> allowed;  ///< one a column: 0 = never looked at (no token)
};

/// One device of one rank. Not for use from several threads at once.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string describe() const = 0;  ///< "cpu AVX3 2 threads"
  virtual Precision precision() const = 0;
  /// Free and total memory of a device that has its own; none: it is the host's.
  virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  /// "123 MiB of weights, 100 % in huge pages": what the weights got; may be empty.
  virtual std::string describe_weights() const { return {}; }

  // Memory. allocate() takes from a pool: steps of equal shapes settle to no allocation at all.
  // Contents are undefined; a device may pad the rows.
  Tensor allocate(std::int64_t rows, std::int64_t cols) { return take(rows, cols, DType::f32); }
  Tensor allocate_activation(std::int64_t rows, std::int64_t cols) {
    return take(rows, cols, precision().activations);
  }
  /// For matmul_fixed.
  Tensor allocate_fixed(std::int64_t rows, std::int64_t cols) {
    return take(rows, cols, DType::i64);
  }
  virtual std::size_t allocations() const = 0;  ///< how often the pool had to grow
  virtual std::unique_ptr<WeightMatrix> make_matrix(const MatrixSource& source) = 0;
  virtual std::unique_ptr<KvStorage> make_kv_storage(std::int64_t n_head, std::int64_t head_dim,
                                                     std::int64_t n_blocks,
                                                     std::int64_t block_tokens) = 0;
  /// Row by row, to and from float32.
  virtual void upload(std::span<const float> from, const Tensor& to) = 0;
  virtual void download(const Tensor& from, std::span<float> to) = 0;
  virtual void synchronize() = 0;

  /// `poll` is called now and then on the caller's thread while it computes; empty: no more. A back
  /// end whose caller does not compute need not call it.
  virtual void set_poll(std::function<void()> /*poll*/) {}

  /// Runs `pass`, which enqueues one forward pass over the step that it is given and returns its
  /// logits. A back end may pad the step, and may record what a pass enqueues and replay it for
  /// later steps of the same form instead of calling `pass`: so all that varies from step to step
  /// is in the step. The logits have at least as many rows as were asked for; they hold until the
  /// next pass.
  using Pass = std::function<Tensor(const Step&)>;
  virtual Tensor run_pass(const Step& step, const Pass& pass) { return pass(step); }

  /// out[t] (float32) = column ids[t] - first_id of the table (an output of the matrix), 0 if it
  /// has none.
  virtual void embed(const WeightMatrix& table, const Indices& ids, std::int32_t first_id,
                     const Tensor& out) = 0;
  /// out[t] = table row ids[t]; for tables that every rank holds (positions).
  virtual void gather_rows(const Tensor& table, const Indices& ids, const Tensor& out) = 0;
  /// out[t, j] = bias[j] + sum over k ascending of x[t, k] w[k, j]: one chain of fused
  /// multiply-adds that starts at the bias (or 0), whatever T and whatever columns are here.
  virtual void matmul(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                      const Tensor& out) = 0;
  /// out [T, n], DType::i64: x w in fixed point (backend/fixed_point.h), the inputs cut into blocks
  /// of `block`, a multiple of fixed_granule(). Returns the first block's sum that does not fit, by
  /// row and output; `out` then means nothing. The CPU back end's alone.
  virtual std::optional<FixedMisfit> matmul_fixed(const Tensor& /*x*/, const WeightMatrix& /*w*/,
                                                  std::int64_t /*block*/, const Tensor& /*out*/) {
    fail(ExitCode::usage, {.what = "exact sums",
                           .expected = "the CPU back end",
                           .found = describe(),
                           .remedy = "use --backend cpu, or --reduction ordered"});
  }
  /// out = activation(x w + bias), fused where the back end can.
  virtual void matmul_activate(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                               Activation kind, const Tensor& out) {
    matmul(x, w, bias, out);
    activate(kind, out);
  }
  virtual void layer_norm(const Tensor& x, const LayerNormParams& norm, const Tensor& out) = 0;
  virtual void activate(Activation kind, const Tensor& x) = 0;  ///< in place
  /// Appends the step's keys and values to the cache, then attends causally:
  /// out[t, h] = softmax(scale q[t, h] . K[0..pos(t), h]) V. q, k, v, out: [T, n_head * head_dim].
  /// A row's result depends on its own sequence alone, not on how the tokens were cut into steps.
  virtual void attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStorage& cache,
                         const Sequences& sequences, float scale, const Tensor& out) = 0;
  /// qkv = x w + bias, then attention() over its thirds q, k and v: one op where the back end can
  /// give a thread the projection of the heads that it attends with.
  virtual void project_and_attend(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                                  const Tensor& qkv, KvStorage& cache, const Sequences& sequences,
                                  float scale, const Tensor& out) {
    matmul(x, w, bias, qkv);
    const std::int64_t width = qkv.cols() / 3;
    attention(qkv.columns(0, width), qkv.columns(width, 2 * width),
              qkv.columns(2 * width, 3 * width), cache, sequences, scale, out);
  }
  /// See ResidualUpdate. The addends [T, n] may stand in memory of other ranks. On the CPU they may
  /// be in fixed point (DType::i64, all of them): their sum, of integers, becomes one float addend.
  virtual void update_residual(std::span<const Tensor> addends, const ResidualUpdate& update) = 0;
  /// Row by row: best candidates, log-sum-exp and more of a vocabulary shard (row i of the tensor
  /// answers queries[i]).
  virtual void query_logits(const Tensor& logits, const VocabShard& shard,
                            std::span<const LogitQuery> queries, std::span<LogitReply> replies) = 0;

 private:
  virtual Tensor take(std::int64_t rows, std::int64_t cols, DType dtype) = 0;
};

}  // namespace shardlm
