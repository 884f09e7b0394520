// Options that several sub-commands share, and how a sub-command is put together from them.
#pragma once

#include <initializer_list>
#include <limits>

#include "launcher/options_kinds.h"

namespace shardlm {

using Table = std::vector<OptionSpec>;

constexpr IntegerRange kFromZero{0, std::numeric_limits<std::int64_t>::max()};
constexpr IntegerRange kFromOne{1, std::numeric_limits<std::int64_t>::max()};

/// The options under a heading of the help text.
Table section(const std::string& heading, Table options);
/// A sub-command of one word or of two ("bench coll").
CommandTable command(std::string name, std::string summary, std::initializer_list<Table> sections);

Table shared_table(SharedOptions& o);
Table engine_table(EngineOptions& o);
Table communication_table(CommunicationOptions& o);
Table observe_table(ObserveOptions& o);

/// A text that must be right for `check`, which says what is wrong by an Error.
OptionSpec checked_option(std::string name, std::string help, std::string value,
                          std::string& target, std::function<void(const std::string&)> check);
/// auto, table, or rules of comm/algorithm_table.h; another text is an Error(usage).
void check_allreduce(const std::string& text);

OptionSpec model_option(std::string& model);
OptionSpec shape_option(std::string& target);  ///< in the place of --model
OptionSpec dtype_option(DTypeChoice& target);
OptionSpec kv_dtype_option(KvDTypeChoice& target);
OptionSpec reduction_option(ReductionChoice& target);

}  // namespace shardlm
