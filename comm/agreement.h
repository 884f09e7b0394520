// The end of loading: either all ranks start, or all report and leave.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"

namespace shardlm {

/// A failure that all ranks know of and throw together: each of them can still end in an orderly
/// way (no abort), with the same exit code. Rank 0 prints the text; `quiet` says so to the others.
class AgreedFailure : public Error {
 public:
  AgreedFailure(ExitCode code, const std::string& text, bool quiet)
      : Error(code, text), quiet_(quiet) {}
  bool quiet() const { return quiet_; }

 private:
  bool quiet_;
};

/// Called by all ranks, each with what went wrong on it, if anything. Returns if nothing did on
/// any. Otherwise throws AgreedFailure on all, with the exit code of the lowest rank that failed
/// and each distinct message once, after the ranks that have it ("ranks 0-2: …"); without ranks if
/// all failed alike.
void agree(Communicator& comm, const std::optional<Error>& mine);

/// The same where rank 0 alone works on behalf of all (reads the prompts, compares the ranks): the
/// message is its own, without ranks. `of_root` counts on rank 0 only.
void agree_with_root(Communicator& comm, const std::optional<Error>& of_root);

}  // namespace shardlm
