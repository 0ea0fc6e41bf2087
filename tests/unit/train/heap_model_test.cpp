#include "dtrain/train/heap_model.hpp"

#include <vector>

#include "dtrain/base/random.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using Held = HeapModel::Held;

TEST_CASE("a piece goes into the smallest gap that is wider than it") {
  HeapModel heap;
  std::vector<Held> pieces;
  for (const int64_t size : {640, 64, 192, 64}) pieces.push_back(heap.take(size));
  CHECK(heap.reach() == 960);
  pieces[0] = pieces[2] = nullptr;
  const Held small = heap.take(100);  // into the gap of 192
  const Held large = heap.take(576);  // into that of 640, which is whole
  CHECK(heap.reach() == 960);
  const Held same = heap.take(64);  // two gaps of 64 are there, and none is wider
  CHECK(heap.reach() == 1024);
  CHECK(heap.held() == 128 + 128 + 576 + 64);
}

TEST_CASE("gaps that touch become one, at once or when the objects between them are gone") {
  for (const bool pinned : {false, true}) {
    HeapModel heap(pinned);
    std::vector<Held> pieces;
    for (int i = 0; i < 4; ++i) pieces.push_back(heap.take(64));
    pieces[0] = pieces[1] = pieces[2] = nullptr;
    const Held first = heap.take(128);
    CHECK(heap.reach() == (pinned ? 384 : 256));
    heap.join();
    const Held second = heap.take(pinned ? 128 : 1);
    CHECK(heap.reach() == (pinned ? 384 : 320));
  }
}

TEST_CASE("what ends at the end goes back to it") {
  HeapModel heap;
  const Held first = heap.take(64);
  Held last = heap.take(64);
  last = nullptr;
  const Held longer = heap.take(128);
  CHECK(heap.reach() == 192);
}

TEST_CASE("the most that was held at one time is kept, gaps aside") {
  HeapModel heap;
  {
    const Held a = heap.take(6400);
    const Held b = heap.take(64);
  }
  const Held c = heap.take(64);
  CHECK(heap.held() == 64);
  CHECK(heap.most_held() == 6464);
  CHECK(heap.reach() == 6464);
}

TEST_CASE("pieces in any order: never less reach than is held, and nothing is lost") {
  KeyedRandom random(3, Purpose::epoch_order, 0, 0);
  std::vector<uint32_t> draws(4000);
  random.fill(draws);
  HeapModel heap;
  std::vector<Held> pieces(40);
  for (size_t i = 0; i + 1 < draws.size(); i += 2) {
    pieces[draws[i] % pieces.size()] = draws[i + 1] % 3 == 0 ? nullptr : heap.take(1 + draws[i + 1] % 5000);
    REQUIRE(heap.reach() >= heap.most_held());
    REQUIRE(heap.most_held() >= heap.held());
  }
  pieces.assign(pieces.size(), nullptr);
  CHECK(heap.held() == 0);
  const int64_t reach = heap.reach();
  const Held all = heap.take(reach);  // from the beginning again
  CHECK(heap.reach() == reach);
}
