// The page's style sheet and script, as texts.
#pragma once

#include <string_view>

namespace shardlm::report {

std::string_view page_style();
std::string_view page_script();

}  // namespace shardlm::report
