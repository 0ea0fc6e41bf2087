#pragma once

namespace dtrain {

/// The C library's heap, before libraries initialise: LibTorch's operators take 56 MB of it in small blocks while they
/// register. By default it grows in steps of 128 KiB and on pages of 4 KiB, of which each costs a fault: a seventh of
/// the time of a start (docs/performance.md). Here it gets room for them in one step, and the kernel is asked for large
/// pages (madvise(2), MADV_HUGEPAGE). Where a limit (ulimit -d, -v) leaves less room, the heap stays as it is.
void lay_out_heap();

/// A training step frees and allocates the same large blocks of memory again and again. By default the C library
/// returns them to the kernel, which then clears every page again: an eighth of a step's time (docs/performance.md).
/// From here on they are kept: tensors in memory of their own, and what libraries need while they compute in the heap.
void keep_freed_memory();

}  // namespace dtrain
