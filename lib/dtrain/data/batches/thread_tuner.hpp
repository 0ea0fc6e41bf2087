#pragma once

namespace dtrain {

/// How many loader threads `data.loader.threads: auto` comes to. It begins with the cores that do not compute and looks
/// at how long training waited for batches, kWindow of them at a time:
///
///   waited more than kMuch of the time   half as many threads more (reading from a network, threads wait and no core
///                                        does), kept only if batches then come kWorth faster
///   waited less than kLittle             one thread less, kept while training still waits that little
///
/// The first change that does not help is taken back, and ends it. Threads decide when a batch is there, never what is
/// in it.
class ThreadTuner {
 public:
  static constexpr int kWindow = 16;  ///< batches
  static constexpr double kMuch = 0.05;
  static constexpr double kLittle = 0.005;
  static constexpr double kWorth = 1.05;

  /// From `first` threads, to four times as many and four more at most.
  explicit ThreadTuner(int first) : most_(4 * first + 4), threads_(first) {}

  int threads() const { return threads_; }
  bool settled() const { return settled_; }
  /// A batch was taken: training had waited `waited_s` for it, `passed_s` after it took the one before. True where
  /// threads() has changed.
  bool note(double waited_s, double passed_s);
  /// The batches noted since the last look do not count: what comes next is no continuation of them.
  void begin_window();
  /// There can be so many and no more: that is it.
  void settle_at(int threads);

 private:
  bool try_threads(int threads, double rate);
  bool go_back();

  int most_;
  int threads_;
  int before_ = 0;  // the last change: from so many threads, at `rate_` batches a second; 0: none is on trial
  double rate_ = 0;
  bool settled_ = false;
  int batches_ = 0;  // of the window
  double waited_s_ = 0;
  double passed_s_ = 0;
};

}  // namespace dtrain
