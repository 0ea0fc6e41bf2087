#include "dtrain/data/batches/shared_pictures.hpp"

#include <sys/wait.h>

#include <thread>

#include "dtrain/data/pixels/raw_pictures.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static ImageOptions canvas(int64_t side, int64_t channels = 3) {
  ImageOptions options;
  options.height = options.width = side;
  options.channels = channels;
  return options;
}

TEST_CASE("a picture is kept raw where that is smaller, else as decoded, and comes back as it was") {
  for (const bool may_be_raw : {true, false})
    for (const int64_t side : {12, 20, 60})
      for (const int64_t channels : {1, 3})
        for (const int bits : {8, 16}) {
          CAPTURE(may_be_raw, side, channels, bits);
          const ImageOptions options = canvas(20, 3);
          Image picture = random_image(side, side, channels, static_cast<unsigned>(side + bits));
          const Image mask = random_image(side, side, 1, 3);
          if (bits == 16) {
            picture.bits = 16;
            picture.words.assign(picture.bytes.begin(), picture.bytes.end());
            picture.bytes.clear();
          }
          SharedPictures kept(5, 1 << 20, options, may_be_raw);
          CHECK_FALSE(kept.find(3));
          REQUIRE(kept.keep(3, picture, mask));
          const auto found = kept.find(3);
          REQUIRE(found);
          const ImageHeader header{side, side, channels, bits};
          const PixelKind kind = pixel_kind(header, options);
          const int64_t raw_bytes = kind.picture_bytes(options) + 20 * 20;
          const int64_t decoded_bytes = side * side * channels * bits / 8 + side * side;
          REQUIRE(found->raw == (may_be_raw && raw_bytes <= decoded_bytes));
          if (found->raw) {
            std::vector<std::byte> expected(static_cast<size_t>(kind.picture_bytes(options)));
            raw_image(picture, options, kind, expected);
            CHECK(found->kind == kind);
            CHECK(std::equal(expected.begin(), expected.end(), found->pixels));
            std::vector<uint8_t> expected_mask(20 * 20);
            raw_mask(mask, options, 255, expected_mask);
            CHECK(std::equal(expected_mask.begin(), expected_mask.end(), found->mask));
          } else {
            CHECK(found->decoded_picture().bytes == picture.bytes);
            CHECK(found->decoded_picture().words == picture.words);
            CHECK(found->decoded_picture().channels == channels);
            CHECK(found->decoded_mask().bytes == mask.bytes);
          }
          CHECK(kept.kept() == 1);
          CHECK(kept.megabytes() * 1e6 ==
                static_cast<double>(SharedPictures::bytes_of(header, true, options, may_be_raw)));
        }
}

TEST_CASE("full memory keeps what it has and takes no more") {
  const ImageOptions options = canvas(16, 1);
  const Image picture = random_image(16, 16, 1, 1);
  const int64_t each = SharedPictures::bytes_of({16, 16, 1, 8}, false, options, true);
  SharedPictures kept(10, 3 * each, options, true);
  for (int64_t sample = 0; sample < 10; ++sample) CHECK(kept.keep(sample, picture, {}) == (sample < 3));
  CHECK(kept.full());
  CHECK(kept.kept() == 3);
  CHECK(kept.find(2));
  CHECK_FALSE(kept.find(3));
  CHECK(kept.keep(2, picture, {}));
  CHECK(kept.find(0)->mask == nullptr);
}

TEST_CASE("another process sees what is kept, and what it keeps is seen; its end, however sudden, changes nothing") {
  const ImageOptions options = canvas(16, 1);
  const Image mine = random_image(16, 16, 1, 1);
  const Image theirs = random_image(16, 16, 1, 2);
  SharedPictures kept(10, 1 << 20, options, true);
  REQUIRE(kept.keep(1, mine, {}));
  const pid_t child = fork();
  if (child == 0) {
    try {
      SharedPictures same(kept.address(), 10, options, true);
      const auto found = same.find(1);
      if (found && std::equal(mine.bytes.begin(), mine.bytes.end(), reinterpret_cast<const uint8_t*>(found->pixels)) &&
          same.keep(2, theirs, {}))
        kill(getpid(), SIGKILL);
    } catch (const std::exception&) {
    }
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  REQUIRE(kept.find(2));
  CHECK(std::equal(theirs.bytes.begin(), theirs.bytes.end(), reinterpret_cast<const uint8_t*>(kept.find(2)->pixels)));
  CHECK(kept.kept() == 2);
}

TEST_CASE("an address that leads nowhere, or to another file, is refused") {
  const ImageOptions options = canvas(16, 1);
  std::string gone;
  {
    const SharedPictures kept(10, 1 << 12, options, true);
    gone = kept.address();
  }
  CHECK(holds(error_of(74, [&] { SharedPictures(gone, 10, options, true); }), "another process of this host"));
  CHECK(holds(error_of(74, [&] { SharedPictures("1/fd/0 dtrain-1-2", 10, options, true); }), "another process"));
  CHECK(holds(error_of(74, [&] { SharedPictures(std::to_string(getpid()) + "/fd/0 dtrain-1-2", 10, options, true); }),
              "another process"));
}

TEST_CASE("many threads that keep and find the same pictures agree on all of them") {
  const ImageOptions options = canvas(16, 1);
  SharedPictures kept(200, 1 << 20, options, true);
  SharedPictures also(kept.address(), 200, options, true);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      SharedPictures& mine = t % 2 == 0 ? kept : also;
      for (int64_t i = 0; i < 400; ++i) {
        const int64_t sample = (i * (t + 1)) % 200;
        const Image picture = random_image(16, 16, 1, static_cast<unsigned>(sample));
        if (!mine.find(sample)) mine.keep(sample, picture, {});
        const auto found = mine.find(sample);
        if (!found ||
            !std::equal(picture.bytes.begin(), picture.bytes.end(), reinterpret_cast<const uint8_t*>(found->pixels)))
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(kept.kept() == 200);
}
