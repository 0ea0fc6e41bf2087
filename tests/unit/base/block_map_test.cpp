#include "dtrain/base/block_map.hpp"

#include <map>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("a block goes into the smallest gap that holds it, one of its own size first") {
  BlockMap map;
  std::vector<int64_t> blocks;
  for (const int64_t size : {640, 64, 192, 64, 128, 64}) blocks.push_back(map.take(size));
  for (const int which : {0, 2, 4}) map.give_back(blocks[which]);
  CHECK(map.take(128) == blocks[4]);
  CHECK(map.take(100) == blocks[2]);
  CHECK(map.take(64) == blocks[2] + 128);
  CHECK(map.take(641) == 1152);  // no gap holds it
  CHECK(map.reach() == 1152 + 704);
  CHECK(map.held() == 64 + 128 + 64 + 64 + 128 + 64 + 704);
}

TEST_CASE("gaps that touch become one, and one at the end leaves it") {
  BlockMap map;
  std::vector<int64_t> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(map.take(64));
  for (const int which : {0, 2, 1}) map.give_back(blocks[which]);
  CHECK(map.gaps() == std::map<int64_t, int64_t>{{0, 192}});
  CHECK(map.take(192) == 0);
  map.give_back(blocks[3]);
  map.give_back(blocks[4]);
  CHECK(map.end() == 192);
  CHECK(map.reach() == 320);
  CHECK(map.gaps().empty());
  CHECK(map.take(1) == 192);
}

TEST_CASE("what was not taken cannot be given back") {
  BlockMap map;
  const int64_t block = map.take(0);
  CHECK(map.held() == 64);
  CHECK_THROWS_AS(map.give_back(64), InternalError);
  map.give_back(block);
  CHECK_THROWS_AS(map.give_back(block), InternalError);
}

TEST_CASE("blocks in any order never overlap, the gaps are what lies between them, and nothing is lost") {
  KeyedRandom random(3, Purpose::epoch_order, 0, 0);
  std::vector<uint32_t> draws(8000);
  random.fill(draws);
  BlockMap map;
  std::map<int64_t, int64_t> blocks;  // offset → bytes
  for (size_t i = 0; i + 1 < draws.size(); i += 2) {
    if (draws[i] % 2 == 0 && !blocks.empty()) {
      const auto which = std::next(blocks.begin(), draws[i + 1] % blocks.size());
      map.give_back(which->first);
      blocks.erase(which);
    } else {
      const int64_t bytes = 64 * (1 + draws[i + 1] % 80);
      REQUIRE(blocks.emplace(map.take(bytes), bytes).second);
    }
    std::map<int64_t, int64_t> between;
    int64_t end = 0, held = 0;
    for (const auto& [offset, bytes] : blocks) {
      REQUIRE(offset >= end);
      if (offset > end) between.emplace(end, offset - end);
      end = offset + bytes;
      held += bytes;
    }
    REQUIRE(map.gaps() == between);
    REQUIRE(map.end() == end);
    REQUIRE(map.held() == held);
    REQUIRE(map.reach() >= map.most_held());
  }
  for (const auto& [offset, bytes] : blocks) map.give_back(offset);
  CHECK(map.end() == 0);
  CHECK(map.held() == 0);
}
