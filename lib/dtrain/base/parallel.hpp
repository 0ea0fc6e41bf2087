#pragma once
#include <cstddef>
#include <functional>

namespace dtrain {

/// work(0) … work(count - 1), each once, on at most `threads` (>= 1) threads of their own; returns when all are done.
/// Numbers are started in ascending order.
/// `tick`, if given, is called on the calling thread every 0.1 s meanwhile.
/// If either of them throws, no further number is started, those already started are finished, and the exception is
/// rethrown here; if `work` throws several times, that of the lowest number. To collect errors, catch them in `work`.
void run_in_parallel(size_t count, size_t threads, const std::function<void(size_t)>& work,
                     const std::function<void()>& tick = nullptr);

}  // namespace dtrain
