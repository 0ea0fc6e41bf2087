#pragma once
#include <cstddef>
#include <functional>

namespace dtrain {

/// work(0) … work(count - 1), each once, on at most `threads` (>= 1) threads of their own; returns when all are done.
/// Numbers begin in ascending order, so `work` gives its results the same places whatever the number of threads.
/// `tick`, where there is one, is called on the calling thread every 0.1 s meanwhile.
///
/// What either of them throws ends it: no further number begins, those that have begun are finished, and it is thrown
/// from here, of several throws of `work` that of the lowest number. Whoever wants to collect errors catches them in
/// `work`.
void run_in_parallel(size_t count, size_t threads, const std::function<void(size_t)>& work,
                     const std::function<void()>& tick = nullptr);

}  // namespace dtrain
