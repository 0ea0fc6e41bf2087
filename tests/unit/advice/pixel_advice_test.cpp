#include "dtrain/advice/pixel_advice.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/text.hpp"
#include "unit/advice/sentence_of.hpp"

using namespace dtrain;
using test::holds;
using test::sentence_of;

TEST_CASE("pictures that use their depth are no finding") {
  PixelFacts facts;
  facts.add("a", 8, 0, 255);
  facts.add("b", 8, 3, 120);
  facts.add("c", 16, 100, 60'000);
  CHECK(pixel_advice(facts).empty());
}

TEST_CASE("12 bits in 16 are told with the range that shows them") {
  PixelFacts facts;
  facts.add("a", 16, 0, 3071);
  facts.add("b", 16, 12, 2900);
  const auto found = pixel_advice(facts);
  REQUIRE(found.size() == 1);
  CHECK(found[0].weight >= weight::kWrong);
  CHECK(holds(found[0].sentence, "all 2 pictures of 16 bits lie between 0 and 3,071 of 65,535"));
  CHECK(holds(found[0].sentence, "would see 4.7 %"));
  CHECK(holds(found[0].sentence, "'data.image.range=[0, 4095]' shows them"));
  facts.range_high = 4095;
  CHECK(pixel_advice(facts).empty());
}

TEST_CASE("a range of [0, 1] on pixels of 0 to 255 is told, and not on pictures of 0 and 1") {
  PixelFacts facts;
  facts.range_high = 1;
  facts.add("a", 8, 0, 255);
  const std::string sentence = sentence_of(pixel_advice(facts), "range_of_units");
  CHECK(
      holds(sentence, "data.image.range [0, 1] is in the pixel values of the files, and those of 8 bits go up to 255"));
  CHECK(holds(sentence, "leave it out for [0, 255]"));
  PixelFacts binary;
  binary.range_high = 1;
  binary.add("a", 8, 0, 1);
  CHECK(pixel_advice(binary).empty());
}

TEST_CASE("values far from black keep their own bounds, and small ones of 8 bits theirs") {
  PixelFacts shifted;
  shifted.add("a", 16, 31'768, 34'000);
  CHECK(holds(pixel_advice(shifted).at(0).sentence, "data.image.range=[31768, 34000]"));
  PixelFacts dark;
  dark.add("a", 8, 0, 5);
  CHECK(holds(pixel_advice(dark).at(0).sentence, "data.image.range=[0, 7]"));
}

TEST_CASE("pictures of one value are told by kind, the first by name") {
  PixelFacts facts;
  for (int i = 0; i < 40; ++i) facts.add("good", 8, 0, 250);
  facts.add("z", 8, 0, 0);
  facts.add("y", 8, 0, 0);
  facts.add("w", 8, 255, 255);
  facts.add("g", 8, 7, 7);
  const auto found = pixel_advice(facts);
  REQUIRE(found.size() == 3);
  CHECK(holds(found[0].sentence, "2 pictures are black throughout, such as y"));
  CHECK(holds(found[1].sentence, "1 picture is white throughout, such as w"));
  CHECK(holds(found[2].sentence, "1 picture is of a single value, such as g"));
  for (const Finding& finding : found) CHECK(finding.weight == weight::kSmall);
}

TEST_CASE("a range that leaves nothing, and one over two depths") {
  PixelFacts facts;
  facts.range_high = 100;
  facts.add("a", 16, 100, 4000);
  facts.add("b", 8, 20, 90);
  const auto found = pixel_advice(facts);
  CHECK(holds(sentence_of(found, "beyond_range"), "data.image.range [0, 100] leaves nothing of 1 picture, such as a"));
  CHECK(holds(sentence_of(found, "range_over_depths"), "1 picture of 8 bits and for the 1 picture of 16 bits"));
}
