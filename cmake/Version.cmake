# build_info.h: what `shardlm version` tells about this build.
#
# Included by CMakeLists.txt it makes the target shardlm_build_info, whose header is looked at in
# every build and rewritten only when something in it changed; launcher/version_command.cc alone
# includes it, so that a commit costs one compilation and one link. Run as a script (-P) it writes
# the header.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(SHARDLM_BUILD_INFO_DIR ${CMAKE_BINARY_DIR}/generated)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type_upper)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type_upper}}" cxx_flags)
  add_custom_target(shardlm_write_build_info
    COMMAND ${CMAKE_COMMAND}
      -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${SHARDLM_BUILD_INFO_DIR}/build_info.h
      -DVERSION=${PROJECT_VERSION} "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
      -DBUILD_TYPE=${CMAKE_BUILD_TYPE} "-DCXX_FLAGS=${cxx_flags}"
      "-DSANITIZE=${SHARDLM_SANITIZE}" -DCOVERAGE=${SHARDLM_COVERAGE} -DTESTS=${SHARDLM_TESTS}
      -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${SHARDLM_BUILD_INFO_DIR}/build_info.h
    COMMENT "Looking at the commit"
    VERBATIM)
  add_library(shardlm_build_info INTERFACE)
  target_include_directories(shardlm_build_info INTERFACE ${SHARDLM_BUILD_INFO_DIR})
  add_dependencies(shardlm_build_info shardlm_write_build_info)
  return()
endif()

# The commit of the checkout at SOURCE, "-dirty" if tracked files differ from it; "unknown" where
# there is no git, no checkout, or only one that SOURCE is a folder of (an unpacked release).
function(read_commit result)
  set(${result} unknown PARENT_SCOPE)
  find_program(git_program git)
  if(NOT git_program)
    return()
  endif()
  execute_process(COMMAND ${git_program} -C ${SOURCE} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  file(REAL_PATH ${SOURCE} source)
  if(failed OR NOT top STREQUAL source)
    return()
  endif()
  execute_process(COMMAND ${git_program} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(${result} ${commit} PARENT_SCOPE)
  endif()
endfunction()

function(quote variable)
  string(REPLACE "\\" "\\\\" text "${${variable}}")
  string(REPLACE "\"" "\\\"" text "${text}")
  set(${variable} "\"${text}\"" PARENT_SCOPE)
endfunction()

read_commit(COMMIT)
foreach(variable VERSION COMMIT COMPILER BUILD_TYPE CXX_FLAGS SANITIZE COVERAGE TESTS)
  quote(${variable})
endforeach()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [=[
// Written by cmake/Version.cmake.
#pragma once

namespace shardlm::build_info {

inline constexpr const char* kVersion = @VERSION@;
inline constexpr const char* kCommit = @COMMIT@;
inline constexpr const char* kCompiler = @COMPILER@;
inline constexpr const char* kBuildType = @BUILD_TYPE@;
inline constexpr const char* kCxxFlags = @CXX_FLAGS@;
inline constexpr const char* kSanitize = @SANITIZE@;
inline constexpr const char* kCoverage = @COVERAGE@;
inline constexpr const char* kTests = @TESTS@;

}  // namespace shardlm::build_info
]=])
