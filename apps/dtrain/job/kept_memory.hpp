#pragma once

namespace dtrain {

/// Gives the C library's heap room, before libraries initialise: LibTorch's operators take 56 MB of it in small blocks
/// while they register. By default it grows in steps of 128 KiB and on pages of 4 KiB, of which each costs a fault: a
/// seventh of the time of a start (docs/performance.md). Here it grows once, the kernel is asked for large pages
/// (madvise(2), MADV_HUGEPAGE), and from here on it does not shrink when its last blocks are freed. Where a limit
/// (ulimit -d, -v) leaves less room, it grows as by default.
void lay_out_heap();

/// For main. A training step frees and allocates the same large blocks of memory again and again. By default the C
/// library returns them to the kernel, which then clears every page again: an eighth of a step's time
/// (docs/performance.md). From here on they are kept: tensors in memory of their own, and what libraries need while
/// they compute in the heap, which lay_out_heap() keeps from shrinking.
void keep_freed_memory();

}  // namespace dtrain
