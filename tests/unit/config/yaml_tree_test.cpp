#include "dtrain/config/yaml_tree.hpp"

#include <random>

#include "scratch_config.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

static const YamlSource kSource{"t", "t", "/", 0, true};

// All errors in `text`, one line each.
static std::string wrong_with(const std::string& text) {
  std::vector<Problem> problems;
  const auto tree = parse_yaml(text, kSource, problems);
  std::string out;
  for (const Problem& problem : problems) out += problem.place.text() + ": " + problem.sentence + "\n";
  if (!tree && problems.empty()) return "nothing came back and nothing was said";
  return out;
}

TEST_CASE("lines and columns count from 1, in characters") {
  std::vector<Problem> problems;
  const auto tree = parse_yaml("# é\nä: {b: [1, é, x]}\r\nc: \"d\"\n", kSource, problems);
  REQUIRE(problems.empty());
  REQUIRE(tree->entries.size() == 2);
  CHECK(tree->entries[0].place.text() == "t:2:1");
  const YamlNode& list = tree->entries[0].value.entries[0].value;
  CHECK(list.place.text() == "t:2:8");
  CHECK(list.items[2].place.text() == "t:2:15");
  CHECK(tree->entries[1].value.place.text() == "t:3:4");
  CHECK(tree->entries[1].value.place.origin() == "t:3");
}

TEST_CASE("aliases stand for what they name, and not for themselves") {
  std::vector<Problem> problems;
  const auto tree = parse_yaml("a: &x [1, 2]\nb: *x\n", kSource, problems);
  REQUIRE(problems.empty());
  CHECK(tree->entries[1].value.items.size() == 2);
  CHECK(holds(wrong_with("a: &x [*x]"), "t:1:8: this alias is inside the value that it refers to"));
  CHECK(holds(wrong_with("a: &x {b: *x}"), "cycle"));
  CHECK(holds(wrong_with("a: *x"), "anchor is not defined"));
}

TEST_CASE("aliases that explode are stopped by the count of values") {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 1; j < 10; ++j) text += "," + before;
    text += "]\n";
  }
  CHECK(holds(wrong_with(text), "more than 100,000 values"));
}

TEST_CASE("duplicate keys are told with both places") {
  CHECK(wrong_with("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n") ==
        "t:4:3: duplicate key 'c', set at t:3:3 already; keep one\nt:5:1: duplicate key 'a', set at "
        "t:1:1 already; keep one\n");
}

TEST_CASE("merges, tags and leading zeros are refused, and several are told at once") {
  const std::string wrong = wrong_with("a: &x {b: 1}\nc:\n  <<: *x\nd: !!str 5\ne: 010\nf: '010'\ng: ! 3\nh: 0.5\n");
  CHECK(holds(wrong, "t:3:3: '<<' merges are refused"));
  CHECK(holds(wrong, "t:4:4: tags"));
  CHECK(holds(wrong, "t:5:4: '010' has a leading zero"));
  CHECK(holds(wrong, "t:7:4: tags"));
  CHECK_FALSE(holds(wrong, "t:6"));
  CHECK_FALSE(holds(wrong, "t:8"));
}

TEST_CASE("malformed YAML gives one sentence with its place") {
  CHECK(holds(wrong_with("a: [1"), "t:1:4: not valid YAML: this '[' is not closed by ']'"));
  CHECK(holds(wrong_with("a: '[' # {\nb: {c: [1, 2], // d\n"), "t:2:4: not valid YAML: this '{' is not closed"));
  CHECK(holds(wrong_with("{foo:"), "not valid YAML"));
  CHECK(holds(wrong_with("a: {b: [1, 2}\n"), "t:1:13: not valid YAML: nothing open ends here"));
  CHECK(holds(wrong_with("a: 1\nb: \"x\n"), "t:2:4: this quote is not closed"));
  CHECK(holds(wrong_with("a: &x 'it''s\n"), "t:1:7: this quote is not closed"));
  CHECK(wrong_with("a: &x 'it''s'\nb: \"\\\"\"\n").empty());
  CHECK(holds(wrong_with("a:\n\tb: 1\n"), "a tab in the indentation"));
  CHECK(holds(wrong_with("a: b: c\n"), "t:1:5: not valid YAML: a ':'"));
  CHECK(holds(wrong_with("a: 1\n---\nb: 2\n"), "t:2:1: a second document"));
  CHECK(holds(wrong_with("? [a]\n: b\n"), "a key must be a word"));
  CHECK(holds(wrong_with(": b\n"), "a key must be a word"));
  CHECK(holds(wrong_with("%YAML 3.0\n---\na: 1\n"), "not valid YAML"));
}

TEST_CASE("only UTF-8 text is read") {
  CHECK(holds(wrong_with("a: \xff\n"), "t:1:4: is not UTF-8 text"));
  CHECK(holds(wrong_with("a: \xc0\xaf\n"), "is not UTF-8 text"));
  CHECK(holds(wrong_with(std::string("\x89PNG\0\0", 6)), "is not text; name a YAML file"));
  CHECK(holds(wrong_with(std::string("\xff\xfe") + std::string("a\0:\0", 4)), "is not UTF-8 text"));
  CHECK(holds(wrong_with(std::string("a: 1\nb\0", 7)), "t:2:2: holds a control character"));
  CHECK(wrong_with("\xEF\xBB\xBF"
                   "a: é\r\n")
            .empty());
}

TEST_CASE("size and depth are limited") {
  CHECK(holds(wrong_with(std::string(2000000, '[')), "larger than 1 MiB"));
  CHECK(holds(wrong_with(std::string(200000, '[')), "nested deeper than 32 levels"));
  CHECK(holds(wrong_with(std::string(200000, '{')), "t:1:"));
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  CHECK(holds(wrong_with(deep), "t:33:33: nested deeper than 32 levels"));
}

TEST_CASE("no damaged configuration does worse than a sentence") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string good =
      "name: a\ndata: &d {format: csv, list: [1, 'x', \"y\"]}\nother:\n  - &b b\n  - *b\n  - |\n    text\n# end\n";
  const std::string bytes = "[]{}:,-&*!|>'\"%@`#\t\n ?~\\a1\xc3\xa9\x00";
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (unsigned change = random() % 6; change-- > 0;) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          text.insert(at, 1, bytes[random() % bytes.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 8);
      }
      if (text.empty()) text = " ";
    }
    INFO(text);
    CHECK(wrong_with(text) != "nothing came back and nothing was said");
  }
}
