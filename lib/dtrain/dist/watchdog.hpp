#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dtrain {

/// What a rank is doing.
enum class Section { start, load, compute, reduce, update, evaluate, save, finish };
const char* section_name(Section section);

/// A thread that ends the process when the training thread has made no progress for a while: nothing waits for ever.
/// Progress is a call of enter(); the clock is monotonic.
class Watchdog {
 public:
  /// limit_s    seconds without progress that are borne
  /// on_stall   called once, on the watchdog's thread, with one sentence; it ends the process with 76. The process
  ///            may be stuck anywhere then: it takes no lock and waits for nobody.
  Watchdog(double limit_s, std::function<void(const std::string&)> on_stall);
  ~Watchdog();  ///< stops and joins the thread

  /// The training thread is alive and begins this section of this step. Cheap: two atomic stores.
  void enter(Section section, int64_t step);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
