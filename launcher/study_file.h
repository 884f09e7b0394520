// The YAML file of a study (docs/studies.md).
#pragma once

#include <string>

#include "study/sweep/study_spec.h"

namespace shardlm {

/// Reads and checks all of it: unknown and doubled keys, values of the wrong type, levels that
/// bench would not take, groups of factors that do not exist are Error(usage) with file and line.
/// Relative paths start at the file's own folder.
StudySpec read_study_file(const std::string& path);
/// The same of its bytes; `path` is for messages and for relative paths.
StudySpec parse_study(const std::string& bytes, const std::string& path);

}  // namespace shardlm
