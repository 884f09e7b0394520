# The CUDA back end, built up to twice from the same sources (backend/cuda, comm/cuda):
#
#   shardlm_gpu       what the program links: for GPUs, by nvcc, with SHARDLM_CUDA=ON (preset cuda);
#                     otherwise comm/no_gpu, which says that there is no CUDA back end
#   tests/gpu         for tests, by the C++ compiler, against an emulation: wherever the toolkit's
#                     headers are found, unless SHARDLM_GPU_EMULATION=OFF
option(SHARDLM_CUDA "Build the CUDA back end (needs the CUDA Toolkit 12.4 or later, cuBLAS, NCCL)" OFF)
set(SHARDLM_GPU_EMULATION AUTO CACHE STRING
    "Build the emulated GPU tests: AUTO (where the toolkit's headers are found), ON or OFF")
set(NCCL_ROOT "" CACHE PATH "Where NCCL is, if not with the toolkit")

file(GLOB_RECURSE SHARDLM_CUDA_KERNELS CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/backend/cuda/*.cu ${CMAKE_SOURCE_DIR}/comm/cuda/*.cu)
file(GLOB_RECURSE SHARDLM_CUDA_HOST CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/backend/cuda/*.cc ${CMAKE_SOURCE_DIR}/comm/cuda/*.cc)

find_package(CUDAToolkit 12.4 QUIET)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
          PATH_SUFFIXES include)

set(SHARDLM_EMULATE_GPU OFF)
if(NOT SHARDLM_GPU_EMULATION STREQUAL "OFF")
  if(CUDAToolkit_FOUND AND NCCL_INCLUDE_DIR)
    set(SHARDLM_EMULATE_GPU ON)
  elseif(SHARDLM_GPU_EMULATION STREQUAL "ON")
    message(FATAL_ERROR "SHARDLM_GPU_EMULATION=ON needs the headers of the CUDA Toolkit 12.4 or "
                        "later (found: '${CUDAToolkit_VERSION}') and nccl.h (found: "
                        "'${NCCL_INCLUDE_DIR}'; set CUDAToolkit_ROOT, NCCL_ROOT)")
  elseif(SHARDLM_TESTS)
    message(STATUS "GPU tests skipped: no headers of the CUDA Toolkit 12.4 or later and NCCL")
  endif()
endif()

function(shardlm_add_no_gpu)
  add_library(shardlm_gpu STATIC ${CMAKE_SOURCE_DIR}/comm/no_gpu/gpu.cc)
  target_link_libraries(shardlm_gpu PUBLIC shardlm_comm)
  shardlm_optimise(shardlm_gpu)
endfunction()

# A macro: enable_language() must be called in the scope of the top-level file.
macro(shardlm_add_cuda)
  if(NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "SHARDLM_CUDA=ON needs the CUDA Toolkit 12.4 or later: set CUDAToolkit_ROOT")
  endif()
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
               HINTS ${NCCL_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    message(FATAL_ERROR "SHARDLM_CUDA=ON needs NCCL 2.18 or later (nccl.h: '${NCCL_INCLUDE_DIR}', "
                        "library: '${NCCL_LIBRARY}'): set NCCL_ROOT")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  set(CMAKE_CUDA_COMPILER_TOOLKIT_ROOT ${CUDAToolkit_TARGET_DIR})
  enable_language(CUDA)
  # CMake 3.25 does not know nvcc's flag for C++20, and would compile as C++17 without a word.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # The toolkit's folder counts as one that the loader searches, which it often is not.
  get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
  set(CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR} ${nccl_folder})
  set(CMAKE_INSTALL_RPATH ${CUDAToolkit_LIBRARY_DIR} ${nccl_folder})

  add_library(shardlm_gpu STATIC ${SHARDLM_CUDA_KERNELS} ${SHARDLM_CUDA_HOST})
  target_link_libraries(shardlm_gpu PUBLIC shardlm_comm
                        PRIVATE CUDA::cudart_static CUDA::cublasLt ${NCCL_LIBRARY})
  target_include_directories(shardlm_gpu SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
                             ${NCCL_INCLUDE_DIR})
  # Registers and spills of each kernel go to the build log, which a test reads.
  target_compile_options(shardlm_gpu PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v -Xcompiler=-Wall,-Wextra>)
  shardlm_optimise(shardlm_gpu)
endmacro()
