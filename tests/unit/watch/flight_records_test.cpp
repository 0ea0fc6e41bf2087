#include "dtrain/watch/flight_records.hpp"

#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

namespace {

FlightRecord record_of(int rank, const std::string& reason, std::vector<int> waited_for) {
  FlightRecord record;
  record.rank = rank;
  record.ranks = 3;
  record.host = "node17";
  record.pid = 100 + rank;
  record.reason = reason;
  record.sentence = "a \"sentence\"\n of rank " + std::to_string(rank);
  record.waited_for = std::move(waited_for);
  for (int r = 0; r < 3; ++r)
    record.peers.push_back(
        {r, r == 2 ? "node18" : "node17", 100 + r, r == 2 ? "data loading" : "all-reduce", 600, 4812, 60.25, r != 2});
  record.events = {{61.5, "data loading", 600, 4811}, {60.5, "all-reduce begins", 600, 4812}};
  record.stack = {"/lib/libc.so.6(read+0x10) [0x1]", "/bin/dtrain(+0x20) [0x2]"};
  return record;
}

}  // namespace

TEST_CASE("flight records of a stall tell who was behind, and which rank left none") {
  const test::TemporaryFolder folder;
  write_flight_record(folder.path(), record_of(0, "stall", {2}));
  write_flight_record(folder.path(), record_of(1, "stall", {2}));
  const std::vector<std::string> said = explain_flight_records(folder.path());
  REQUIRE(said.size() == 4);
  CHECK(said[0] ==
        "the job stalled, waiting for rank 2 (node18, pid 102), last seen in data loading, step 600, without a "
        "sign of life");
  CHECK(holds(said[1], "rank 2 (node18, pid 102) left no record: it was stopped, gone or cut off; last seen in data"));
  CHECK(holds(said[2], "rank 0 on node17, 20"));
  CHECK(
      holds(said[2], ": stall, for 60 s in all-reduce 4812, step 600; its training thread was in /bin/dtrain(+0x20)"));
  CHECK(holds(said[3], "rank 1 on node17, 20"));
}

TEST_CASE("a failing rank's record speaks before those of the others") {
  const test::TemporaryFolder folder;
  write_flight_record(folder.path(), record_of(0, "failure of another rank", {}));
  write_flight_record(folder.path(), record_of(1, "failure", {}));
  write_flight_record(folder.path(), record_of(2, "failure of another rank", {}));
  const std::vector<std::string> said = explain_flight_records(folder.path());
  REQUIRE(said.size() == 4);
  CHECK(holds(said[0], "rank 1 failed: a \"sentence\"\n of rank 1"));
}

TEST_CASE("a rank that waited for the network tells so") {
  const test::TemporaryFolder folder;
  write_flight_record(folder.path(), record_of(0, "stall", {}));
  CHECK(holds(explain_flight_records(folder.path())[0], "all ranks waiting for each other: look at the network"));
}

TEST_CASE("no records are no sentences, and the next start removes old ones and nothing else") {
  const test::TemporaryFolder folder;
  CHECK(explain_flight_records(folder.path()).empty());
  CHECK_NOTHROW(remove_flight_records(folder.path()));
  write_flight_record(folder.path(), record_of(1, "stall", {2}));
  write_flight_record(folder.path(), record_of(1, "stall", {0}));  // replaces it
  std::ofstream(folder / "flight/rank-0002.json.tmp") << "cut";
  std::ofstream(folder / "flight/notes.txt") << "mine";
  CHECK(explain_flight_records(folder.path()).size() == 4);
  remove_flight_records(folder.path());
  CHECK(explain_flight_records(folder.path()).empty());
  CHECK_FALSE(std::filesystem::exists(folder / "flight/rank-0002.json.tmp"));
  CHECK(std::filesystem::exists(folder / "flight/notes.txt"));
  CHECK_THROWS_AS(write_flight_record(folder / "gone", record_of(0, "stall", {})), Error);
}

TEST_CASE("a damaged record is named, and the others are told") {
  const test::TemporaryFolder folder;
  write_flight_record(folder.path(), record_of(0, "stall", {2}));
  const std::string whole = read_text(folder / "flight/rank-0000.json");
  for (const std::string& text :
       {std::string(), std::string("[1, 2]"), std::string("{\"format\": \"dtrain-flight-1\"}"), whole.substr(0, 200),
        std::string(100000, '['), std::string("{\"format\": \"other\"}")}) {
    std::ofstream(folder / "flight/rank-0001.json") << text;
    const std::vector<std::string> said = explain_flight_records(folder.path());
    REQUIRE(said.size() == 5);
    CHECK(holds(said.back(), "flight/rank-0001.json cannot be understood: "));
    CHECK(holds(said[0], "waiting for rank 2"));
  }
}
