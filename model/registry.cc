// The families, one line each.
#include "base/error.h"
#include "model/families.h"
#include "model/model.h"

namespace shardlm {

std::unique_ptr<Model> make_model(const ModelConfig& config, WeightSource& weights,
                                  const Context& context, const LoadProgress& progress) {
  if (config.family == "gpt2") return make_gpt2(config, weights, context, progress);
  fail(ExitCode::model_files, {.what = "model family", .expected = "gpt2", .found = config.family});
}

}  // namespace shardlm
