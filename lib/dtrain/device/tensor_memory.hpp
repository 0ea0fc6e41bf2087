#pragma once

namespace dtrain {

/// From now on CPU tensors of 64 KiB or more lie in a BlockArena, in whatever thread and part of LibTorch they are
/// made: the large tensors of a training step, of which every step makes and drops the same ones, come to lie at the
/// same places without gaps that small objects of the C library's heap keep open. Smaller ones stay where LibTorch puts
/// them, as do tensors that exist already. Call it once, before other threads run. The arena lives as long as the
/// process. It does nothing where addresses are limited (ulimit -v; BlockArena) and under a sanitizer, so that each
/// tensor's bounds are watched.
void keep_tensor_memory();

/// Whether it did nothing, or was not called: then tensors lie in the C library's heap, and a process needs up to a
/// third more than they hold, another amount at each start.
bool tensors_have_gaps();

/// Gives the memory that no tensor holds to the kernel, that of the C library's heap too. The next step has to take it
/// again: for moments when another process needs it.
void give_back_tensor_memory();

}  // namespace dtrain
