# shardlm_flags: what every target of ours is compiled and linked with.
add_library(shardlm_flags INTERFACE)
target_compile_features(shardlm_flags INTERFACE cxx_std_20)
target_include_directories(shardlm_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(shardlm_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Werror
  # Results must not depend on which multiply-adds a compiler happens to fuse: kernels fuse by name.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string's operator+ that are none (GCC bug 105651).
  target_compile_options(shardlm_flags INTERFACE -Wno-restrict)
endif()
if(SHARDLM_SANITIZE)
  target_compile_options(shardlm_flags INTERFACE
    -fsanitize=${SHARDLM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shardlm_flags INTERFACE -fsanitize=${SHARDLM_SANITIZE})
endif()
if(SHARDLM_COVERAGE)
  target_compile_options(shardlm_flags INTERFACE --coverage -O1)
  target_link_options(shardlm_flags INTERFACE --coverage)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
