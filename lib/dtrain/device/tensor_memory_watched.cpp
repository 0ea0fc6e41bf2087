// A build with a sanitizer: LibTorch's own memory, whose bounds and lifetimes are watched.
#include <malloc.h>

#include "dtrain/device/tensor_memory.hpp"

namespace dtrain {

void keep_tensor_memory() {}

bool tensors_have_gaps() { return true; }

void give_back_tensor_memory() { ::malloc_trim(0); }

}  // namespace dtrain
