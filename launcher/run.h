// The program from start to end: the one place that catches, prints and chooses the exit code.
#pragma once

namespace shardlm {

/// Returns the exit code of this rank, or does not return: a rank that fails where the others
/// cannot be told ends the whole job.
int run_program(int argc, char** argv);

}  // namespace shardlm
