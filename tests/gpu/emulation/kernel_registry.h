// Lets the C entry point cudaLaunchKernelExC, which gets untyped pointers, copy a kernel's
// arguments and call it.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "tests/gpu/emulation/engine.h"

namespace shardlm::emu {

template <class... P, std::size_t... I>
void invoke_kernel(const void* function, void** arguments, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(P...)>(const_cast<void*>(function))(
      *static_cast<std::remove_reference_t<P>*>(arguments[I])...);
}

template <class... P>
void ensure_registered(void (*kernel)(P...)) {
  static_assert((std::is_trivially_copyable_v<P> && ...),
                "a kernel's arguments are copied as bytes");
  const void* function = reinterpret_cast<const void*>(kernel);
  if (find_kernel(function) != nullptr) return;
  register_kernel(function, {{sizeof(P)...}, [](const void* f, void** arguments) {
                               invoke_kernel<P...>(f, arguments, std::index_sequence_for<P...>{});
                             }});
}

}  // namespace shardlm::emu
