# shardlm_precompile(TARGET HEADERS...): libraries' headers that most of a target's sources include,
# read once. It changes the time of a build and nothing else; off: CMAKE_DISABLE_PRECOMPILE_HEADERS.
function(shardlm_precompile target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <cmath> <cstdint> <functional> <map> <memory> <optional> <span> <string> <utility>
    <vector> ${ARGN})
endfunction()

# shardlm_folder(NAME LINK libs... PRIVATE libs...)
# The static library shardlm_NAME of all sources below NAME/ (main.cc, cuda/ and no_gpu/ left
# out: the linker chooses between those two, see cmake/Cuda.cmake).
function(shardlm_folder name)
  cmake_parse_arguments(ARG "" "" "LINK;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$|/cuda/|/no_gpu/")
  add_library(shardlm_${name} STATIC ${sources})
  target_link_libraries(shardlm_${name} PUBLIC shardlm_flags ${ARG_LINK} PRIVATE ${ARG_PRIVATE})
  shardlm_optimise(shardlm_${name})
endfunction()
