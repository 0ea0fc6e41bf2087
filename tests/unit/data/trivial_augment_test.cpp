// TrivialAugment: each operation at each strength is torchvision's on a Pillow picture, to the bit.
#include "dtrain/data/pixels/trivial_augment.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/hash.hpp"
#include "dtrain/data/pixels/augment.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

const std::vector<std::string> kNames = {"Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
                                         "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
                                         "Posterize", "Solarize",   "AutoContrast", "Equalize"};

bool has_sign(TrivialOp op) { return op >= TrivialOp::shear_x && op <= TrivialOp::sharpness; }

// The pictures of tests/support/reference/trivial_augment.py.
Image made_up(int64_t width, int64_t height, int64_t channels) {
  Image image{height, width, channels, 8, {}, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        image.bytes.push_back(static_cast<uint8_t>(40 + (7 * x + 13 * y + 29 * c + x * y % 17 * 5) % 180));
  return image;
}

std::string digest_of(TrivialOp op) {
  Sha256 together;
  for (const Image& image : {made_up(47, 33, 3), made_up(40, 40, 1)})
    for (int bin = 0; bin < kTrivialBins; ++bin)
      for (int sign = 0; sign < (has_sign(op) ? 2 : 1); ++sign) {
        std::vector<uint8_t> pixels = image.bytes;
        apply_trivial({op, bin, sign == 1}, {pixels, image.height, image.width, image.channels});
        together.update(std::string_view(reinterpret_cast<const char*>(pixels.data()), pixels.size()));
      }
  return together.hex_digest();
}

// What the script prints, or nothing where torchvision is missing.
std::map<std::string, std::string> digests_of_torchvision() {
  const char* chosen = std::getenv("DTRAIN_PYTHON");
  const std::string script = "timeout 300 '" + std::string(chosen != nullptr ? chosen : "python3") + "' -B '" +
                             source_folder() + "/tests/support/reference/trivial_augment.py' ";
  if (std::system((script + "--check >/dev/null 2>&1").c_str()) != 0) return {};
  TempFolder folder;
  const std::string printed = folder.path() + "/printed";
  REQUIRE(std::system((script + ">'" + printed + "'").c_str()) == 0);
  std::ifstream lines(printed);
  std::map<std::string, std::string> digests;
  for (std::string name, digest; lines >> name >> digest;) digests[name] = digest;
  return digests;
}

}  // namespace

TEST_CASE("each operation of TrivialAugment gives torchvision's pixels at every strength") {
  // By torchvision 0.26 with Pillow 12.
  const std::map<std::string, std::string> kKnown = {
      {"Identity", "27a3eac36c669d0de15cd2bd8aab64e56f82daefa8eda275ca5fa0ee6fba4a2d"},
      {"ShearX", "ad773466256e4bbc4c035e79a7b3db7c90d873f8f37ae8612cd3e3d6674b1721"},
      {"ShearY", "672d373aba1ccc6e9ac603cc1a74fc9f7d353f7b03a8724a2f7ba4ea4f8580f3"},
      {"TranslateX", "ba79f1634760cbf979d5f7df856e3a516b7a2996471038d8216f69d953ab4395"},
      {"TranslateY", "924e581ab7a09b0d94ee5c25c4567c54d64b9d1db9dc18c7d605af173cf07279"},
      {"Rotate", "53ff7a2b7ec05bdcf9982b8a5aba3efad9619c7549b0a44b7c48c432731108cb"},
      {"Brightness", "69ab69ed74aacfd5015707ead252f814ef338a618561a0a3f5d5963a17955840"},
      {"Color", "7866b221277e552368de2e3408bcd17c16a8c7dc4bb14e74e85ce521e2925a3e"},
      {"Contrast", "048977cbaeee3e279b150df519a177de6400b3c3282a7ec488f2ff0da07da70a"},
      {"Sharpness", "3eb94891a9031afffc219d2897ff2996a7a3884f42765ebc8d55ce65bd9dd84b"},
      {"Posterize", "436a884952bc70979ea5370fb449c85e5140496134f5f5b186c8fcaebeaa00c2"},
      {"Solarize", "ac8a0acb5fd9efde246bc33a8311751ee2866acfc60ba5935eb21266529bdf9f"},
      {"AutoContrast", "0a5ec97f4001c835df405f4715d61d607961ed2cee902542d6175f6377030b7b"},
      {"Equalize", "27406f07e11658a6c1bdd0e614d22b016aa29d5e6935275c18b7666149c015e2"},
  };
  for (int op = 0; op < kTrivialOps; ++op) {
    const std::string& name = kNames[static_cast<size_t>(op)];
    CAPTURE(name);
    CHECK(digest_of(static_cast<TrivialOp>(op)) == kKnown.at(name));
  }
}

TEST_CASE("the torchvision that is installed gives the same pixels") {
  const std::map<std::string, std::string> theirs = digests_of_torchvision();
  if (theirs.empty()) return skip("no Python with torchvision and Pillow (DTRAIN_PYTHON)");
  REQUIRE(theirs.size() == static_cast<size_t>(kTrivialOps));
  for (int op = 0; op < kTrivialOps; ++op) {
    const std::string& name = kNames[static_cast<size_t>(op)];
    CAPTURE(name);
    CHECK(digest_of(static_cast<TrivialOp>(op)) == theirs.at(name));
  }
}

TEST_CASE("operations, strengths and signs are drawn equally often, for each sample and epoch") {
  AugmentOptions options;
  CHECK_FALSE(draw_augmentation(options, 1, 2, 3).trivial);
  options.trivial = true;
  std::map<TrivialOp, int> ops;
  std::map<int, int> bins;
  int negative = 0;
  constexpr int kDraws = 14 * 31 * 20;
  for (int i = 0; i < kDraws; ++i) {
    const AugmentDraw draw = draw_augmentation(options, 1, i % 7, static_cast<uint64_t>(i));
    REQUIRE(draw.trivial);
    CHECK_FALSE(draw.moves_alone());
    ++ops[draw.trivial->op];
    ++bins[draw.trivial->bin];
    negative += draw.trivial->negative ? 1 : 0;
  }
  REQUIRE(ops.size() == 14);
  REQUIRE(bins.size() == 31);
  for (const auto& [op, count] : ops) CHECK(std::abs(count - 620) < 5 * 24);
  for (const auto& [bin, count] : bins) CHECK(std::abs(count - 280) < 5 * 17);
  CHECK(std::abs(negative - kDraws / 2) < 5 * 47);
}

TEST_CASE("a picture of the network's size goes through the operation byte by byte, and a mask moves with it") {
  const Image image = made_up(40, 40, 3);
  ImageOptions size = plain(40, 40, 3);
  for (const TrivialDraw& trivial : {TrivialDraw{TrivialOp::rotate, 10, true},
                                     {TrivialOp::equalize, 0, false},
                                     {TrivialOp::shear_x, 22, false},
                                     {TrivialOp::sharpness, 30, false}}) {
    CAPTURE(static_cast<int>(trivial.op));
    AugmentDraw draw;
    draw.trivial = trivial;
    std::vector<float> out(40 * 40 * 3);
    transform_image(image, size, draw, out);
    std::vector<uint8_t> wanted = image.bytes;
    apply_trivial(trivial, {wanted, 40, 40, 3});
    bool same = true;
    for (size_t i = 0; i < wanted.size(); ++i)
      same = same && std::abs(out[i] * 255 - static_cast<float>(wanted[i])) < 1e-3F;
    CHECK(same);
    Image mask{40, 40, 1, 8, {}, {}};
    for (int i = 0; i < 1600; ++i) mask.bytes.push_back(i % 40 < 15 ? 1 : 0);
    std::vector<float> target(1600);
    transform_mask(mask, size, draw, 1, target);
    std::vector<uint8_t> moved = mask.bytes;
    if (moves_pixels(trivial.op)) apply_trivial(trivial, {moved, 40, 40, 1});
    CHECK(std::equal(target.begin(), target.end(), moved.begin(), [](float t, uint8_t m) { return t == m; }));
  }
}
