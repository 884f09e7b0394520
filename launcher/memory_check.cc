#include "launcher/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "launcher/bytes_text.h"

namespace shardlm {
namespace {

std::string text_of(std::int64_t bytes) { return bytes_text(static_cast<std::uint64_t>(bytes)); }

bool fits(const MemoryNeed& need, std::uint64_t free_bytes) {
  return static_cast<std::uint64_t>(need.total()) <= free_bytes;
}

MemoryNeed with_types(MemoryQuestion question, DType weights, DType kv) {
  question.precision = {.weights = weights, .activations = weights, .kv = kv};
  return need_on_gpu(question);
}

}  // namespace

MemoryNeed need_on_gpu(const MemoryQuestion& q) {
  const std::vector<RankShare> shares = shard_plan(q.config, q.ranks, q.precision);
  MemoryNeed sum;
  for (const int rank : q.sharers) {
    const MemoryNeed need =
        memory_need(q.config, shares.at(static_cast<std::size_t>(rank)), q.precision, q.sizes);
    sum.weights += need.weights;
    sum.kv += need.kv;
    sum.workspace += need.workspace;
  }
  return sum;
}

std::string need_text(const MemoryNeed& need) {
  return fmt::format("{} (weights {}, keys and values {}, workspace {})", text_of(need.total()),
                     text_of(need.weights), text_of(need.kv), text_of(need.workspace));
}

int ranks_that_fit(const MemoryQuestion& q, std::uint64_t free_bytes) {
  constexpr int kMost = 1024;
  for (int ranks = q.ranks + 1; ranks <= kMost; ++ranks) {
    // Rank 0's share is the largest of each part.
    const RankShare largest = shard_plan(q.config, ranks, q.precision).front();
    if (fits(memory_need(q.config, largest, q.precision, q.sizes), free_bytes)) return ranks;
  }
  return 0;
}

std::string memory_remedy(const MemoryQuestion& q, std::uint64_t free_bytes) {
  std::vector<std::string> ways;
  if (q.precision.weights == DType::f32) {
    if (fits(with_types(q, DType::bf16, DType::bf16), free_bytes)) ways.push_back("--dtype bf16");
  } else if (q.precision.kv == DType::f32) {
    if (fits(with_types(q, q.precision.weights, q.precision.weights), free_bytes))
      ways.push_back("--kv-dtype auto");
  }
  if (const int ranks = ranks_that_fit(q, free_bytes); ranks > 0) {
    ways.push_back(fmt::format("{} ranks with such a GPU each", ranks));
  }
  if (ways.empty()) return "use GPUs with more memory, or fewer or shorter texts";
  return fmt::format("would fit: {}", fmt::join(ways, ", or "));
}

void check_memory(const MemoryQuestion& question, const DeviceMemory& memory,
                  const std::string& device) {
  const MemoryNeed need = need_on_gpu(question);
  if (fits(need, memory.free_bytes)) return;
  fail(ExitCode::resources,
       {.what = question.sharers.size() == 1
                    ? "the model does not fit"
                    : fmt::format("the parts of {} ranks do not fit", question.sharers.size()),
        .expected = need_text(need),
        .found = fmt::format("{} free of {}", bytes_text(memory.free_bytes),
                             bytes_text(memory.total_bytes)),
        .where = device,
        .remedy = memory_remedy(question, memory.free_bytes)});
}

}  // namespace shardlm
