#pragma once
#include <pthread.h>

#include <string>
#include <vector>

namespace dtrain {

/// Lets this process's threads be asked for their stacks, by a real-time signal that nothing else here uses. Once,
/// before stack_of().
void install_stack_signal();

/// The calls in which a thread of this process is, innermost first: "file(function+offset) [address]"; what is no
/// exported function has an address in its file, for addr2line. Waits at most `patience_s`; empty where the thread does
/// not answer, as in a disk's uninterruptible wait. Slow calls of the thread are interrupted and taken up again.
std::vector<std::string> stack_of(pthread_t thread, double patience_s);

}  // namespace dtrain
