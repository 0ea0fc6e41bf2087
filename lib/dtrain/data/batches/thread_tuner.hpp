#pragma once

namespace dtrain {

/// Finds how many loader threads `data.loader.threads: auto` uses. It starts with the cores that do not compute and
/// measures how long training waited for batches, kWindow of them at a time:
///
///   waited more than kMuch of the time   half as many threads more (reading from a network, threads wait and no core
///                                        does), kept only if batches then come kWorth faster
///   waited less than kLittle             one thread less, kept while training still waits that little
/// The first change that does not help is undone, and ends the tuning. Threads decide when a batch is ready, never what
/// is in it.
class ThreadTuner {
 public:
  static constexpr int kWindow = 16;  ///< batches
  static constexpr double kMuch = 0.05;
  static constexpr double kLittle = 0.005;
  static constexpr double kWorth = 1.05;

  /// Starts with `first` threads; at most four times as many plus four.
  explicit ThreadTuner(int first) : most_(4 * first + 4), threads_(first) {}

  int threads() const { return threads_; }
  bool settled() const { return settled_; }
  /// A batch was taken: training had waited `waited_s` for it, `passed_s` after it took the one before. True if
  /// threads() has changed.
  bool note(double waited_s, double passed_s);
  /// Discards the batches of the current window: the next ones do not directly follow them.
  void begin_window();
  /// No more threads can be started than this: tuning ends.
  void settle_at(int threads);

 private:
  bool try_threads(int threads, double rate);
  bool go_back();

  int most_;
  int threads_;
  int before_ = 0;  // the last change: from this many threads, at `rate_` batches per second; 0: none is on trial
  double rate_ = 0;
  bool settled_ = false;
  int batches_ = 0;  // of the window
  double waited_s_ = 0;
  double passed_s_ = 0;
};

}  // namespace dtrain
