#include "launcher/output.h"

#include <ostream>

#include "base/error.h"

namespace shardlm {

void finish_output(std::ostream& out) {
  out.flush();
  if (!out) fail(ExitCode::resources, {.what = "writing failed", .where = "standard output"});
}

}  // namespace shardlm
