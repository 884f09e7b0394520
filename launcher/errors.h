// Any exception as an Error with its documented exit code.
#pragma once

#include <functional>
#include <new>
#include <optional>

#include "base/error.h"

namespace shardlm {

/// Runs `work`; its exception, if any, as an Error: std::bad_alloc means resources, an exception of
/// another type a bug of ours.
template <typename Work>
std::optional<Error> caught(Work&& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ExitCode::resources, "out of memory; use more ranks or a smaller model");
  } catch (const std::exception& e) {
    return Error(ExitCode::bug, e.what());
  }
  return std::nullopt;
}

}  // namespace shardlm
