#include "dtrain/config/config_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "scratch_config.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

static std::string file_refusal(const std::string& path) {
  try {
    read_config_file(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

static std::string pipe_in(const ScratchFolder& folder) {
  const std::string path = folder.path() + "/pipe";
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("no pipe");
  return path;
}

// Opens the pipe after `delay`, then writes each text after another delay.
static std::jthread writer(const std::string& path, std::vector<std::string> texts, std::chrono::milliseconds delay) {
  return std::jthread([=] {
    std::this_thread::sleep_for(delay);
    const int pipe = ::open(path.c_str(), O_WRONLY);
    for (const std::string& text : texts) {
      std::this_thread::sleep_for(delay);
      if (::write(pipe, text.data(), text.size()) < 0) break;
    }
    ::close(pipe);
  });
}

TEST_CASE("a configuration may come through a pipe, late and in pieces") {
  using std::chrono::milliseconds;
  const ScratchFolder folder;
  const std::string pipe = pipe_in(folder);
  for (const milliseconds delay : {milliseconds(0), milliseconds(60)}) {
    const std::jthread writes = writer(pipe, {"epochs: 7\ndata: {format: ", "synthetic}\n"}, delay);
    CHECK(load_config({{pipe}, false, {}}).experiment.epochs == 7);
  }
  const std::jthread nothing = writer(pipe, {}, milliseconds(60));
  CHECK(read_config_file(pipe).empty());
}

TEST_CASE("a pipe into which nobody writes is a sentence after 3 seconds, one that never ends after 1 MiB") {
  const ScratchFolder folder;
  const std::string pipe = pipe_in(folder);
  const auto began = std::chrono::steady_clock::now();
  CHECK(file_refusal(pipe) == pipe + " is a pipe to which nothing has written a configuration for 3 s");
  CHECK(std::chrono::steady_clock::now() - began <
        std::chrono::seconds(40));  // less than the longest wait for a writer
  void (*const before)(int) = std::signal(SIGPIPE, SIG_IGN);
  {
    const std::jthread writes = writer(pipe, std::vector<std::string>(1000, std::string(65536, '#')), {});
    const std::string read = read_config_file(pipe);
    CHECK(read.size() > size_t{1} << 20);
    CHECK(read.size() <= (size_t{1} << 20) + (size_t{1} << 16));
  }
  std::signal(SIGPIPE, before);
}

TEST_CASE("a device, a socket and a folder are no configuration") {
  const ScratchFolder folder;
  const std::string socket = folder.path() + "/socket";
  REQUIRE(::mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  for (const std::string& path : {std::string("/dev/zero"), std::string("/dev/null"), socket})
    CHECK(file_refusal(path) == path + " is a device or a socket; a configuration is a file or a pipe");
  CHECK(holds(file_refusal(folder.path()), "is a folder"));
}
