#include "dtrain/base/trace.hpp"

#include <algorithm>

#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

std::string microseconds(std::chrono::steady_clock::duration time) {
  return fixed(std::chrono::duration<double, std::micro>(time).count(), 3);
}

std::string name_event(const std::string& kind, const std::string& where, const std::string& name) {
  return R"({"ph":"M","name":")" + kind + "\"," + where + R"(,"args":{"name":)" + quoted(name) + "}}";
}

}  // namespace

Trace::Trace(bool enabled, size_t max_events) : enabled_(enabled), max_events_(max_events) {}

Trace::Span Trace::span(const char* name, int64_t number) {
  Span span;
  if (!enabled_) return span;
  span.trace_ = this;
  span.name_ = name;
  span.number_ = number;
  span.start_ = Clock::now();
  return span;
}

void Trace::Span::end() {
  if (Trace* trace = std::exchange(trace_, nullptr)) trace->record(*this);
}

void Trace::record(const Span& span) {
  const Clock::time_point end = Clock::now();
  const std::lock_guard lock(mutex_);
  if (end < zero_) return;
  if (events_.size() >= max_events_) {
    ++dropped_;
    return;
  }
  const Clock::time_point start = std::max(span.start_, zero_);
  events_.push_back({span.name_, span.number_, start, end - start, lane_of_caller()});
}

size_t Trace::lane_of_caller() {
  const auto [place, is_new] = lane_of_.try_emplace(std::this_thread::get_id(), lanes_.size());
  if (is_new) lanes_.push_back("thread " + std::to_string(lanes_.size() + 1));
  return place->second;
}

// A thread that has ended may have had the same id and another name: its lane stays.
void Trace::name_thread(const std::string& name) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  const auto lane = std::find(lanes_.begin(), lanes_.end(), name);
  lane_of_[std::this_thread::get_id()] = static_cast<size_t>(lane - lanes_.begin());
  if (lane == lanes_.end()) lanes_.push_back(name);
}

void Trace::begin() {
  const std::lock_guard lock(mutex_);
  zero_ = Clock::now();
  events_.clear();
  dropped_ = 0;
}

std::string Trace::events_json(int rank, const std::string& host) const {
  const std::lock_guard lock(mutex_);
  const std::string process = "\"pid\":" + std::to_string(rank);
  std::string out = name_event("process_name", process, "rank " + std::to_string(rank) + " on " + host);
  // Lanes count from 1: viewers keep thread 0 for the idle time of the machine.
  for (size_t lane = 0; lane < lanes_.size(); ++lane)
    out += ",\n" + name_event("thread_name", process + ",\"tid\":" + std::to_string(lane + 1), lanes_[lane]);
  for (const Event& event : events_) {
    out += ",\n{\"ph\":\"X\",\"name\":" + quoted(event.name) + "," + process +
           ",\"tid\":" + std::to_string(event.lane + 1) + ",\"ts\":" + microseconds(event.start - zero_) +
           ",\"dur\":" + microseconds(event.length);
    if (event.number >= 0) out += ",\"args\":{\"n\":" + std::to_string(event.number) + "}";
    out += '}';
  }
  return out;
}

int64_t Trace::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::string trace_document(const std::vector<std::string>& ranks) {
  return std::string("{\"otherData\":{") + kTraceMark + "},\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" +
         join(ranks, ",\n") + "\n]}\n";
}

}  // namespace dtrain
