#pragma once

namespace dtrain::test {

/// Whether this program has a sanitizer's runtime, whose memory and address space a test would count as ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Whether it is the thread sanitizer's, which blocks all signals in handlers, whatever mask the program asked for.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitized = true;
#else
constexpr bool kThreadSanitized = false;
#endif

}  // namespace dtrain::test
