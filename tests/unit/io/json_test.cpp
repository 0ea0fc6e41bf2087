#include "dtrain/io/files/json.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/io/records/field_values.hpp"
#include "support/catch.hpp"
#include "unit/io/temp_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static std::string nested(int levels) {
  return std::string(static_cast<size_t>(levels), '[') + std::string(static_cast<size_t>(levels), ']');
}

static std::string json_refusal(const std::string& text) {
  return error_of<DataError>([&] { parse_json(text, "a.json"); });
}

TEST_CASE("JSON that nests deeper than 64 levels is refused, and brackets in texts are no levels") {
  CHECK(parse_json(nested(64), "a.json").is_array());
  for (const int levels : {65, 200'000})
    CHECK(json_refusal(nested(levels)) ==
          "a.json nests lists and objects deeper than 64 levels, the most that is read");
  CHECK(json_refusal(std::string(200'000, '[')).find("deeper") != std::string::npos);
  CHECK(try_parse_json(nested(65)).is_discarded());
  const std::string brackets(1000, '[');
  CHECK(parse_json("[\"\\\"" + brackets + "\", {\"" + brackets + "\": 1}]", "a.json").size() == 2);
  CHECK(parse_json("[[1], [2], [{}]]", "a.json").size() == 3);
}

TEST_CASE("what is no JSON is refused by the byte, and its text is not shown") {
  CHECK(json_refusal("{\"a\": secret}") == "a.json is not JSON (byte 7); correct it there, or use another copy");
  CHECK(json_refusal("") == "a.json is not JSON (byte 1); correct it there, or use another copy");
  CHECK(json_refusal("[1e999]") == "a.json holds a number that is too large");
  CHECK(json_refusal("[\"\xff\"]").find("not JSON") != std::string::npos);
  CHECK(try_parse_json("{\"a\": secret}").is_discarded());
}

TEST_CASE("a whole number out of JSON lies in its range, else the message tells its kind") {
  const auto json = parse_json(R"({"a": 7, "b": -1, "c": 1.5, "d": "7", "e": 18446744073709551615, "f": 1e300})", "x");
  CHECK(whole_number(json, "a", 0, 7, "x") == 7);
  CHECK(whole_number(json, "b", -1, 7, "x") == -1);
  for (const char* key : {"b", "c", "d", "e", "f", "g"})
    CHECK(!error_of<DataError>([&] { whole_number(json, key, 0, 1'000'000, "x"); }).empty());
  CHECK(error_of<DataError>([&] { whole_number(json, "d", 0, 9, "run.json"); }) ==
        "run.json: 'd' is a text, where a whole number from 0 to 9 is expected");
  CHECK(error_of<DataError>([&] { whole_number(json, "g", 0, 9, "run.json"); }) ==
        "run.json has no 'g', where a whole number from 0 to 9 is expected");
}

TEST_CASE("a JSON field of a record is refused by a short sentence, however long its keys are") {
  const std::string text = "{\"" + std::string(1'000'000, 'k') + "\": 1}";
  const std::string sentence = error_of<DataError>([&] { json_field(text, "label", "a.tar/1.json"); });
  CHECK(sentence.find("has no field 'label'") != std::string::npos);
  CHECK(sentence.size() < 300);
  const std::string deep =
      error_of<DataError>([&] { json_field("{\"label\": " + nested(200'000) + "}", "label", "x"); });
  CHECK(deep.find("deeper than 64 levels") != std::string::npos);
}
