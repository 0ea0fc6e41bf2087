#pragma once
#include <fstream>
#include <string>

#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace dtrain::test {

/// By how much the peak of this process's memory has grown since the object was made. The earlier peak is reset, so
/// that an earlier test hides nothing. If the kernel cannot or may not reset it (a read-only /proc), nothing is
/// measured and the test counts as skipped; also under a sanitizer, whose own memory would be measured.
class MemoryWatch {
 public:
  MemoryWatch() {
    if (kSanitized) {
      skip("a sanitizer's own memory would be measured");
      return;
    }
    std::ofstream("/proc/self/clear_refs") << "5\n" << std::flush;
    begin_kb_ = kb_of("VmHWM:");
    works_ = begin_kb_ <= kb_of("VmRSS:") + 2048;  // Linux counts a few pages late
    if (!works_) skip("the kernel does not forget how much memory this process has held");
  }
  bool works() const { return works_; }
  /// 0 if nothing is measured.
  long grown_mb() const { return works_ ? (kb_of("VmHWM:") - begin_kb_) / 1024 : 0; }

 private:
  static long kb_of(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (long kb = 0; word == key && status >> kb) return kb;
    FAIL("/proc/self/status has no " << key);
    return 0;
  }
  long begin_kb_ = 0;
  bool works_ = false;
};

}  // namespace dtrain::test
