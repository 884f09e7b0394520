# shardlm_flags: what every target of ours is compiled and linked with.
add_library(shardlm_flags INTERFACE)
target_compile_features(shardlm_flags INTERFACE cxx_std_20)
target_include_directories(shardlm_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Results must not depend on which multiply-adds a compiler happens to fuse: kernels fuse by name.
# (nvcc, which compiles the CUDA kernels, knows these switches by other names.)
target_compile_options(shardlm_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Werror;-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string's operator+ that are none (GCC bug 105651).
  target_compile_options(shardlm_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(SHARDLM_SANITIZE)
  target_compile_options(shardlm_flags INTERFACE
    -fsanitize=${SHARDLM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1
    # GCC's flow analysis takes the instrumentation for reads of unset values.
    -Wno-maybe-uninitialized)
  target_link_options(shardlm_flags INTERFACE -fsanitize=${SHARDLM_SANITIZE})
endif()
if(SHARDLM_COVERAGE)
  target_compile_options(shardlm_flags INTERFACE --coverage)
  target_link_options(shardlm_flags INTERFACE --coverage)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# How hard a target is optimised, where that is not for the build type to say: the compiler takes up
# to ten times longer to optimise instrumented code, which pays for loops over numbers and bytes
# only; test programs, and the folders that read options and write reports, need no more than -O1.
function(shardlm_optimise target)
  if(SHARDLM_SANITIZE AND target MATCHES "shardlm_(backend|comm|io)$")
    target_compile_options(${target} PRIVATE -O1)
  elseif(SHARDLM_SANITIZE OR SHARDLM_COVERAGE)
    target_compile_options(${target} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release" AND
         (NOT target MATCHES "^shardlm" OR target MATCHES "shardlm_(study|launcher)$"))
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()
