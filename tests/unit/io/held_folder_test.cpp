#include "dtrain/io/files/held_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;
namespace fs = std::filesystem;

namespace {

void write_through(HeldFolder& held, const std::string& path, const std::string& text) {
  AtomicFile file(path, held);
  file.write(text);
  file.commit();
}

}  // namespace

TEST_CASE("what is written through a held folder lands in it, whatever its name leads to") {
  const test::TemporaryFolder folder;
  const std::string run = folder / "run";
  fs::create_directory(run);
  HeldFolder held(run);
  CHECK(held.place_now() == run);
  fs::rename(run, folder / "moved");
  fs::create_directory(run);
  write_through(held, run + "/a", "1");
  make_folders(run + "/checkpoints", held);
  write_through(held, run + "/checkpoints/b", "2");
  CHECK(read_text(folder / "moved/a") == "1");
  CHECK(read_text(folder / "moved/checkpoints/b") == "2");
  CHECK(fs::is_empty(run));
  CHECK(held.place_now() == folder / "moved");
  std::vector<std::string> names;
  REQUIRE(held.list(run + "/checkpoints", names) == 0);
  CHECK(names == std::vector<std::string>{"b"});
  fs::remove_all(folder / "moved");
  CHECK(held.place_now().empty());
  CHECK_THROWS_AS(write_through(held, run + "/a", "3"), MissingError);
}

TEST_CASE("no link inside a held folder is followed, at the end or on the way") {
  const test::TemporaryFolder folder;
  const std::string run = folder / "run";
  fs::create_directories(folder / "elsewhere");
  fs::create_directory(run);
  std::ofstream(folder / "elsewhere/file") << "kept";
  fs::create_symlink(folder / "elsewhere/file", run + "/file");
  fs::create_symlink(folder / "elsewhere", run + "/checkpoints");
  HeldFolder held(run);
  CHECK(held.open(run + "/file", O_RDONLY, 0) == -ELOOP);
  CHECK(held.open(run + "/file", O_WRONLY | O_CREAT | O_APPEND, 0640) == -ELOOP);
  CHECK(held.open(run + "/checkpoints/new", O_WRONLY | O_CREAT, 0640) == -ELOOP);
  CHECK(held.unlink(run + "/checkpoints/file") == -ELOOP);
  CHECK(held.rename(run + "/checkpoints/file", run + "/taken") == -ELOOP);
  CHECK(held.make_folder(run + "/checkpoints/new", 0750) == -ELOOP);
  std::vector<std::string> names;
  CHECK(held.list(run + "/checkpoints", names) < 0);
  FileSystem::Status status;
  REQUIRE(held.status(run + "/file", true, status) == 0);
  CHECK_FALSE(status.is_file);
  CHECK_THROWS_WITH(read_file(run + "/file", 100, held), Catch::Contains("a symbolic link on the way is not followed"));
  write_through(held, run + "/file", "new");  // replaces the link, as a rename does
  CHECK(read_text(folder / "elsewhere/file") == "kept");
  CHECK(read_text(run + "/file") == "new");
}

TEST_CASE("a held folder has no way out") {
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "run/in");
  std::ofstream(folder / "secret") << "x";
  HeldFolder held(folder / "run");
  for (const std::string path : {"/secret", "/run/../secret", "/run/in/../../secret", "/running", "/run//x"})
    CHECK(held.open(folder.path() + path, O_RDONLY, 0) == -EXDEV);
  CHECK(held.unlink(folder / "secret") == -EXDEV);
  CHECK(held.rename(folder / "run/in", folder / "out") == -EXDEV);
  CHECK_THROWS_AS(HeldFolder(folder / "secret"), MissingError);
  CHECK_THROWS_AS(HeldFolder(folder / "absent"), MissingError);
}
