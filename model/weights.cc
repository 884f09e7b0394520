#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "io/mapped_file.h"

namespace shardlm {
namespace {

constexpr std::string_view kFirstNorm = "h.0.ln_1.weight";  // in every GPT-2, whatever the prefix

bool is_mask_buffer(std::string_view name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

[[noreturn]] void refuse(const HostTensor& t, const std::string& what, const std::string& expected,
                         const std::string& found, const std::string& remedy = {}) {
  fail(ExitCode::model_files, {.what = fmt::format("tensor {}: {}", t.name, what),
                               .expected = expected,
                               .found = found,
                               .where = t.file,
                               .remedy = remedy});
}

// Which config fields a shape comes from, so that a message can name both sides.
std::string shape_meaning(const std::string& name, const ModelConfig& c) {
  if (name == "wpe.weight")
    return fmt::format(" (n_positions {}, n_embd {})", c.n_positions, c.n_embd);
  if (name == "wte.weight" || name == "lm_head.weight") {
    return fmt::format(" (vocab_size {}, n_embd {})", c.vocab_size, c.n_embd);
  }
  return fmt::format(" (n_embd {}, n_inner {})", c.n_embd, c.n_inner);
}

}  // namespace

CheckpointWeights::CheckpointWeights(const Checkpoint& checkpoint, const ModelConfig& config)
    : checkpoint_(checkpoint), config_(config) {
  find_prefix();
  find_orientation();
}

void CheckpointWeights::find_prefix() {
  for (const char* prefix : {"transformer.", ""}) {
    prefix_ = prefix;
    if (checkpoint_.find(prefix_ + std::string(kFirstNorm)) != nullptr) return;
  }
  const auto& all = checkpoint_.tensors();
  const auto like = std::find_if(all.begin(), all.end(),
                                 [](const HostTensor* t) { return t->name.ends_with(kFirstNorm); });
  const std::string found = like != all.end() ? (*like)->name
                            : all.empty()     ? "no tensors at all"
                                              : "names such as " + all.front()->name;
  fail(ExitCode::model_files,
       {.what = "tensor names",
        .expected = fmt::format("{0} or transformer.{0}", kFirstNorm),
        .found = found,
        .where = where(),
        .remedy = "rename the tensors to those of Hugging Face's GPT2LMHeadModel"});
}

// [in, out] = [n_embd, 3 n_embd] is never square, so c_attn tells for all of them.
void CheckpointWeights::find_orientation() {
  const HostTensor* t = find("h.0.attn.c_attn.weight");
  if (t == nullptr) return;  // reported when a layer asks for it
  rows_are_outputs_ = t->shape == std::vector<std::int64_t>{3 * config_.n_embd, config_.n_embd};
}

std::string CheckpointWeights::where() const {
  return checkpoint_.files().empty() ? std::string() : checkpoint_.files().front().path();
}

const HostTensor* CheckpointWeights::find(const std::string& name) const {
  if (name == "lm_head.weight") return checkpoint_.find(name);
  const HostTensor* t = checkpoint_.find(prefix_ + name);
  if (t == nullptr && name == "wte.weight" && config_.tie_word_embeddings) {
    return checkpoint_.find("lm_head.weight");
  }
  return t;
}

const HostTensor& CheckpointWeights::require(const std::string& name) const {
  const HostTensor* t = find(name);
  if (t == nullptr) {
    fail(ExitCode::model_files,
         {.what = "tensor " + (name == "lm_head.weight" ? name : prefix_ + name),
          .expected =
              "to be there" +
              std::string(name == "lm_head.weight" ? " since tie_word_embeddings is false" : ""),
          .found = fmt::format("{} other tensors", checkpoint_.tensors().size()),
          .where = where()});
  }
  if (!is_float(t->dtype)) {
    refuse(*t, "dtype", "one of " + std::string(float_dtype_names()),
           std::string(shardlm::name(t->dtype)));
  }
  return *t;
}

HostTensor CheckpointWeights::tensor(const std::string& name,
                                     const std::vector<std::int64_t>& shape) {
  const HostTensor& t = require(name);
  if (t.shape != shape) {
    refuse(t, "shape", shape_text(shape) + shape_meaning(name, config_), shape_text(t.shape));
  }
  used_.insert(t.name);
  return t;
}

HostMatrix CheckpointWeights::linear(const std::string& name, std::int64_t in, std::int64_t out) {
  const HostTensor& t = require(name);
  const std::vector<std::int64_t> expected =
      rows_are_outputs_ ? std::vector{out, in} : std::vector{in, out};
  if (t.shape != expected) {
    const bool turned = in != out && t.shape == std::vector{expected[1], expected[0]};
    refuse(t, turned ? "orientation" : "shape",
           shape_text(expected) + (turned ? ", as the other linear weights are laid out"
                                          : shape_meaning(name, config_)),
           shape_text(t.shape), turned ? "store all linear weights the same way round" : "");
  }
  used_.insert(t.name);
  return {.tensor = t, .in = in, .out = out, .rows_are_outputs = rows_are_outputs_};
}

void CheckpointWeights::done_with(const HostTensor& tensor, std::int64_t first,
                                  std::int64_t count) {
  const std::size_t width = bits(tensor.dtype) / 8;
  release_pages(tensor.bytes.subspan(static_cast<std::size_t>(first) * width,
                                     static_cast<std::size_t>(count) * width));
}

std::vector<std::string> CheckpointWeights::unused() const {
  std::vector<std::string> names;
  for (const HostTensor* t : checkpoint_.tensors()) {
    std::string_view bare = t->name;
    if (bare.starts_with(prefix_)) bare.remove_prefix(prefix_.size());
    const bool tied_head = bare == "lm_head.weight" && config_.tie_word_embeddings;
    if (!used_.contains(t->name) && !is_mask_buffer(bare) && !tied_head) names.push_back(t->name);
  }
  return names;
}

bool CheckpointWeights::lm_head_differs(std::int64_t first_id, std::int64_t end_id) const {
  const HostTensor* head = checkpoint_.find("lm_head.weight");
  const HostTensor* wte = checkpoint_.find(prefix_ + "wte.weight");
  if (!config_.tie_word_embeddings || head == nullptr || wte == nullptr) return false;
  if (head->shape != wte->shape) return true;
  std::vector<float> a(static_cast<std::size_t>(config_.n_embd)), b(a.size());
  for (std::int64_t id = first_id; id < end_id; ++id) {
    head->read(id * config_.n_embd, a);
    wte->read(id * config_.n_embd, b);
    if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) return true;
    constexpr std::int64_t kTogether = 1024;
    if ((id + 1) % kTogether != 0 && id + 1 != end_id) continue;
    for (const HostTensor* t : {head, wte}) release_pages(t->bytes);
  }
  return false;
}

}  // namespace shardlm
