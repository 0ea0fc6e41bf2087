#pragma once
#include <cuda_runtime_api.h>

// The one place where a kernel is launched, so that the kernels themselves are plain C++: tests compile them for the
// CPU with a file of this name that runs blocks and threads there (tests/unit/cuda).

namespace dtrain::kernels {

/// Runs `kernel` on `blocks` blocks of `threads` threads, asynchronously on `stream`; cudaGetLastError() says whether
/// it was launched.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int threads, cudaStream_t stream,
            const Arguments&... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
}

}  // namespace dtrain::kernels
