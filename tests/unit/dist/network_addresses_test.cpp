#include "dtrain/dist/network_addresses.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("the loopback is the only network if no address is of another, and not if none is known") {
  CHECK(only_loopback({"127.0.0.1"}));
  CHECK(only_loopback({"127.0.0.1", "127.0.1.1"}));
  CHECK_FALSE(only_loopback({"127.0.0.1", "10.127.0.1"}));
  CHECK_FALSE(only_loopback({"192.0.2.2", "127.0.0.1"}));
  CHECK_FALSE(only_loopback({}));
}

TEST_CASE("this machine's addresses are read, that of the loopback among them") {
  const std::vector<std::string> addresses = network_addresses();
  if (addresses.empty()) return test::skip("no network interface is up here");
  CHECK(std::find(addresses.begin(), addresses.end(), "127.0.0.1") != addresses.end());
}
