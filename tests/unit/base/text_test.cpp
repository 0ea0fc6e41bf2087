#include "dtrain/base/text.hpp"

#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/time.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("a misspelt word finds the one that was meant, a strange word none") {
  const std::vector<std::string> keys = {"learning_rate", "momentum", "weight_decay"};
  CHECK(nearest_word("lerning_rate", keys) == "learning_rate");
  CHECK(nearest_word("momentmu", keys) == "momentum");
  CHECK(nearest_word("colour", keys).empty());
  CHECK(nearest_word("mom", keys) == "momentum");
  CHECK(nearest_word("valid.acc", {"valid.auroc", "valid.accuracy"}) == "valid.accuracy");
  CHECK(nearest_word("2", {"1", "3"}).empty());
}

TEST_CASE("numbers and lists read well") {
  CHECK(with_commas(1234567) == "1,234,567");
  CHECK(with_commas(-1234) == "-1,234");
  CHECK(with_commas(12) == "12");
  CHECK(count_of(1, "image") == "1 image");
  CHECK(count_of(2, "class", "classes") == "2 classes");
  CHECK(shortest(0.001) == "0.001");
  CHECK(shortest(100) == "100");
  CHECK(capped_list({"a", "b", "c"}, 2) == "  a\n  b\n  … and 1 more");
  CHECK(split_text("a|b||c", '|') == std::vector<std::string>{"a", "b", "", "c"});
}

TEST_CASE("natural order counts") {
  CHECK(natural_less("slice2", "slice10"));
  CHECK_FALSE(natural_less("slice10", "slice2"));
  CHECK(natural_less("a", "b"));
  CHECK_FALSE(natural_less("x7", "x7"));
  CHECK(natural_less("x07", "x7") != natural_less("x7", "x07"));
}

TEST_CASE("durations carry their unit") {
  CHECK(parse_duration("1 epoch") == Duration{1, Duration::Unit::epochs});
  CHECK(parse_duration("0.5 epochs") == Duration{0.5, Duration::Unit::epochs});
  CHECK(parse_duration("400 steps") == Duration{400, Duration::Unit::steps});
  CHECK(parse_duration("30 s") == Duration{30, Duration::Unit::seconds});
  CHECK(parse_duration("3h55m") == Duration{3 * 3600 + 55 * 60, Duration::Unit::seconds});
  CHECK(parse_duration("10 minutes") == Duration{600, Duration::Unit::seconds});
  for (const char* wrong : {"", "5", "epoch", "-1 epoch", "5 weeks", "1 epoch 3 s", "nan s"})
    CHECK_FALSE(parse_duration(wrong).has_value());
  CHECK(Duration{1, Duration::Unit::epochs}.text() == "1 epoch");
  CHECK(Duration{100000, Duration::Unit::steps}.text() == "100000 steps");
  CHECK(Duration{0.5, Duration::Unit::epochs}.text() == "0.5 epochs");
  CHECK(Duration{2, Duration::Unit::steps}.in_steps(100) == 2);
  CHECK(Duration{2, Duration::Unit::epochs}.in_steps(100) == 200);
  CHECK(clock_text(45600) == "12:40:00");
}

TEST_CASE("a character of UTF-8 is measured, and what is none is told") {
  for (const std::string good : {"a", "é", "€", "😀", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    CHECK(utf8_length(good + "x") == good.size());
  for (const std::string bad : {"\x80", "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x8F\x80\x80",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3"})
    CHECK(utf8_length(bad) == 0);
}

TEST_CASE("several errors become one, with the code that comes first in the contract") {
  const Error merged = merge_errors({DataError("b"), MissingError("a"), ConfigError("c")});
  CHECK(merged.code() == exit_code::kConfig);
  CHECK(lines_of(merged.what()) == std::vector<std::string>{"b", "a", "c"});
  CHECK(merge_errors({DataError("b"), MissingError("a")}).code() == exit_code::kMissingInput);
}

TEST_CASE("a figure for people has its digits after the point, and from a million on an exponent") {
  CHECK(short_number(0.69314, 4) == "0.6931");
  CHECK(short_number(999999.25, 2) == "999999.25");
  CHECK(short_number(1e6, 4) == "1.0e6");
  CHECK(short_number(1.94e33, 4) == "1.9e33");
  CHECK(short_number(-2.5e120, 4) == "-2.5e120");
  CHECK(short_number(std::numeric_limits<double>::quiet_NaN(), 4) == "nan");
  CHECK(short_number(std::numeric_limits<double>::infinity(), 4) == "inf");
}
