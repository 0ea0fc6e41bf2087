#include "dtrain/dist/network_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace dtrain {

static std::string in_words(const sockaddr& address) {
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &address, sizeof(ipv4));
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text));
  return text;
}

std::vector<std::string> network_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::vector<std::string> addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) != 0)
      addresses.push_back(in_words(*one->ifa_addr));
  freeifaddrs(all);
  return addresses;
}

bool only_loopback(const std::vector<std::string>& addresses) {
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(),
                                           [](const std::string& one) { return one.starts_with("127."); });
}

}  // namespace dtrain
