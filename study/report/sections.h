// The sections of the report, in the order of docs/report.md. Each is HTML, or empty where the
// study has nothing for it.
#pragma once

#include <string>

#include "study/report/facts.h"
#include "study/report/groups.h"

namespace shardlm::report {

std::string answer_section(const Facts& facts);
std::string setup_section(const Facts& facts);
std::string scaling_section(const Facts& facts);
std::string time_section(const Facts& facts);
std::string collectives_section(const Facts& facts);
std::string model_section(const Facts& facts);
std::string sweep_section(const Facts& facts);
std::string tails_section(const Facts& facts);
std::string what_if_section(const Facts& facts);
std::string strategies_section(const Facts& facts);
std::string bytes_section(const Facts& facts);
std::string reproduce_section(const Facts& facts);

/// A section in one sentence, HTML, for the answer box; empty where the section is.
std::string collectives_highlight(const Facts& facts);
std::string model_highlight(const Facts& facts);
std::string strategies_highlight(const Facts& facts);

/// "over 6 launches each; whiskers: 95 % interval of the median", of the rows of a picture.
std::string launches_phrase(const Rows& rows);
/// "Hollow points: noisy or more ranks than cores." if there are such rows; else empty.
std::string hollow_phrase(const Rows& rows);

}  // namespace shardlm::report
