#include "dtrain/base/host.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "dtrain/base/text.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("the processor's vector extensions are words of their kinds, each once") {
  const std::vector<std::string> words = split_text(vector_extensions(), ' ');
  CHECK(std::is_sorted(words.begin(), words.end()));
  CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
#if defined(__x86_64__)
  CHECK(std::find(words.begin(), words.end(), "sse4_2") != words.end());
#endif
}

TEST_CASE("core numbers are told as ranges") {
  CHECK(core_ranges({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(core_ranges({5}) == "5");
  for (const std::vector<int>& cores : {std::vector<int>{}, {5}, {0, 1, 2, 3, 8}, {1, 3, 10, 11}})
    CHECK(read_core_ranges(core_ranges(cores)) == cores);
  CHECK_FALSE(bound_cores().empty());
}

TEST_CASE("a thread runs on the cores that it chose, and a choice of none is refused") {
  const std::vector<int> before = bound_cores();
  std::vector<int> chosen, kept;
  bool refused = false;
  std::thread([&] {
    run_on_cores({before.back()});
    chosen = bound_cores();
    refused = !run_on_cores({});
    kept = bound_cores();
  }).join();
  CHECK(chosen == std::vector<int>{before.back()});
  CHECK(refused);
  CHECK(kept == chosen);
  CHECK(bound_cores() == before);
}
