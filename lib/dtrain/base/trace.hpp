#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dtrain {

/// What each thread of this process did when: spans for the timeline of Perfetto or chrome://tracing (Trace Event
/// Format). Any thread may record; a span costs well below a microsecond, a disabled trace one branch. Each thread has
/// a lane in the timeline; spans of one lane nest as they were opened and closed.
///
///   const auto span = trace.span("forward", step);
class Trace {
 public:
  /// A disabled trace records nothing. Beyond `max_events` (40 bytes each) spans are counted, not kept.
  explicit Trace(bool enabled, size_t max_events = 500'000);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// An interval of the calling thread's time: from span() to the object's destruction. The trace outlives it.
  class Span {
   public:
    Span(Span&& other) noexcept
        : trace_(std::exchange(other.trace_, nullptr)),
          name_(other.name_),
          number_(other.number_),
          start_(other.start_) {}
    Span& operator=(Span&&) = delete;
    ~Span() { end(); }
    /// Ends it before destruction.
    void end();

   private:
    friend class Trace;
    Span() = default;
    Trace* trace_ = nullptr;  // null: nothing to record
    const char* name_ = nullptr;
    int64_t number_ = -1;
    std::chrono::steady_clock::time_point start_;
  };

  /// `name`: a literal, or text that outlives the trace. `number`: step, bucket or batch, shown as "n"; -1: none.
  [[nodiscard]] Span span(const char* name, int64_t number = -1);
  /// Names the calling thread's lane ("train", "reducer", "loader 2"); threads of one name share it. A thread that
  /// records without a name gets "thread 1", "thread 2" …, or the lane of an ended thread whose id it was given.
  void name_thread(const std::string& name);
  /// Time zero is now, and what was recorded before is forgotten. All ranks call it right after a barrier, so that
  /// their lanes can be aligned.
  void begin();

  /// All spans that have ended, as comma-separated JSON objects: complete events ("X", microseconds) and the names of
  /// process and lanes ("M"). The process is the rank, named "rank 2 on `host`".
  std::string events_json(int rank, const std::string& host) const;
  /// Spans since begin() that found max_events reached.
  int64_t dropped() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* name;
    int64_t number;
    Clock::time_point start;
    Clock::duration length;
    size_t lane;
  };
  void record(const Span& span);
  size_t lane_of_caller();

  const bool enabled_;
  const size_t max_events_;
  mutable std::mutex mutex_;  // guards all below
  Clock::time_point zero_ = Clock::now();
  std::deque<Event> events_;
  std::vector<std::string> lanes_;  // their names
  std::map<std::thread::id, size_t> lane_of_;
  int64_t dropped_ = 0;
};

/// At the start of every document, to tell our timelines from another program's.
inline constexpr const char* kTraceMark = "\"program\":\"dtrain\"";
/// One JSON document from the events_json() of every rank.
std::string trace_document(const std::vector<std::string>& ranks);

}  // namespace dtrain
