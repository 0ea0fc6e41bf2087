// Pictures without labels: which there are, what replaces those that cannot be read, what is written for them.
#include "dtrain/data/formats/picture_input.hpp"

#include "folder.hpp"
#include "tiff_stack.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

PictureInput opened(const std::string& input, const std::string& left_out = "/nowhere") {
  return open_pictures(input, left_out, false, plain(4, 4, 1));
}

Dataset listing(const std::vector<std::string>& paths) {
  Dataset dataset;
  for (const std::string& path : paths) dataset.samples.emplace_back().path = path;
  return dataset;
}

}  // namespace

TEST_CASE("a folder's pictures come in natural order, pages of a stack apart, the output's own files left out") {
  const TempFolder folder;
  for (const char* name : {"b/10.png", "b/9.png", "a.jpg", "out/masks/a.png", ".hidden/x.png"}) folder.picture(name);
  folder.text("stack.tif", tiff_stack({random_image(3, 3, 1, 1), random_image(3, 3, 1, 2)}));
  folder.text("notes.txt", "none");
  folder.text("film.gif", "GIF89a");
  const PictureInput input = opened(folder.path(), folder / "out");
  CHECK(paths_of(input.dataset) ==
        std::vector<std::string>{"a.jpg", "b/9.png", "b/10.png", "stack.tif#1", "stack.tif#2"});
  REQUIRE(input.notes.size() == 1);
  CHECK(holds(input.notes[0], "1 picture of formats that are not read left out, such as film.gif"));
  CHECK(input.dataset.classes.empty());
  const std::string before = input.dataset.manifest_sha256;
  CHECK(opened(folder.path(), folder / "out").dataset.manifest_sha256 == before);
  folder.picture("a.jpg", random_image(9, 9, 1, 3));
  CHECK(opened(folder.path(), folder / "out").dataset.manifest_sha256 != before);
}

TEST_CASE("a picture and a list of paths are inputs too, and a list keeps its order") {
  const TempFolder folder;
  for (const char* name : {"a.png", "in/b.png"}) folder.picture(name);
  CHECK(paths_of(opened(folder / "in/b.png").dataset) == std::vector<std::string>{"b.png"});
  folder.text("in/list.txt", "b.png\r\n\n  ../a.png \nabsent.png\n" + (folder / "a.png") + "\n");
  const PictureInput input = opened(folder / "in/list.txt");
  CHECK(paths_of(input.dataset) == std::vector<std::string>{"b.png", "../a.png", "absent.png", folder / "a.png"});
  for (const int64_t good : {0, 1, 3}) CHECK(read_picture(input.dataset, good).height == 4);
}

TEST_CASE("what is no input is refused with what is one") {
  const TempFolder folder;
  folder.text("empty/readme.md", "");
  folder.text("none.txt", "\n \n");
  folder.text("twice.txt", "a.png\n./a.png\n");
  folder.text("table.csv", "path\n");
  CHECK(holds(error_of(66, [&] { opened(folder / "absent"); }), "does not exist"));
  CHECK(holds(error_of(65, [&] { opened(folder / "empty"); }), "holds no picture"));
  CHECK(holds(error_of(65, [&] { opened(folder / "none.txt"); }), "names no picture"));
  CHECK(holds(error_of(65, [&] { opened(folder / "twice.txt"); }), "'a.png' twice"));
  CHECK(holds(error_of(65, [&] { opened(folder / "table.csv"); }), "neither a folder, nor a picture"));
}

TEST_CASE("a black picture stands for one that cannot be read, and the reason is kept until it is taken") {
  const TempFolder folder;
  folder.picture("good.png", random_image(3, 5, 1, 1));
  folder.text("bad.png", "no picture at all");
  folder.text("list.txt", "good.png\nbad.png\nabsent.png\n");
  const PictureInput input = opened(folder / "list.txt");
  const auto& samples = input.dataset.samples;
  CHECK(read_picture(input.dataset, 0).bytes == random_image(3, 5, 1, 1).bytes);
  const ListedPictures::Found good = input.pictures->take(samples[0]);
  CHECK((good.height == 3 && good.width == 5 && good.bad.empty()));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Image black = read_picture(input.dataset, static_cast<int64_t>(i));
    CHECK((black.height == 4 && black.width == 4 && black.bytes == std::vector<uint8_t>(16, 0)));
    CHECK(holds(input.pictures->take(samples[i]).bad, samples[i].path));
  }
  folder.picture("bad.png");  // replaced by a good one meanwhile
  read_picture(input.dataset, 1);
  CHECK(input.pictures->take(samples[1]).bad.empty());
  CHECK_THROWS_AS(input.pictures->take(samples[1]), InternalError);  // it was already taken
}

TEST_CASE("what is written for a picture lies below any folder, under a name of its own") {
  CHECK(output_stem("a/b.c.png") == "a/b.c");
  CHECK(output_stem("../../x/a.tif#12") == "x/a#12");
  CHECK(output_stem("/data/a.dcm") == "data/a");
  CHECK_NOTHROW(require_own_stems(listing({"a.png", "b/a.png", "a.tif#1"})));
  CHECK(holds(error_of(65, [] { require_own_stems(listing({"a.png", "a.tif"})); }), "'a.png' and 'a.tif'"));
  CHECK(holds(error_of(65, [] { require_own_stems(listing({"x/a.png", "../x/a.png"})); }), "x/a.png;"));
  CHECK(holds(error_of(65,
                       [] {
                         require_own_stems(listing({"a.tif", "a.png/b.png"}));
                       }),
              "the folder of 'a.png/b.png'"));
}
