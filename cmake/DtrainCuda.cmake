# Finds the CUDA toolkit and NCCL, and sets DTRAIN_HAS_CUDA if both are there. Everything else is built the same
# without.
option(DTRAIN_CUDA "Build the GPU module where a CUDA toolkit and NCCL are found" ON)
set(DTRAIN_HAS_CUDA FALSE)
set(DTRAIN_CUDA_WHY_NOT "switched off (DTRAIN_CUDA, or a sanitizer build)")
if(DTRAIN_CUDA AND NOT DTRAIN_SANITIZE)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES 80)  # only for the check; the module sets its own
  check_language(CUDA)
  # LibTorch's own first: a process holds one libnccl.so.2, and LibTorch must be able to run on it.
  find_path(NCCL_INCLUDE nccl.h HINTS ${DTRAIN_TORCH}/../nvidia/nccl/include PATHS /usr/local/cuda/include)
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${DTRAIN_TORCH}/../nvidia/nccl/lib PATHS /usr/local/cuda/lib64)
  if(NOT CMAKE_CUDA_COMPILER)
    set(DTRAIN_CUDA_WHY_NOT "no CUDA toolkit (nvcc)")
  elseif(NOT NCCL_INCLUDE OR NOT NCCL_LIBRARY)
    set(DTRAIN_CUDA_WHY_NOT "no NCCL (nccl.h, libnccl)")
  elseif(NOT TARGET LibTorch::cuda)
    set(DTRAIN_CUDA_WHY_NOT "LibTorch in ${DTRAIN_TORCH} has no CUDA half (libtorch_cuda.so)")
  else()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    add_library(dtrain_nccl INTERFACE)
    target_include_directories(dtrain_nccl SYSTEM INTERFACE ${NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(dtrain_nccl INTERFACE ${NCCL_LIBRARY} CUDA::cudart)
    set(DTRAIN_HAS_CUDA TRUE)
    set(DTRAIN_CUDA_WHY_NOT "")
  endif()
endif()

# NCCL's header alone, with CUDA's, which LibTorch brings too: enough for the tests to make an NCCL of their own
# (tests/support/nccl), without a compiler for GPUs or a libnccl.
find_path(NCCL_INCLUDE nccl.h HINTS ${DTRAIN_TORCH}/../nvidia/nccl/include PATHS /usr/local/cuda/include)
find_path(CUDA_RUNTIME_INCLUDE cuda_runtime.h HINTS ${DTRAIN_TORCH}/../nvidia/cu13/include PATHS /usr/local/cuda/include)
if(NCCL_INCLUDE AND CUDA_RUNTIME_INCLUDE)
  add_library(dtrain_nccl_header INTERFACE)
  target_include_directories(dtrain_nccl_header SYSTEM INTERFACE ${NCCL_INCLUDE} ${CUDA_RUNTIME_INCLUDE})
else()
  set(DTRAIN_NO_NCCL_HEADER "no nccl.h or no cuda_runtime.h, so the tests have no NCCL of their own")
endif()

if(NOT DTRAIN_HAS_CUDA)
  file(REMOVE ${CMAKE_BINARY_DIR}/lib/libdtrain_cuda.so)  # left by an earlier configuration
endif()
