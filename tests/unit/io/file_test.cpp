#include "dtrain/io/files/file.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/mapped_file.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/io/packed/packed_shard.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"
#include "dtrain/io/records/record_file.hpp"
#include "support/catch.hpp"
#include "support/memory_file_system.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;
using dtrain::test::TempFolder;

namespace {

size_t entries_in(const TempFolder& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  return count;
}

/// Limits the size of files this process may write, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("a file is read as it was written") {
  const TempFolder folder;
  const std::string path = folder.file("a.bin");
  std::string text(300'000, 'x');
  text[17] = '\0';
  write_file_atomically(path, text);
  CHECK(read_text(path) == text);
  CHECK(read_file(path).size() == text.size());
  CHECK(file_bytes(path) == 300'000);
  CHECK(read_file_start(path, 18).size() == 18);
  CHECK(read_file_start(path, 18).back() == std::byte{0});
  CHECK(read_file_start(path, 400'000).size() == 300'000);
  write_file_atomically(path, "");
  CHECK(read_text(path).empty());
}

TEST_CASE("text is appended to a file that may not be there yet, and to no link") {
  const TempFolder folder;
  CHECK_FALSE(is_there(folder.file("a")));
  append_to_file(folder.file("a"), "one\n");
  append_to_file(folder.file("a"), "");
  append_to_file(folder.file("a"), "two\n");
  CHECK(is_there(folder.file("a")));
  CHECK_FALSE(is_there(folder.file("a/b")));
  CHECK(read_text(folder.file("a")) == "one\ntwo\n");
  std::filesystem::create_symlink(folder.file("a"), folder.file("link"));
  CHECK_THROWS_AS(append_to_file(folder.file("link"), "three\n"), Error);
  CHECK(read_text(folder.file("a")) == "one\ntwo\n");
  test::MemoryFileSystem disk(test::DiskImage{{"/a", "one"}});
  for (const test::Fault::Kind kind : {test::Fault::Kind::short_write, test::Fault::Kind::none}) {
    disk.plan({kind, 0, 2});
    append_to_file("/a", "more", disk);
  }
  CHECK(disk.power_cuts(100, [](const test::DiskImage& left) { CHECK(left.at("/a") == "onemoremore"); }) == 1);
  disk.plan({test::Fault::Kind::error, ENOSPC, 2});
  CHECK_THROWS_AS(append_to_file("/a", "most", disk), Error);
}

TEST_CASE("files of a batch are complete at once, and survive a power cut once they are settled") {
  test::MemoryFileSystem disk;
  const std::string text = "all of it";
  std::set<std::string> settled;
  {
    FileBatch batch(disk);
    for (const char* path : {"/out/a/1", "/out/a/2", "/out/b/3"}) {
      batch.write(path, std::as_bytes(std::span(text)));
      CHECK(disk.image().at(path) == text);
      settled.insert(path);
    }
    int64_t lacking = 0;
    disk.power_cuts(200, [&](const test::DiskImage& left) { lacking += left.contains("/out/b/3") ? 0 : 1; });
    CHECK(lacking > 0);
    batch.settle();
    batch.write("/out/b/4", std::as_bytes(std::span(text)));
  }
  disk.power_cuts(200, [&](const test::DiskImage& left) {
    for (const std::string& path : settled) CHECK((left.contains(path) && left.at(path) == text));
  });
  FileBatch batch(disk);
  disk.plan({});
  batch.settle();
  CHECK(disk.calls() == 0);  // nothing is to be settled
  batch.write("/out/c/last", std::as_bytes(std::span(text)));
  disk.plan({test::Fault::Kind::error, EIO, 1});
  CHECK_THROWS_AS(batch.settle(), Error);
  CHECK(disk.hit_call() == "sync_all");
}

TEST_CASE("an absent file, a folder and a file over the cap are told apart") {
  const TempFolder folder;
  CHECK(error_of<MissingError>([&] { read_file(folder.file("none")); }).find(folder.file("none")) != std::string::npos);
  CHECK(error_of<DataError>([&] { read_text(folder.path()); }).find("is a folder") != std::string::npos);
  write_file_atomically(folder.file("a"), "12345");
  CHECK(read_text(folder.file("a"), 5) == "12345");
  CHECK_THROWS_AS(read_text(folder.file("a"), 4), DataError);
}

TEST_CASE("pipes, sockets and devices are refused by every reader, and nothing waits for them") {
  const TempFolder folder;
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string socket = folder.file("socket");
  REQUIRE(::mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  for (const std::string& path : {fifo, socket, std::string("/dev/zero"), std::string("/dev/null")}) {
    const auto is_refused = [&](const auto& read) {
      return error_of<DataError>(read).starts_with(path + " is a pipe, a socket or a device, not a file");
    };
    CAPTURE(path);
    CHECK(is_refused([&] { read_file(path); }));
    CHECK(is_refused([&] { read_text(path); }));
    CHECK(is_refused([&] { read_file_start(path, 8); }));
    CHECK(is_refused([&] { file_bytes(path); }));
    CHECK(is_refused([&] { CsvTable::read(path); }));
    CHECK(is_refused([&] { read_picture_file(path); }));
    CHECK(is_refused([&] { count_pages(path); }));
    CHECK(is_refused([&] { SafetensorsFile::read(path); }));
    CHECK(is_refused([&] { is_packed_shard(path); }));
    CHECK(error_of<DataError>([&] { RecordFile file(path); }).starts_with(path + " is not a regular file"));
    CHECK(error_of<DataError>([&] { MappedFile file(path); }).starts_with(path + " is not a regular file"));
  }
}

TEST_CASE("a file without a size of its own is read to its end") {
  CHECK(read_text("/proc/self/status").find("Name:") == 0);
  CHECK_THROWS_AS(read_text("/proc/self/status", 10), DataError);
}

TEST_CASE("a committed file replaces the old one and leaves no temporary file") {
  const TempFolder folder;
  const std::string path = folder.file("a.txt");
  write_file_atomically(path, "old");
  AtomicFile file(path);
  file.write("ne");
  file.write("w");
  CHECK(read_text(path) == "old");
  file.commit();
  CHECK(read_text(path) == "new");
  CHECK(entries_in(folder) == 1);
}

TEST_CASE("the mode of a new file lets nobody else write and strangers not read") {
  const TempFolder folder;
  write_file_atomically(folder.file("a"), "x");
  struct stat status {};
  REQUIRE(::stat(folder.file("a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777 & ~0640) == 0);
  CHECK((status.st_mode & 0600) == 0600);
}

TEST_CASE("a file that is not committed never was") {
  const TempFolder folder;
  const std::string path = folder.file("a.txt");
  write_file_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write("half");
    CHECK(entries_in(folder) == 2);
  }
  CHECK(read_text(path) == "old");
  CHECK(entries_in(folder) == 1);
}

TEST_CASE("a write that fails keeps the old file, removes the new one and is final") {
  const TempFolder folder;
  const std::string path = folder.file("a.txt");
  write_file_atomically(path, "old");
  AtomicFile file(path);
  {
    const FileSizeLimit limit(1000);
    const std::string much(5000, 'x');
    const std::string sentence = error_of<IoError>([&] { file.write(much); });
    CHECK(sentence.find("cannot write " + path) == 0);
  }
  CHECK(entries_in(folder) == 1);
  CHECK_THROWS_AS(file.write("more"), InternalError);
  CHECK_THROWS_AS(file.commit(), InternalError);
  CHECK(read_text(path) == "old");
}

TEST_CASE("an absent folder, a file for a folder and a folder for a file are refused") {
  const TempFolder folder;
  CHECK_THROWS_AS(AtomicFile(folder.file("none/a")), MissingError);
  write_file_atomically(folder.file("a"), "x");
  CHECK_THROWS_AS(AtomicFile(folder.file("a/b")), MissingError);
  std::filesystem::create_directory(folder.file("d"));
  AtomicFile file(folder.file("d"));
  file.write("x");
  CHECK_THROWS_AS(file.commit(), IoError);
  CHECK(std::filesystem::is_directory(folder.file("d")));
  CHECK(entries_in(folder) == 2);
}

TEST_CASE("what a killed process left behind does not stand in the way") {
  const TempFolder folder;
  std::ofstream(folder.file("a.tmp")) << "torn";
  write_file_atomically(folder.file("a"), "whole");
  CHECK(read_text(folder.file("a")) == "whole");
  CHECK(entries_in(folder) == 1);
}

TEST_CASE("what stands in the way and cannot be removed is told with the file that could not be written") {
  const TempFolder folder;
  std::filesystem::create_directory(folder.file("a.tmp"));
  const std::string told = error_of<IoError>([&] { write_file_atomically(folder.file("a"), "whole"); });
  CHECK(told.starts_with("cannot write " + folder.file("a") +
                         ", because what an interrupted write left here cannot be "));
  CHECK(told.find(folder.file("a.tmp") + ": ") != std::string::npos);
}

TEST_CASE("a link as temporary file is not followed") {
  const TempFolder folder;
  write_file_atomically(folder.file("precious"), "keep");
  std::filesystem::create_symlink(folder.file("precious"), folder.file("a.tmp"));
  write_file_atomically(folder.file("a"), "whole");
  CHECK(read_text(folder.file("precious")) == "keep");
  CHECK_FALSE(std::filesystem::is_symlink(folder.file("a")));
}

TEST_CASE("of two writers of one file the first is told, and what is published is whole") {
  const TempFolder folder;
  const std::string path = folder.file("a");
  AtomicFile first(path);
  first.write("first");
  AtomicFile second(path);
  second.write("sec");
  CHECK(error_of<IoError>([&] { first.commit(); }).find("another process") != std::string::npos);
  second.write("ond");
  second.commit();
  CHECK(read_text(path) == "second");
  CHECK(entries_in(folder) == 1);
}

TEST_CASE("folders are made with their parents, and twice does no harm") {
  const TempFolder folder;
  make_folders(folder.file("a/b//c/"));
  make_folders(folder.file("a/b/c"));
  CHECK(std::filesystem::is_directory(folder.file("a/b/c")));
  write_file_atomically(folder.file("f"), "x");
  CHECK_THROWS_AS(make_folders(folder.file("f")), Error);
  CHECK_THROWS_AS(make_folders(folder.file("f/g")), Error);
}
