#include "dtrain/base/printable.hpp"

#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("of a line that is a whole file the beginning and the end are shown") {
  const std::string line = "list.txt:1: '" + std::string(1'000'000, 'x') + "' is not there";
  const std::string said = shown(line);
  CHECK(said.size() < 10'000);
  CHECK_THAT(said,
             Catch::StartsWith("list.txt:1: 'xx") && Catch::Contains("bytes) …x") && Catch::EndsWith("' is not there"));
  CHECK(shown(said) == said);
  const std::string steering = shown(std::string(1'000'000, '\x1b'));
  CHECK(steering.size() < 10'000);
  CHECK(shown(steering) == steering);
}

using Lines = std::vector<std::string>;

TEST_CASE("what steers a terminal or turns the direction of writing is shown, not done") {
  CHECK(printable("a\x1B[2Jb") == "a\\u001b[2Jb");
  CHECK(printable("one\ntwo\rthree\tfour") == "one\\ntwo\\rthree\\tfour");
  CHECK(printable(std::string("\0\x07\x7F", 3)) == "\\u0000\\u0007\\u007f");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\u009b31m");  // CSI in one character
  CHECK(printable("gpj.\u202Eexe") == "gpj.\\u202eexe");
  CHECK(printable("\u2066\u2069\u200E\u200F\u061C\u2028\u2029") == "\\u2066\\u2069\\u200e\\u200f\\u061c\\u2028\\u2029");
  CHECK(printable("caf\xE9 \xF0\x9F") == "caf\\xE9 \\xF0\\x9F");
}

TEST_CASE("names in any script pass untouched") {
  for (const std::string name :
       {"é", "肺", "رئة", "ריאה", "🫁", "👩‍⚕️", "a b-c_d.png", "\\n", "…", "\u00A0", "x\u200Dy"}) {
    CAPTURE(name);
    CHECK(printable(name) == name);
    CHECK(is_printable(name));
  }
}

TEST_CASE("twice is the same as once, and JSON on one line stays the same JSON") {
  const std::string name = "\x1B\u009B\u202E\x7F\n é 肺 \"";
  CHECK(printable(printable(name)) == printable(name));
  const nlohmann::json json = {{"name", name}};
  CHECK_FALSE(is_printable(json.dump()));
  CHECK(nlohmann::json::parse(printable(json.dump())) == json);
}

TEST_CASE("a line break in a name makes no line of a message") {
  const std::string name = "x\ndtrain: error 0: all good";
  CHECK(shown("'" + name + "' is damaged") == "'x\\ndtrain: error 0: all good' is damaged");
  const std::string list = with_list("in " + name + ":", {name, "b\n  c"});
  CHECK(lines_of(list) == Lines{"in x\\ndtrain: error 0: all good:", "  x\\ndtrain: error 0: all good", "  b\\n  c"});
  const Error merged = merge_errors({DataError(name), DataError(list), DataError("last")});
  CHECK(lines_of(merged.what()).size() == 5);
  CHECK(lines_of(merged.what())[0] == "x\\ndtrain: error 0: all good");
}

TEST_CASE("nothing that stands within a message can claim lines for it") {
  const std::string mark = with_list("a:", {"b"}).substr(0, 1);
  CHECK(lines_of("'" + mark + "x\ny'").size() == 1);
  CHECK(lines_of(with_list("a:", {mark + "x\ny"})).size() == 2);
  CHECK(lines_of(one_below_another({"'" + mark + "x\ny'", "z"})).size() == 2);
}

TEST_CASE("a list has its cap, and a message alone stays as it is") {
  CHECK(shown(with_list("three:", {"a", "b", "c"}, 2)) == "three:\n  a\n  b\n  … and 1 more");
  CHECK(one_below_another({"only"}) == "only");
}
