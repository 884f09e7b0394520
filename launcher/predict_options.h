// The option tables of calibrate and predict.
#pragma once

#include <string>
#include <vector>

#include "launcher/options_parts.h"

namespace shardlm {

CommandTable calibrate_command(CalibrateOptions& o);
CommandTable predict_command(PredictOptions& o);

/// "1,3", "1..1024" (1, 2, 4 … and 1024), "2-5" (each), with commas between; ascending, each once.
std::vector<std::int64_t> parse_rank_list(const std::string& text, const std::string& where);

}  // namespace shardlm
