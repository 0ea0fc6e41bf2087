#include "dtrain/io/records/tar.hpp"

#include <iostream>
#include <map>

#include "dtrain/base/error.hpp"
#include "records.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Contents = std::map<std::string, std::string>;

RecordFile tar_file(const std::string& text) { return {"a.tar", to_bytes(text)}; }

Contents contents_of(const RecordFile& file) {
  Contents contents;
  for (const TarMember& member : all_members(file)) {
    std::vector<std::byte> bytes(static_cast<size_t>(member.size));
    file.read(member.offset, bytes);
    contents[member.name] = to_text(bytes);
  }
  return contents;
}

std::string tar_refusal(const std::string& text) {
  return error_of<DataError>([&] { contents_of(tar_file(text)); });
}

}  // namespace

TEST_CASE("members of ustar, GNU and pax archives come back, plain and gzipped") {
  std::mt19937 random(3);
  const std::string long_name = std::string(70, 'd') + "/" + std::string(150, 'n') + ".png";
  const Contents expected = {{"a/1.png", random_text(random, 1000)},
                             {"empty.txt", ""},
                             {"exact.bin", random_text(random, 512)},
                             {long_name, random_text(random, 700)},
                             {"größe/ü.json", random_text(random, 10)}};
  std::string text = tar_member("a", "", '5') + tar_member("./a/1.png", expected.at("a/1.png")) +
                     tar_member("empty.txt", "") + tar_member("link", "", '2') + tar_member("hard", "", '1') +
                     tar_member("exact.bin", expected.at("exact.bin"), '\0') +
                     tar_member("g", "20 comment=whatever\n", 'g') +
                     gnu_long_member(long_name, expected.at(long_name)) +
                     pax_member("größe/ü.json", expected.at("größe/ü.json")) + tar_end();
  CHECK(contents_of(tar_file(text)) == expected);
  CHECK(contents_of(tar_file(text + std::string(9000, '\0'))) == expected);
  const TempFolder folder;
  const std::string path = folder.file("a.tar");
  for (const std::string& bytes : {text, gzip(text)}) {
    write_plainly(path, bytes);
    CHECK(contents_of(open_tar_file(path, kMuch)) == expected);
  }
}

TEST_CASE("a long name split over prefix and name is put together") {
  std::string text = tar_member("b.png", "x") + tar_end();
  text.replace(345, 5, "a/deep");
  seal_tar_header(text, 0);
  CHECK(contents_of(tar_file(text)).begin()->first == "a/deep/b.png");
}

TEST_CASE("sizes in base 256 are read, and refused where they are too large") {
  std::string text = tar_member("b.png", std::string(300, 'x')) + tar_end();
  text.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\x01\x2C", 12));
  seal_tar_header(text, 0);
  CHECK(contents_of(tar_file(text)).at("b.png").size() == 300);
  for (const std::string& size : {std::string(12, '\xFF'), "\x80" + std::string(3, '\0') + std::string(8, '\x7F')}) {
    text.replace(124, 12, size);
    seal_tar_header(text, 0);
    CHECK(holds(tar_refusal(text), "reach beyond the end of the file"));
  }
}

TEST_CASE("what cannot be read of a tar archive is refused with its offset") {
  const std::string good = tar_member("a.png", std::string(600, 'x')) + tar_member("b.png", "y") + tar_end();
  std::string bad = good;
  bad[1536 + 3] = 'z';
  CHECK(holds(tar_refusal(bad), "a.tar: the tar header at byte 1,536 has a wrong checksum"));
  CHECK(holds(tar_refusal(good.substr(0, 1000)), "reach beyond the end of the file; it was cut short"));
  CHECK(holds(tar_refusal(good.substr(0, 1536)), "without its end mark"));
  CHECK(holds(tar_refusal(good.substr(0, 2560)), "without its end mark"));
  CHECK(holds(tar_refusal(good + good), "follows the end mark"));
  CHECK(holds(tar_refusal(std::string(2000, 'q')), "not a tar archive"));
  CHECK(holds(tar_refusal(""), "not a tar archive"));
  CHECK(holds(tar_refusal(tar_member("s", "", 'S') + tar_end()), "sparse"));
  CHECK(holds(tar_refusal(tar_member("x", "22 GNU.sparse.major=1\n", 'x') + tar_end()), "sparse"));
  CHECK(holds(tar_refusal(tar_member("x", "99 path=a\n", 'x') + tar_end()), "pax notes"));
  CHECK(holds(tar_refusal(tar_member("x", "12 size=-12\n", 'x') + tar_member("a", "") + tar_end()), "not a number"));
  CHECK(holds(tar_refusal(tar_member("x", "10 path=a\n", 'x') + tar_end()), "ends after a long name"));
  CHECK(holds(tar_refusal(tar_member("m", "", 'M') + tar_end()), "another volume"));
  const TempFolder folder;
  for (const auto& [magic, program] :
       {std::pair{"BZh91AY", "bzip2"}, {"\xFD\x37zXZ", "xz"}, {"\x28\xB5\x2F\xFD..", "zstd"}}) {
    write_plainly(folder.file("a.tar"), magic);
    CHECK(holds(error_of<DataError>([&] { open_tar_file(folder.file("a.tar"), kMuch); }), program));
  }
}

TEST_CASE("20,000 random damages to a tar archive are found, or change no name, size or place") {
  const unsigned seed = std::random_device{}();
  std::cout << "tar damage seed " << seed << "\n";
  std::mt19937 random(seed);
  const std::string text = tar_member("a/1.png", random_text(random, 900)) + tar_member("a/1.cls", "3") +
                           gnu_long_member(std::string(130, 'n') + ".png", random_text(random, 200)) +
                           pax_member("ü.json", "{}") + tar_end();
  std::vector<std::string> expected;
  const auto index_of = [](const RecordFile& file) {
    std::vector<std::string> index;
    for (const TarMember& member : all_members(file))
      index.push_back(member.name + " " + std::to_string(member.offset) + " " + std::to_string(member.size));
    return index;
  };
  const std::vector<std::string> good = index_of(tar_file(text));
  int found = 0;
  int long_names = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string bad = damaged(text, random);
    std::vector<std::string> index;
    if (!error_of<DataError>([&] { index = index_of(tar_file(bad)); }).empty()) {
      ++found;
    } else if (index != good) {
      // The text of a long name has no checksum, and bytes inserted and removed in contents may cancel out, so that a
      // complete header can be there twice at most.
      ++long_names;
      REQUIRE(index.size() <= good.size() + 1);
    }
  }
  std::cout << found << " found, " << long_names << " changed a name that has no checksum\n";
  CHECK(found > 10'000);
  CHECK(long_names < 3000);
}

TEST_CASE("names are cut into key and extension at the first dot of their last part") {
  const auto cut = [](const std::string& name) {
    const auto parts = webdataset_name(name);
    return parts ? parts->key + "|" + parts->extension : "";
  };
  CHECK(cut("a/b.seg.PNG") == "a/b|seg.png");
  CHECK(cut("a.b/c.cls") == "a.b/c|cls");
  CHECK(cut("000.jpg") == "000|jpg");
  CHECK(cut("a/.hidden").empty());
  CHECK(cut("README").empty());
  CHECK(cut("__index__").empty());
}
