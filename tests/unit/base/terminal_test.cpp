#include "dtrain/base/terminal.hpp"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("characters take the columns that terminals give them") {
  CHECK(shown_columns("") == 0);
  CHECK(shown_columns("epoch 3/10") == 10);
  CHECK(shown_columns("é") == 1);
  CHECK(shown_columns("e\u0301") == 1);  // a letter and its combining accent
  CHECK(shown_columns("肺炎") == 4);
  CHECK(shown_columns("ﾊｲ") == 2);  // halfwidth
  CHECK(shown_columns("🫁") == 2);
  CHECK(shown_columns("█░…–") == 4);
  CHECK(shown_columns("a\u200Bb") == 2);  // of no width
  CHECK(shown_columns("\xFF\xC3") == 2);  // not UTF-8
}

TEST_CASE("a text is cut to its columns, never within a character") {
  CHECK(cut_to("Pneumonia", 9) == "Pneumonia");
  CHECK(cut_to("Pneumonia", 8) == "Pneumon…");
  CHECK(cut_to("肺炎かも", 8) == "肺炎かも");
  CHECK(cut_to("肺炎かも", 6) == "肺炎…");
  CHECK(cut_to("ae\u0301io", 3) == "ae\u0301…");
  CHECK(cut_to("Pneumonia", 1) == "…");
  CHECK(cut_to("Pneumonia", 0).empty());
  for (int columns = 1; columns < 12; ++columns) CHECK(shown_columns(cut_to("肺e\u0301ab炎ﾊc█", columns)) <= columns);
}

TEST_CASE("a name that is cut in the middle keeps its end") {
  CHECK(cut_middle("Pneumonia", 9) == "Pneumonia");
  CHECK(cut_middle("a_class_with_a_long_name_1", 11) == "a_cla…ame_1");
  CHECK(cut_middle("a_class_with_a_long_name_2", 10) == "a_cla…me_2");
  CHECK(cut_middle("肺炎かも知れない", 9) == "肺炎…ない");
  CHECK(cut_middle("abcdefgae\u0301", 5) == "ab…ae\u0301");
  CHECK(cut_middle("Pneumonia", 1) == "…");
  CHECK(cut_middle("Pneumonia", 0).empty());
  for (int columns = 1; columns < 12; ++columns)
    CHECK(shown_columns(cut_middle("肺e\u0301ab炎ﾊc█", columns)) <= columns);
}

TEST_CASE("the cells of a table's column are equally wide, whatever their names hold") {
  const std::vector<std::string> names = {"Hernia", "肺炎", "Pleural_Thickening_with_Effusion", "e\u0301",
                                          std::string(200, 'x')};
  CHECK(cell_columns({"Hernia"}, 24) == 24);
  CHECK(cell_columns({names[0], names[2]}, 24) == 32);
  CHECK(cell_columns(names, 24) == 48);
  for (const std::string& name : names) CHECK(shown_columns(cell(name, 48)) == 48);
  CHECK(cell("肺炎", 6) == "肺炎  ");
}

TEST_CASE("different names stay different in the cells of a column, wherever they differ") {
  const auto apart = [](const std::vector<std::string>& names, int columns) {
    const std::vector<std::string> shown = cells(names, columns);
    REQUIRE(shown.size() == names.size());
    for (const std::string& one : shown) CHECK(shown_columns(one) == columns);
    return std::set<std::string>(shown.begin(), shown.end()).size() ==
           std::set<std::string>(names.begin(), names.end()).size();
  };
  const std::string x(40, 'x');
  CHECK(cells({"Hernia", "Mass"}, 8) == std::vector<std::string>{"Hernia  ", "Mass    "});
  CHECK(cells({x + "left", x + "right", "Mass"}, 12) ==
        std::vector<std::string>{"xxxxxx…xleft", "xxxxxx…right", "Mass        "});
  CHECK(apart({x + "left" + x, x + "right" + x, x + "right" + x}, 48));
  CHECK(cells({x + "left" + x, x + "right" + x}, 16) ==
        std::vector<std::string>{"xxxx…leftxxxx…xx", "xxxx…rightxxx…xx"});
  CHECK(apart({x + "1" + x + "1" + x, x + "1" + x + "2" + x, x + "2" + x + "1" + x}, 20));
  CHECK(apart({"肺" + x + "1" + x, "肺" + x + "2" + x, "肝" + x + "1" + x}, 9));
  CHECK(apart({x + "\xFF" + x, x + "\xFE" + x}, 24));
  CHECK(apart({"abcdefgh" + x + "z", "abcdefgi" + x + "z"}, 10));  // where the head is cut
  CHECK(apart(
      {"area_a" + x + "left" + x, "area_a" + x + "right" + x, "mean_a" + x + "left" + x, "mean_a" + x + "right" + x},
      48));
  CHECK(apart({"a1" + x + "1" + x + "1" + x, "a1" + x + "1" + x + "2" + x, "a1" + x + "2" + x + "1" + x,
               "a2" + x + "1" + x + "1" + x, "a2" + x + "1" + x + "2" + x, "a2" + x + "2" + x + "1" + x},
              12));
  std::vector<std::string> many;
  for (int i = 0; i < 200; ++i) many.push_back(x + std::to_string(i) + x);
  for (const int columns : {12, 24, 48}) CHECK(apart(many, columns));
}

TEST_CASE("the width is that of the window at this moment, and none where there is no terminal") {
  int master = -1;
  int terminal = -1;
  winsize size{24, 61, 0, 0};
  REQUIRE(openpty(&master, &terminal, nullptr, nullptr, &size) == 0);
  CHECK(terminal_columns(terminal) == 61);
  size.ws_col = 132;
  REQUIRE(ioctl(master, TIOCSWINSZ, &size) == 0);
  CHECK(terminal_columns(terminal) == 132);
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  CHECK(shows_colour(terminal));
  CHECK(coloured("x", kErrorColour, terminal) == "\033[31m\033[1mx\033[m");
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(shows_colour(terminal));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  CHECK_FALSE(shows_colour(terminal));
  setenv("TERM", "xterm", 1);
  close(terminal);
  close(master);
  const int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  CHECK(terminal_columns(file) == 0);
  CHECK_FALSE(shows_colour(file));
  CHECK(coloured("x", kErrorColour, file) == "x");
  close(file);
}
