#include "backend/cuda/logit_queries.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/query_logits.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/query_logits.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

// Nothing uses the old memory any more: every run() ends with a wait.
void grow(DeviceBlock& block, std::size_t bytes) {
  if (bytes > block.bytes()) block = DeviceBlock(std::bit_ceil(bytes), "questions about logits");
}
void grow(PinnedBlock& block, std::size_t bytes) {
  if (bytes > block.bytes()) block = PinnedBlock(std::bit_ceil(bytes));
}

}  // namespace

const std::uint8_t* LogitQueries::allowed_on_device(std::span<const std::uint8_t> allowed) {
  if (!std::equal(allowed.begin(), allowed.end(), allowed_copy_.begin(), allowed_copy_.end())) {
    allowed_copy_.assign(allowed.begin(), allowed.end());
    allowed_ = DeviceBlock(allowed.size(), "flags of the vocabulary");
    check_cuda(cudaMemcpyAsync(allowed_.data(), allowed_copy_.data(), allowed.size(),
                               cudaMemcpyHostToDevice, stream_.get()),
               "copying the vocabulary's flags");
  }
  return reinterpret_cast<const std::uint8_t*>(allowed_.data());
}

void LogitQueries::run(const MatrixView& logits, const VocabShard& shard,
                       std::span<const LogitQuery> queries, std::span<LogitReply> replies) {
  check(logits.rows == std::ssize(queries) && queries.size() == replies.size(),
        "query_logits: one query and one reply a row");
  check(std::ssize(shard.allowed) == logits.cols, "query_logits: one flag a column");
  if (queries.empty()) return stream_.wait();
  const LogitPlan plan = plan_logit_queries(queries, shard.begin, logits.cols);
  grow(pinned_upload_, plan.upload_bytes);
  grow(pinned_reply_, plan.reply_bytes);
  grow(upload_, plan.upload_bytes);
  grow(reply_, plan.reply_bytes);
  grow(scratch_, plan.scratch_bytes);
  pack_logit_queries(queries, plan, {pinned_upload_.data(), plan.upload_bytes});
  check_cuda(cudaMemcpyAsync(upload_.data(), pinned_upload_.data(), plan.upload_bytes,
                             cudaMemcpyHostToDevice, stream_.get()),
             "copying questions to the device");
  query_logits(stream_.get(), logits, plan,
               {.allowed = allowed_on_device(shard.allowed),
                .upload = upload_.data(),
                .scratch = scratch_.data(),
                .reply = reply_.data()});
  check_cuda(cudaMemcpyAsync(pinned_reply_.data(), reply_.data(), plan.reply_bytes,
                             cudaMemcpyDeviceToHost, stream_.get()),
             "copying answers from the device");
  stream_.wait();
  unpack_logit_replies(queries, plan, {pinned_reply_.data(), plan.reply_bytes}, replies);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (queries[i].n_bounds > 0) answer_on_host(logits, i, shard, queries[i], replies[i]);
  }
}

// Masses before a bound are asked for in few steps, of flat distributions: no kernel is worth it.
void LogitQueries::answer_on_host(const MatrixView& logits, std::size_t row,
                                  const VocabShard& shard, const LogitQuery& query,
                                  LogitReply& reply) {
  host_row_.resize(static_cast<std::size_t>(logits.cols));
  const float* from =
      static_cast<const float*>(logits.data) + static_cast<std::int64_t>(row) * logits.stride;
  // Nothing is left in the stream: its end was waited for with the other answers.
  check_cuda(cudaMemcpy(host_row_.data(), from, host_row_.size() * sizeof(float),
                        cudaMemcpyDeviceToHost),
             "copying logits from the device");
  query_logits_cpu(Tensor::borrow(host_row_.data(), 1, logits.cols), shard, {&query, 1},
                   {&reply, 1});
}

}  // namespace shardlm::cuda
