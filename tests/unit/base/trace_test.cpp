#include "dtrain/base/trace.hpp"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "dtrain/base/time.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using Json = nlohmann::json;

// The events of one phase ("X" or "M") in the document made from one rank's trace.
static std::vector<Json> events(const Trace& trace, const std::string& phase, int rank = 0) {
  const Json document = Json::parse(trace_document({trace.events_json(rank, "host")}));
  std::vector<Json> found;
  for (const Json& event : document.at("traceEvents"))
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

static double end_of(const Json& event) { return event.at("ts").get<double>() + event.at("dur").get<double>(); }

TEST_CASE("spans nest as they were opened, with their numbers, in microseconds") {
  const Stopwatch all;
  Trace trace(true);
  {
    const auto outer = trace.span("step", 7);
    const auto inner = trace.span("forward");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const double most = all.seconds() * 1e6;
  const std::vector<Json> spans = events(trace, "X", 3);
  REQUIRE(spans.size() == 2);
  const Json& inner = spans[0];
  const Json& outer = spans[1];
  CHECK(inner.at("name") == "forward");
  CHECK_FALSE(inner.contains("args"));
  CHECK(outer.at("name") == "step");
  CHECK(outer.at("args").at("n") == 7);
  CHECK(outer.at("pid") == 3);
  CHECK(outer.at("tid") == inner.at("tid"));
  CHECK(outer.at("ts") <= inner.at("ts"));
  CHECK(end_of(outer) >= end_of(inner) - 0.002);  // rounded to the nanosecond
  CHECK(inner.at("dur") >= 2000.0);
  CHECK(inner.at("dur") <= most);
}

TEST_CASE("a span ends once, early or where it was moved to") {
  Trace trace(true);
  {
    auto first = trace.span("first");
    first.end();
    first.end();
    auto second = trace.span("second");
    const auto moved = std::move(second);
  }
  CHECK(events(trace, "X").size() == 2);
}

TEST_CASE("each thread has a lane by its name, and a thread that takes up a name continues the lane") {
  Trace trace(true);
  std::thread([&] { trace.span("nameless").end(); }).join();
  trace.name_thread("train");
  const auto work = [&](const std::string& name) {
    trace.name_thread(name);
    for (int i = 0; i < 100; ++i) const auto span = trace.span("read", i);
  };
  for (int round = 0; round < 2; ++round) {
    std::thread one(work, "loader 1");
    std::thread two(work, "loader \"2\"\n");
    one.join();
    two.join();
  }
  trace.span("step").end();
  std::map<int64_t, std::string> names;
  for (const Json& event : events(trace, "M"))
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  std::map<std::string, int> counts;
  for (const Json& event : events(trace, "X")) ++counts[names.at(event.at("tid"))];
  CHECK(counts.at("thread 1") == 1);
  CHECK(counts.at("train") == 1);
  CHECK(counts.at("loader 1") == 200);
  CHECK(counts.at("loader \"2\" ") == 200);
  CHECK(events(trace, "M").front().at("args").at("name") == "rank 0 on host");
}

TEST_CASE("a disabled trace records nothing") {
  Trace trace(false);
  trace.name_thread("train");
  trace.span("step").end();
  CHECK(events(trace, "X").empty());
  CHECK(events(trace, "M").size() == 1);
  CHECK(trace.dropped() == 0);
}

TEST_CASE("spans beyond the most that are kept are counted") {
  Trace trace(true, 3);
  for (int i = 0; i < 10; ++i) trace.span("step", i).end();
  CHECK(events(trace, "X").size() == 3);
  CHECK(trace.dropped() == 7);
  trace.begin();
  CHECK(trace.dropped() == 0);
}

TEST_CASE("time begins at zero with begin, and what lies before is forgotten") {
  Trace trace(true);
  trace.span("before").end();
  auto across = trace.span("across");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Stopwatch since_begin;
  trace.begin();
  across.end();
  const double most = since_begin.seconds() * 1e6;  // without the 20 ms before, however slow the machine is
  trace.span("after").end();
  const std::vector<Json> spans = events(trace, "X");
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].at("name") == "across");
  CHECK(spans[0].at("ts") == 0.0);
  CHECK(spans[0].at("dur") <= most);
  CHECK(spans[1].at("ts") >= 0.0);
}

TEST_CASE("the ranks' events join into one document") {
  Trace trace(true);
  trace.span("step").end();
  const Json document = Json::parse(trace_document({trace.events_json(0, "a"), trace.events_json(1, "b")}));
  CHECK(document.at("displayTimeUnit") == "ms");
  std::set<int> ranks;
  for (const Json& event : document.at("traceEvents")) ranks.insert(event.at("pid").get<int>());
  CHECK(ranks == std::set<int>{0, 1});
}
