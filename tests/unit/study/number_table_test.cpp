#include "dtrain/study/number_table.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("a table of numbers is read by columns, an empty field is no number") {
  NumberTable table;
  CHECK_FALSE(read_numbers("epoch,\"a,b\",c\n1,0.5,\n2,-1e-3,nan\r\n\n 3 ,\"4\",+5,\n", "t.csv", table));
  CHECK(table.columns == std::vector<std::string>{"epoch", "a,b", "c"});
  REQUIRE(table.rows() == 3);
  CHECK(table.at(0, "a,b") == 0.5);
  CHECK_FALSE(table.at(0, "c"));
  CHECK(table.at(1, "a,b") == -1e-3);
  CHECK_FALSE(table.at(1, "c"));
  CHECK(table.at(2, "a,b") == 4);
  CHECK(table.at(2, "c") == 5);
  CHECK_FALSE(table.at(0, "d"));
  CHECK(table.column("d") == nullptr);
  table.add_column("d")[1] = 7;
  CHECK(table.at(1, "d") == 7);
  CHECK_FALSE(table.at(0, "d"));
}

TEST_CASE("damage is named with its first place, and the rest is read") {
  NumberTable table;
  const auto fault = read_numbers("epoch,a\n1,2\n2\n3,4,5\n4,x\n5,6\n6,7", "t.csv", table);
  REQUIRE(fault);
  CHECK(fault->sentence == "t.csv, line 3: 1 field where the header has 2");
  CHECK(fault->more == 2);
  CHECK(fault->text() == "t.csv, line 3: 1 field where the header has 2 (and 2 more places)");
  CHECK(*table.column("epoch") == std::vector<double>{1, 4, 5});  // the last line has not ended
  CHECK_FALSE(table.at(1, "a"));
  CHECK(read_numbers("epoch,a\n1,2,3\n", "t.csv", table)->sentence == "t.csv, line 2: more fields than the header's 2");
  CHECK_FALSE(read_numbers("epoch,a\n", "t.csv", table));
  CHECK(table.rows() == 0);
  CHECK_FALSE(read_numbers("epo", "t.csv", table));
  CHECK(table.columns.empty());
  CHECK_THROWS_AS(read_numbers("a;b\n1;2\n", "t.csv", table), DataError);
}
