#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "input.hpp"

// Runs every file of the given folders through LLVMFuzzerTestOneInput(), also truncated and with single bytes changed,
// so that builds without libFuzzer try more than the seeds.
int main(int count, char** names) {
  int64_t inputs = 0;
  const auto run = [&](const std::string& bytes) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++inputs;
  };
  for (int i = 1; i < count; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(names[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      run(bytes);
      const size_t step = std::max<size_t>(1, bytes.size() / 300);
      for (size_t at = 0; at < bytes.size(); at += step) {
        run(bytes.substr(0, at));
        for (const char change : {'\x01', '\x80', '\xFF'}) {
          std::string changed = bytes;
          changed[at] = static_cast<char>(changed[at] ^ change);
          run(changed);
        }
      }
    }
  std::printf("%lld inputs read or refused\n", static_cast<long long>(inputs));
  return inputs > 0 ? 0 : 1;
}
