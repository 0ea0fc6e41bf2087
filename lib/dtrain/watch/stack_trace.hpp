#pragma once
#include <pthread.h>

#include <string>
#include <vector>

namespace dtrain {

/// Lets this process's threads be asked for their stacks, by a real-time signal that nothing else here uses. Once,
/// before stack_of().
void install_stack_signal();

/// The calls in which a thread of this process is, innermost first: "file(function+offset) [address]"; other functions
/// than exported ones have an address in their file, for addr2line. Waits at most `patience_s`; empty if the thread
/// does not answer, for example in a disk's uninterruptible wait. Slow calls of the thread are interrupted and
/// restarted.
std::vector<std::string> stack_of(pthread_t thread, double patience_s);

}  // namespace dtrain
