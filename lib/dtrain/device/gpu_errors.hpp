#pragma once
#include <string_view>

namespace dtrain {

/// True for what LibTorch, cuBLAS and cuDNN say of a GPU without memory where no error type of LibTorch tells it:
/// calls of CUDA, allocations of cuBLAS and cuDNN, and cuBLAS that finds no room for its handle.
inline bool tells_of_gpu_memory(std::string_view words) {
  const auto holds = [&](std::string_view part) { return words.find(part) != words.npos; };
  return holds("CUDA error: out of memory") || holds("ALLOC_FAILED") || holds("ALLOCATION_FAILED") ||
         (holds("CUBLAS_STATUS_NOT_INITIALIZED") && holds("cublasCreate"));
}

/// True where they say that a GPU, or a library on it, has failed.
inline bool tells_of_gpu(std::string_view words) {
  return words.find("CUDA error") != words.npos || words.find("cuDNN error") != words.npos;
}

}  // namespace dtrain
