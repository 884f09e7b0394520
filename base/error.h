// What ends a run, and with which exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace shardlm {

/// The documented exit codes (docs/cli.md). Every rank of a job ends with the same one.
enum class ExitCode : int {
  ok = 0,
  bug = 1,          ///< a fault of the program, or numbers that are not finite
  usage = 2,        ///< a flag, a configuration file, a prompt
  model_files = 3,  ///< the model or tokenizer files
  peer = 4,         ///< another rank or the network failed
  resources = 5,    ///< out of memory, or no usable device
};

/// An exception that ends the run. Its text is complete: main prints it after "error: ".
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// The parts of a good error message; empty parts are left out.
struct Problem {
  std::string what = {};      ///< the thing: "tensor h.0.ln_1.weight: shape"
  std::string expected = {};  ///< "[4]"
  std::string found = {};     ///< "[5]"
  std::string where = {};     ///< a file, a flag
  std::string remedy = {};    ///< what to do about it
};

/// "where: what: expected …, found …; remedy"
std::string describe(const Problem& problem);

[[noreturn]] void fail(ExitCode code, const Problem& problem);

/// An invariant of ours, checked in every build: throws ExitCode::bug with the caller's place.
void check(bool ok, std::string_view what, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());

}  // namespace shardlm
