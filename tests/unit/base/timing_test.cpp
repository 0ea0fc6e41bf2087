#include "dtrain/base/timing.hpp"

#include <set>
#include <string>

#include "support/catch.hpp"

using namespace dtrain;

// Different in each field.
static Timing numbered(double first, int64_t bytes) {
  Timing timing;
  for (const TimingField& field : kTimingFields) timing.*field.seconds = first++;
  timing.bytes_read = bytes;
  return timing;
}

TEST_CASE("each second of a timing has one name and one place in it") {
  std::set<std::string> names;
  for (const TimingField& field : kTimingFields) {
    names.insert(field.name);
    CHECK(std::string(timing_name(field.seconds)) == field.name);
  }
  CHECK(names.size() == kTimingFields.size());
  CHECK(sizeof(Timing) == kTimingFields.size() * sizeof(double) + sizeof(int64_t));  // none is missing from the walk
}

TEST_CASE("timings add up and are divided field by field") {
  Timing sum = numbered(1, 10);
  sum += numbered(100, 30);
  const Timing mean = (sum + Timing{}) / 2;
  double first = 1;
  for (const TimingField& field : kTimingFields) {
    INFO(field.name);
    CHECK(sum.*field.seconds == first + first + 99);
    CHECK(mean.*field.seconds == first + 49.5);
    ++first;
  }
  CHECK(sum.bytes_read == 40);
  CHECK(mean.bytes_read == 20);
}
