#include "dtrain/runlog/event_file.hpp"

#include "support/catch.hpp"

using namespace dtrain;

// Time 0.5, step 300 and train/loss = 1.5, as the wire format of protobuf and TFRecord's framing write them by hand.
TEST_CASE("an event of scalars has the bytes that event.proto describes") {
  const std::string record =
      event_of_scalars(0.5, 300, std::vector<std::pair<std::string, double>>{{"train/loss", 1.5}});
  const std::string value = std::string("\x0A\x0Atrain/loss") + std::string("\x15\x00\x00\xC0\x3F", 5);
  const std::string summary = "\x0A" + std::string(1, static_cast<char>(value.size())) + value;
  const std::string event = std::string("\x09\x00\x00\x00\x00\x00\x00\xE0\x3F", 9) + "\x10\xAC\x02" + "\x2A" +
                            std::string(1, static_cast<char>(summary.size())) + summary;
  REQUIRE(record.size() == 12 + event.size() + 4);
  CHECK(static_cast<size_t>(record[0]) == event.size());
  CHECK(record.substr(12, event.size()) == event);
}

TEST_CASE("a run that resumes goes on with the events up to its step and its epoch") {
  const auto step = [](int64_t number) {
    return event_of_scalars(1, number, std::vector<std::pair<std::string, double>>{{"step/loss", 0.1}});
  };
  const auto epoch = [](int64_t number, int64_t steps) {
    return event_of_scalars(
        1, steps,
        std::vector<std::pair<std::string, double>>{{"epoch/epoch", static_cast<double>(number)}, {"valid/loss", 0.2}});
  };
  const std::string head = event_version(1);
  const std::string one = step(1) + step(2) + epoch(1, 2);
  const std::string two = step(200) + step(400) + epoch(2, 400);
  CHECK(events_until(head + one + two, 400, 2) == head + one + two);
  CHECK(events_until(head + one + two, 399, 1) == head + one + step(200));
  CHECK(events_until(head + one + two, 400, 1) == head + one + step(200) + step(400));  // saved before the validation
  CHECK(events_until(head + one + two, 0, 0) == head);
  // What a kill left half written, and what follows damage.
  for (size_t cut = 1; cut < step(3).size(); ++cut)
    CHECK(events_until(head + one + step(3).substr(0, cut), 9, 9) == head + one);
  std::string damaged = head + one + two;
  damaged[head.size() + one.size() + 14] ^= 1;
  CHECK(events_until(damaged, 400, 2) == head + one);
}
