#pragma once

namespace dtrain::test {

/// Whether a sanitizer's runtime is in this program: it takes memory and address space that a test would count as ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// The thread sanitizer's, which also handles signals with all signals blocked, whatever mask the program asked for.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitized = true;
#else
constexpr bool kThreadSanitized = false;
#endif

}  // namespace dtrain::test
