#include "dtrain/dist/leftovers.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dtrain/base/host.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;
namespace fs = std::filesystem;

namespace {

/// A temporary folder and a /dev/shm with what jobs of this user leave.
struct Places {
  test::TemporaryFolder folder;
  LeftoverPlaces places{folder.path() + "/tmp", folder.path() + "/shm"};
  std::string of_me = host_name().substr(0, host_name().find('.')) + "." + std::to_string(geteuid());

  Places() { fs::create_directories(places.shared); }

  std::string session(const std::string& pid) const {
    const std::string path = sessions_folder(places) + "/pid." + pid;
    fs::create_directories(path + "/0");
    std::ofstream(path + "/0/data") << std::string(100, 'x');
    return path;
  }
  std::string segment(const std::string& end, const std::string& start = "vader_segment.") const {
    const std::string path = places.shared + "/" + start + of_me + "." + end;
    std::ofstream(path) << std::string(50, 'x');
    return path;
  }
  std::vector<std::string> found() const {
    std::vector<std::string> paths;
    for (const Leftover& one : open_mpi_leftovers(places)) paths.push_back(one.path);
    return paths;
  }
};

}  // namespace

TEST_CASE("what a killed mpirun has left is found, with its size, what a living one uses is not") {
  const Places places;
  const std::string session = places.session("999999999");
  places.session(std::to_string(getpid()));
  const std::string segment = places.segment("61e30001.0");
  const std::string used = places.segment("61e40001.0");
  const int descriptor = open(used.c_str(), O_RDWR);
  void* first = mmap(nullptr, 50, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  REQUIRE(first != MAP_FAILED);
  REQUIRE(places.found() == std::vector<std::string>{session, segment});
  CHECK(open_mpi_leftovers(places.places)[0].bytes == 100);
  CHECK(open_mpi_leftovers(places.places)[1].bytes == 50);
  const std::string held = session + "/0/data";
  const int open_file = open(held.c_str(), O_RDONLY);
  CHECK(places.found() == std::vector<std::string>{segment});
  close(open_file);
  munmap(first, 50);
  CHECK(places.found().size() == 3);
}

TEST_CASE("links, other names and absent folders are no leftovers") {
  const Places places;
  CHECK(places.found().empty());
  const std::string sessions = places.places.temporary + "/ompi." + places.of_me;
  CHECK(sessions == sessions_folder(places.places));
  fs::create_directories(sessions);
  fs::create_directories(places.folder.path() + "/foreign");
  fs::create_symlink(places.folder.path() + "/foreign", sessions + "/pid.999999999");
  fs::create_directories(sessions + "/pid.12x");
  fs::create_directories(places.places.temporary + "/ompi.elsewhere." + std::to_string(geteuid()) + "/pid.999999999");
  places.segment("0", "other_segment.");
  fs::create_symlink("/etc/passwd", places.places.shared + "/vader_segment." + places.of_me + ".1.0");
  CHECK(places.found().empty());
}

TEST_CASE("the common folder of sessions stays while it is held, even if others remove it as soon as it is empty") {
  const Places places;
  fs::create_directories(places.places.temporary);
  const std::string sessions = sessions_folder(places.places);
  std::atomic<bool> over = false;
  std::thread ending([&] {
    while (!over) rmdir(sessions.c_str());
  });
  int64_t missing = 0;
  for (int i = 0; i < 100; ++i) {
    const SessionsHold hold(places.places);
    missing += !fs::is_directory(sessions);
  }
  over = true;
  ending.join();
  CHECK(missing == 0);
  CHECK_FALSE(fs::exists(sessions));
  places.session("1");
  { const SessionsHold hold(places.places); }
  CHECK(fs::exists(sessions + "/pid.1"));
  CHECK_FALSE(fs::exists(sessions + "/pid." + std::to_string(getpid())));
}
