#include "dtrain/advice/mask_advice.hpp"

#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

static MaskFacts facts_with(const std::map<int64_t, int64_t>& listed) {
  MaskFacts facts;
  facts.listed = listed;
  return facts;
}

TEST_CASE("masks whose values are all listed are no finding") {
  MaskFacts facts = facts_with({{255, 1}});
  facts.add(100, {}, "");
  CHECK(mask_advice(facts).empty());
}

TEST_CASE("a value that falls away is told with its share and both readings") {
  MaskFacts facts = facts_with({{255, 1}});
  facts.add(100, {{128, 10}}, "masks/c.png");
  facts.add(100, {{128, 20}}, "masks/b.png");
  facts.add(100, {}, "");
  facts.add(100, {}, "");
  const auto found = mask_advice(facts);
  REQUIRE(found.size() == 1);
  const std::string& text = found[0].sentence;
  CHECK(holds(text, "the pixel value 128 (7.5 % of the masks' pixels, in 2 masks of 4) counts as background"));
  CHECK(holds(text, "lists 255 only; masks/b.png has some: "));
  CHECK(holds(text, "'data.image_mask.mask_values={128: 2, 255: 1}' makes it a class of its own"));
  CHECK(holds(text, "'data.image_mask.mask_values={128: 1, 255: 1}' counts it to class 1"));
}

TEST_CASE("255 beside classes that are numbered may mark what is not to be judged") {
  const auto found = mask_advice(facts_with({{1, 1}, {2, 2}, {255, 3}}));
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0].sentence, "255 of masks is a class beside those of 1 to 2"));
  CHECK(holds(found[0].sentence, "'data.image_mask.mask_values={1: 1, 2: 2}'"));
  CHECK(has_ignored_value({{1, 1}, {255, 2}}));
  for (const auto& listed : std::vector<std::map<int64_t, int64_t>>{
           {{255, 1}}, {{128, 1}, {255, 2}}, {{1, 1}, {3, 2}, {255, 3}}, {{0, 1}, {255, 2}}, {{1, 1}, {2, 2}}, {}})
    CHECK_FALSE(has_ignored_value(listed));
}

TEST_CASE("masks of so many values are no classes") {
  MaskFacts facts = facts_with({{255, 1}});
  std::map<int64_t, int64_t> values;
  for (int64_t value = 1; value < 255; ++value) values[value] = 1;
  facts.add(100'000, values, "masks/a.png");
  const std::string text = mask_advice(facts).at(0).sentence;
  CHECK(holds(text, "254 pixel values between 1 and 254"));
  CHECK(holds(text, "exchange the folders of images and masks"));
  CHECK_FALSE(holds(text, "mask_values={"));
}

TEST_CASE("the mask_values that pixel values ask for") {
  CHECK(mask_values_text({0, 1}) == "'data.image_mask.mask_values={1: 1}'");
  CHECK(mask_values_text({0, 128, 255}) == "'data.image_mask.mask_values={128: 1, 255: 2}'");
  CHECK(mask_values_text({0}).empty());
  CHECK(mask_values_text({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}).empty());
}
