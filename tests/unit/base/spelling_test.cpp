#include "dtrain/base/spelling.hpp"

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("names that differ in case or spaces alone are told together, others are not") {
  CHECK(spelled_alike({"CAT", "dog", "cat", "Dog ", "bird"}) ==
        std::vector<std::string>{"'CAT', 'cat'", "'dog', 'Dog '"});
  CHECK(spelled_alike({"No Finding", "NoFinding",
                       "no\xC2\xA0"
                       "finding"}) == std::vector<std::string>{"'No Finding', 'NoFinding', 'no\xC2\xA0"
                                                               "finding'"});
  CHECK(spelled_alike({"cat", "cats", "cat_1", "cat-1", "1 2", "1_2"}).empty());
  CHECK(spelled_alike({"cat", "cat"}).empty());
  CHECK(spelled_alike({}).empty());
}

TEST_CASE("one character counts with the spaces that people write around it") {
  CHECK(lone_character("|") == '|');
  CHECK(lone_character(", ") == ',');
  CHECK(lone_character(" ; ") == ';');
  CHECK(lone_character(" ") == ' ');
  for (const char* text : {"", "  ", "||", "| |", "a b"}) CHECK_FALSE(lone_character(text).has_value());
}
