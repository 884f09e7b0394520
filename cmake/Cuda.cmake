# The CUDA back end, built up to twice from the same sources (backend/cuda, comm/cuda):
#
#   shardlm_cuda       for GPUs, by nvcc: with SHARDLM_CUDA=ON (preset cuda)
#   (emulated)         for tests, by the C++ compiler, against tests/gpu: wherever the toolkit's
#                      headers are found, unless SHARDLM_GPU_EMULATION=OFF
option(SHARDLM_CUDA "Build the CUDA back end (needs the CUDA Toolkit 12.4 or later, cuBLAS, NCCL)" OFF)
set(SHARDLM_GPU_EMULATION AUTO CACHE STRING
    "Build the emulated GPU tests: AUTO (where the toolkit's headers are found), ON or OFF")

file(GLOB_RECURSE SHARDLM_CUDA_KERNELS CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/backend/cuda/*.cu ${CMAKE_SOURCE_DIR}/comm/cuda/*.cu)
file(GLOB_RECURSE SHARDLM_CUDA_HOST CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/backend/cuda/*.cc ${CMAKE_SOURCE_DIR}/comm/cuda/*.cc)

# The toolkit, if only its headers are wanted (no device code is built): CUDAToolkit_FOUND.
find_package(CUDAToolkit 12.4 QUIET)
set(NCCL_ROOT "" CACHE PATH "Where NCCL is, if not with the toolkit")
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
          PATH_SUFFIXES include)
