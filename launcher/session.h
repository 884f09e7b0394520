// The composition root: world, back end, communicator, model and executor of one rank, made in
// order and agreed on by all ranks before anything is generated.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/activation_dump.h"
#include "engine/coordinator.h"
#include "engine/executor.h"
#include "io/checkpoint.h"
#include "io/model_digest.h"
#include "io/tokenizer.h"
#include "launcher/fault.h"
#include "launcher/job.h"
#include "launcher/observation.h"
#include "launcher/options.h"
#include "launcher/rank_devices.h"
#include "model/config.h"
#include "model/model.h"
#include "model/plan.h"
#include "study/part_recorder.h"
#include "study/wire_quality.h"

namespace shardlm {

/// What a command needs of the engine, decided on rank 0 before the weights are loaded.
struct Demand {
  std::int64_t n_blocks = 0;    ///< KV blocks
  std::int64_t rows = 0;        ///< at most so many in a step
  std::int64_t logit_rows = 0;  ///< at most so many logits of a step are asked for
};

class Session {
 public:
  /// Tokens of a KV block.
  static constexpr std::int64_t kBlockTokens = 32;

  Session(const Job& job, const EngineOptions& options, bool dump_activations);
  ~Session();

  /// Instead of a folder's model: made-up weights of this shape (model/fake_weights.h). Before
  /// load(), on all ranks alike.
  void use_fake_weights(ModelConfig config);

  /// Rank 0's part of a command that needs no weights yet: read prompts, check them, say what is
  /// needed. An Error in it ends all ranks in order.
  using Prepare = std::function<Demand(Session&)>;
  /// Loads the model on all ranks. Collective; any rank's Error is every rank's.
  void load(const Prepare& prepare);

  /// Runs a command: `body` on rank 0, the worker loop elsewhere. Returns the exit code.
  int run(const std::function<void(Coordinator&)>& body);
  /// The same in parts between which the ranks meet: `parts` is called on all ranks and calls
  /// part() any number of times, until one returns another code than 0. Returns its result.
  int run_parts(const std::function<int()>& parts);
  int part(const std::function<void(Coordinator&)>& body);

  /// Records the collectives of each part() by themselves. Collective, between load() and
  /// run_parts(); the session outlives the recorder.
  std::unique_ptr<PartRecorder> record_parts(std::size_t calls, std::size_t steps);

  /// After run(), measure what the rounding costs even if no report asks for it: on all ranks.
  void want_wire_quality() { want_quality_ = true; }
  /// On rank 0 after a run that measured it.
  const std::optional<WireQuality>& wire_quality() const { return quality_; }
  Exactness exactness() const;  ///< of the sums
  /// Beside results: what they do not mean (see result_warnings()), and that they are approximate.
  std::vector<std::string> warnings() const;
  /// On rank 0, where no report will say so: that the results are approximate.
  void warn_of_rounding() const;

  int rank() const { return comm().rank(); }
  int size() const { return comm().size(); }
  /// Where the model computes: a part of every report.
  const BackendDecision& backend() const { return devices_.decision; }
  const ModelConfig& config() const { return config_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  std::optional<std::int32_t> end_of_text()
      const;  ///< ends a text: the model's, else the tokenizer's
  std::optional<std::int32_t> start_of_text() const;  ///< of an empty prompt: the tokenizer's
  int threads() const { return threads_; }
  double load_s() const { return load_s_; }
  const Model& model() const { return *model_; }
  Precision precision() const { return devices_.own->precision(); }
  std::string backend_text() const { return devices_.own->describe(); }
  std::string comm_text() const { return comm().describe(); }
  const std::string& allreduce_source() const { return devices_.allreduce_source; }
  /// Of the model's files: 16 hexadecimal digits that hang on configuration, tensors, sizes and
  /// samples of the data; empty of made-up weights.
  std::string model_hash() const;
  const ActivationDump* dump() const { return dump_.get(); }

 private:
  void open_files();
  void agree_on_files();
  Communicator& comm() const { return *devices_.comm; }
  void check_device_memory(const Demand& demand) const;
  void load_weights(std::int64_t n_blocks, std::vector<std::uint8_t> allowed);
  void make_model_of(WeightSource& weights);
  void report_weights(const class CheckpointWeights& weights) const;
  std::vector<std::uint8_t> allowed_ids() const;

  bool rounds() const;  ///< sums, on their way
  std::optional<WireQuality> measure_quality();
  int coordinate(const std::function<void(Coordinator&)>& body);

  MpiWorld& world_;
  EngineOptions options_;
  std::filesystem::path model_dir_;
  Fault fault_;
  int threads_ = 1;
  RankDevices devices_;
  Tap silent_;
  std::unique_ptr<ActivationDump> dump_;
  std::unique_ptr<Context> context_;
  bool fake_ = false;
  ModelConfig config_;
  std::optional<Checkpoint> checkpoint_;
  ModelDigest digest_;  // of a folder
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Observation> observation_;
  std::int64_t n_blocks_ = 0;
  bool want_quality_ = false;
  std::optional<WireQuality> quality_;
  double load_s_ = 0;
};

}  // namespace shardlm
