#include "dtrain/base/module_file.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;
namespace fs = std::filesystem;

namespace {

constexpr const char* kStamp = "made-up-1";
constexpr const char* kRan = "DTRAIN_MADE_UP_MODULE_RAN";

/// The file of the made-up module; none if it is absent, and then the test counts as skipped: only a build tree has it.
const char* made_up_module() {
  const char* file = std::getenv("DTRAIN_MADE_UP_MODULE");
  if (file == nullptr) test::skip("DTRAIN_MADE_UP_MODULE names no module");
  return file;
}

/// A folder `a` within others, laid out as a build or as a bundle, with `program` in it.
struct Tree {
  explicit Tree(const std::string& program_name) : program(folder / ("a/" + program_name)) {
    fs::create_directories(fs::path(program).parent_path());
    fs::create_directories(folder / "a/lib");
    std::ofstream(program) << "a program";
  }
  std::string put(const std::string& name) const {
    fs::copy_file(std::getenv("DTRAIN_MADE_UP_MODULE"), folder / name, fs::copy_options::overwrite_existing);
    return fs::canonical(folder / name).string();
  }
  /// The sentence of a refusal; checks that none of the module's code has run.
  std::string refusal(const std::string& stamp = kStamp) const {
    ::unsetenv(kRan);
    std::string said;
    try {
      load_module("libx.so", stamp, program);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(std::getenv(kRan) == nullptr);
    return said;
  }

  test::TemporaryFolder folder;
  std::string program;
};

}  // namespace

TEST_CASE("a module is looked for beside the program and in lib/ of its prefix, never above that") {
  if (made_up_module() == nullptr) return;
  for (const char* layout : {"bin/dtrain", "libexec/dtrain/dtrain", "share/dtrain/tests/test_x"}) {
    INFO(layout);
    const Tree tree(layout);
    for (const char* strange : {"libx.so", "a/libx.so", "a/share/libx.so", "a/libexec/libx.so"}) {
      fs::create_directories(fs::path(tree.folder / strange).parent_path());
      tree.put(strange);
    }
    fs::create_directories(tree.folder / "lib");
    tree.put("lib/libx.so");
    CHECK(module_path("libx.so", tree.program).empty());
    CHECK_THAT(tree.refusal(), Catch::Contains("libx.so is neither beside the program nor in lib/"));
    const std::string in_lib = tree.put("a/lib/libx.so");
    CHECK(module_path("libx.so", tree.program) == in_lib);
    const std::string beside = tree.put((fs::path("a") / layout).parent_path() / "libx.so");
    CHECK(module_path("libx.so", tree.program) == beside);
  }
  // Moved out of its layout a program has no lib/ of its own: anybody may have put files into /tmp/lib.
  const Tree moved("dtrain");
  moved.put("a/lib/libx.so");
  CHECK(module_path("libx.so", moved.program).empty());
}

TEST_CASE("a module of this build is loaded, also where another one was loaded before") {
  if (made_up_module() == nullptr) return;
  const Tree tree("bin/dtrain");
  tree.put("a/lib/libx.so");
  tree.put("a/lib/liby.so");
  ::unsetenv(kRan);
  void* x = load_module("libx.so", kStamp, tree.program);
  CHECK(std::getenv(kRan) != nullptr);
  void* y = load_module("liby.so", kStamp, tree.program);
  CHECK(x != y);
  REQUIRE(::dlsym(x, "dtrain_made_up_module") != nullptr);
  CHECK(*static_cast<const int*>(::dlsym(x, "dtrain_made_up_module")) == 42);
}

TEST_CASE("a module of another build is refused before any of its code runs") {
  if (made_up_module() == nullptr) return;
  const Tree tree("bin/dtrain");
  const std::string path = tree.put("a/lib/libx.so");
  CHECK_THAT(tree.refusal("made-up-2"), Catch::Contains(path + " belongs to another build (made-up-1, this program is "
                                                               "made-up-2)"));
  std::ofstream(path) << "no library";
  CHECK_THAT(tree.refusal(), Catch::Contains("belongs to another build (it names none"));
}

TEST_CASE("a module that somebody else could have put there is refused by name before any of its code runs") {
  if (made_up_module() == nullptr) return;
  const Tree tree("libexec/dtrain/dtrain");
  const std::string path = tree.put("a/lib/libx.so");
  const std::string lib = fs::path(path).parent_path();
  const std::string prefix = fs::path(lib).parent_path();
  for (const std::string& open : {path, lib, prefix})
    for (const mode_t mode : {0707, 0770}) {
      INFO(open << " " << std::oct << mode);
      ::chmod(open.c_str(), mode);
      CHECK_THAT(tree.refusal(), Catch::StartsWith(open + " may be written by " + (mode == 0707 ? "every" : "group")));
      ::chmod(open.c_str(), 0755);
    }
  // Others may add to such a folder, not replace what is there.
  ::chmod(lib.c_str(), 01777);
  if (::geteuid() == 0) {
    for (const std::string& strange : {path, lib, prefix}) {
      REQUIRE(::lchown(strange.c_str(), 12345, static_cast<gid_t>(-1)) == 0);
      CHECK_THAT(tree.refusal(), Catch::StartsWith(strange + " belongs to user 12345, so somebody else"));
      REQUIRE(::lchown(strange.c_str(), 0, static_cast<gid_t>(-1)) == 0);
    }
    // The program's owner could have put the same code into the program.
    for (const std::string& own : {path, tree.program})
      REQUIRE(::lchown(own.c_str(), 12345, static_cast<gid_t>(-1)) == 0);
  }
  CHECK(load_module("libx.so", kStamp, tree.program) != nullptr);
}

TEST_CASE("a group that may replace the program may replace its modules") {
  if (made_up_module() == nullptr) return;
  const Tree tree("bin/dtrain");
  const std::string path = tree.put("a/lib/libx.so");
  ::chmod(fs::path(path).parent_path().c_str(), 0775);
  ::chmod(fs::path(tree.program).parent_path().c_str(), 0775);
  CHECK(load_module("libx.so", kStamp, tree.program) != nullptr);
}

TEST_CASE("no link leads to a module, and what is no plain file is none") {
  if (made_up_module() == nullptr) return;
  const Tree tree("bin/dtrain");
  const std::string elsewhere = tree.put("elsewhere.so");
  const std::string path = tree.folder / "a/lib/libx.so";
  fs::create_symlink(elsewhere, path);
  CHECK_THAT(tree.refusal(), Catch::Contains("a/lib/libx.so is a link"));
  fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(tree.refusal(), Catch::Contains("is not a plain file"));
  fs::remove_all(fs::path(path).parent_path());
  fs::create_directories(tree.folder / "other");
  tree.put("other/libx.so");
  fs::create_directory_symlink(tree.folder / "other", tree.folder / "a/lib");
  CHECK_THAT(tree.refusal(), Catch::Contains("a/lib is a link"));
}

TEST_CASE("a stamp is read from any bytes without harm") {
  const char* file = made_up_module();
  if (file == nullptr) return;
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const auto stamp_of = [](const std::string& text) {
    const int memory = ::memfd_create("module", MFD_CLOEXEC);
    REQUIRE(memory >= 0);
    REQUIRE(::write(memory, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    const std::string stamp = stamp_of_module(memory);
    ::close(memory);
    return stamp;
  };
  CHECK(stamp_of(bytes) == kStamp);
  CHECK(stamp_of("").empty());
  for (size_t cut = 0; cut < 1200; cut += 7) stamp_of(bytes.substr(0, cut));
  for (size_t at = 0; at < 1200; ++at)
    for (const char change : {'\x01', '\x80', '\xFF'}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ change);
      CHECK(stamp_of(changed).size() < 1 << 16);
    }
}
