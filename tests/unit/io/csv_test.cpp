#include "dtrain/io/files/csv.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;
using dtrain::test::TempFolder;

namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Header and rows, as they were read.
Rows rows_of(std::string_view text) {
  const CsvTable table = CsvTable::parse(text, "t.csv");
  Rows rows{table.columns()};
  for (int64_t row = 0; row < table.rows(); ++row) {
    rows.emplace_back();
    for (size_t c = 0; c < table.columns().size(); ++c) rows.back().push_back(table.at(row, static_cast<int64_t>(c)));
  }
  return rows;
}

std::string csv_refusal(std::string_view text) {
  return error_of<DataError>([&] { CsvTable::parse(text, "t.csv"); });
}

}  // namespace

TEST_CASE("every dialect that users' files have is understood") {
  struct Case {
    const char* what;
    std::string_view text;
    Rows rows;
  };
  const Rows plain = {{"a", "b"}, {"1", "2"}};
  const Case cases[] = {
      {"plain", "a,b\n1,2\n", plain},
      {"no line break at the end", "a,b\n1,2", plain},
      {"CRLF", "a,b\r\n1,2\r\n", plain},
      {"CR", "a,b\r1,2\r", plain},
      {"a byte-order mark",
       "\xEF\xBB\xBF"
       "a,b\n1,2\n",
       plain},
      {"a byte-order mark before a quote", "\xEF\xBB\xBF\"a\",b\n1,2\n", plain},
      {"blank lines", "\n\na,b\n\n  \n1,2\n\n", plain},
      {"quotes without need", "\"a\",\"b\"\n\"1\",\"2\"\n", plain},
      {"spaces around names", " a ,\tb\n1,2\n", plain},
      {"a trailing comma in the rows", "a,b\n1,2,\n", plain},
      {"trailing commas in the rows", "a,b\n1,2,,,\n", plain},
      {"a trailing comma in the header", "a,b,\n1,2\n", {{"a", "b", ""}, {"1", "2", ""}}},
      {"a trailing comma in both", "a,b,\n1,2,\n", {{"a", "b", ""}, {"1", "2", ""}}},
      {"an unnamed last column", "a,b,\n1,2,3\n", {{"a", "b", ""}, {"1", "2", "3"}}},
      {"an unnamed first column", ",b\n0,2\n", {{"", "b"}, {"0", "2"}}},
      {"a comma in quotes", "a,b\n\"1,5\",2\n", {{"a", "b"}, {"1,5", "2"}}},
      {"doubled quotes", "a,b\n\"say \"\"x\"\"\",\"\"\"\"\n", {{"a", "b"}, {"say \"x\"", "\""}}},
      {"line breaks in quotes", "a,b\n\"1\n2\r\n3\",4\n", {{"a", "b"}, {"1\n2\r\n3", "4"}}},
      {"a quote inside a plain field", "a,b\n5\" tall,2\n", {{"a", "b"}, {"5\" tall", "2"}}},
      {"empty fields", "a,b\n,\n\"\",\"\"\n", {{"a", "b"}, {"", ""}, {"", ""}}},
      {"an empty quoted field alone", "a\n\"\"\nx\n", {{"a"}, {""}, {"x"}}},
      {"semicolons in fields", "a,b;c\n1;2,\t3\n", {{"a", "b;c"}, {"1;2", "\t3"}}},
      {"one column", "a \n1;2\n", {{"a"}, {"1;2"}}},
      {"spaces in fields are kept", "a,b\n 1 ,2 \n", {{"a", "b"}, {" 1 ", "2 "}}},
      {"not ASCII", "größe,b\n\xC3\xA9,2\n", {{"größe", "b"}, {"é", "2"}}},
      {"the header alone", "a,b\n", {{"a", "b"}}},
      {"names twice", "a,x,x\n1,2,3\n", {{"a", "x", "x"}, {"1", "2", "3"}}},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    CHECK(rows_of(one.text) == one.rows);
  }
}

TEST_CASE("what is no table is refused with its line and a reason") {
  using namespace std::string_view_literals;
  struct Case {
    std::string_view text;
    const char* line;
    const char* reason;
  };
  const Case cases[] = {
      {"a,b,c\n1,2,3\n4,5\n", "line 3", "2 fields, but the header has 3"},
      {"a,b\n\n\n1\n", "line 4", "1 field, but the header has 2"},
      {"a,b\n\"x\ny\",2\n3\n", "line 4", "1 field, but"},
      {"a,b\r\n\"x\r\ny\",2\r\n3\r\n", "line 4", "1 field, but"},
      {"a,b\n1,2,3\n", "line 2", "3 fields, but the header has 2"},
      {"a,b\n1,,3\n", "line 2", "3 fields"},
      {"a,b\n1,\"2\n3,4\n", "line 2", "never closed"},
      {"a,b\n\"1\"x,2\n", "line 2", "after a closing quote"},
      {"a,b\n1,2\n3\0,4\n"sv, "line 3", "NUL"},
      {"a,b\n\"1\0\",2\n"sv, "line 2", "NUL"},
      {"a,b\n\"1\"\0,2\n"sv, "line 2", "NUL"},
      {"", "t.csv", "is empty"},
      {"\n \n", "t.csv", "is empty"},
      {",,\n1,2,3\n", "line 1", "no column has a name"},
      {"\xFF\xFE"
       "a\0"sv,
       "t.csv", "UTF-16"},
      {"\x1F\x8B\x08"sv, "t.csv", "gzip"},
      {"path;label\na.png;1\n", "t.csv", "semicolons between its columns"},
      {"\xEF\xBB\xBF\r\n\"path\";\"label\"\r\na.png;1,5\r\n", "t.csv", "save it as CSV with commas"},
      {"path\tlabel\na.png\tx, y\n", "t.csv", "tabs between its columns"},
  };
  for (const Case& one : cases) {
    const std::string sentence = csv_refusal(one.text);
    INFO(one.text << " → " << sentence);
    CHECK(sentence.find("t.csv") == 0);
    CHECK(sentence.find(one.line) != std::string::npos);
    CHECK(sentence.find(one.reason) != std::string::npos);
  }
}

TEST_CASE("a file cut before the last field of a row is noticed") {
  const std::string whole = "path,labels,patient\na.png,\"Mass|Edema\",17\nb.png,No Finding,18\n";
  const size_t second = whole.find("b.png");
  for (size_t length = second + 1; length < whole.find("18"); ++length) {
    INFO(length);
    CHECK_FALSE(csv_refusal(whole.substr(0, length)).empty());
  }
}

TEST_CASE("a million columns and endless rows are refused") {
  CHECK(csv_refusal("a\n" + std::string(1'000'000, ',') + "\n").find("10,000 fields") != std::string::npos);
  CHECK(csv_refusal(std::string(10'000, ',') + "\n").find("10,000 fields") != std::string::npos);
  const std::string wide = "a" + std::string(9'999, ',') + "z\n";
  CHECK(CsvTable::parse(wide, "t.csv").columns().size() == 10'000);
  const std::string endless(size_t{65} << 20, 'x');
  CHECK(csv_refusal("a\n" + endless + "\n").find("64 MiB") != std::string::npos);
  CHECK(csv_refusal("a\n\"" + endless + "\n").find("64 MiB") != std::string::npos);
}

TEST_CASE("messages never repeat what stands in a row") {
  CHECK(csv_refusal("name,age\nDoe,41,secret\n").find("Doe") == std::string::npos);
  CHECK(csv_refusal("name,age\n\"Doe\"x,41\n").find("Doe") == std::string::npos);
}

TEST_CASE("the header of the NIH label file is taken as it is") {
  const CsvTable table = CsvTable::parse(
      "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
      "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n"
      "00000001_000.png,Cardiomegaly|Emphysema,1,1,57,M,PA,2894,2729,0.143,0.143\n",
      "nih.csv");
  CHECK(table.columns().size() == 11);
  CHECK(table.at(0, table.column("Finding Labels")) == "Cardiomegaly|Emphysema");
  CHECK(table.at(0, table.column("Patient ID")) == "1");
  CHECK(table.line(0) == 2);
}

TEST_CASE("columns are found by name, and an absent one is answered with those there are") {
  const CsvTable table = CsvTable::parse("path,label,label\n", "t.csv");
  CHECK(table.column("label") == 1);
  CHECK(table.find_column("label") == 1);
  CHECK_FALSE(table.find_column("lable").has_value());
  const std::string sentence = error_of<DataError>([&] { (void)table.column("lable"); });
  CHECK(sentence == "t.csv has no column 'lable' (did you mean 'label'?); its columns are: path, label, label");
  const std::string of_key = error_of<DataError>([&] { (void)table.column("lable", "data.csv.label"); });
  CHECK(of_key.starts_with("t.csv has no column 'lable', which data.csv.label names (did you mean 'label'?); its "));
  CHECK_THROWS_AS(table.at(0, 0), InternalError);
}

TEST_CASE("what csv_field writes is read back") {
  const Rows rows = {{"plain", "with, comma"}, {"a \"quote\"", "two\nlines"}, {"", " space "}, {"a\r", "é"}};
  std::string text = "a,b\n";
  for (const auto& row : rows) text += csv_field(row[0]) + "," + csv_field(row[1]) + "\r\n";
  Rows expected = {{"a", "b"}};
  expected.insert(expected.end(), rows.begin(), rows.end());
  CHECK(rows_of(text) == expected);
  CHECK(csv_field("plain") == "plain");
}

TEST_CASE("no field begins a formula in a spreadsheet, numbers stay numbers, and the true text can be had back") {
  for (const std::string number : {"-0.5", "0.25", "-1e-05", "12", "-3"}) CHECK(csv_field(number) == number);
  for (const std::string text :
       {"=cmd|'/c calc'!A1", "+1-2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'quoted", "-x.png", "="}) {
    CAPTURE(text);
    const std::string read = rows_of("a\n" + csv_field(text) + "\n")[1][0];
    CHECK(read == "'" + text);
  }
  CHECK(csv_field("=a\"b") == "\"'=a\"\"b\"");
  CHECK(csv_field("x;=1") == "\"x;=1\"");
  for (const std::string plain : {"a/=b", "é=", "肺", "a-b", "x'y"}) CHECK(csv_field(plain) == plain);
}

TEST_CASE("a table is read from a file, an absent file is named") {
  const TempFolder folder;
  write_file_atomically(folder.file("t.csv"), "a\n1\n");
  CHECK(CsvTable::read(folder.file("t.csv")).rows() == 1);
  CHECK(CsvTable::read(folder.file("t.csv")).name() == folder.file("t.csv"));
  CHECK_THROWS_AS(CsvTable::read(folder.file("none.csv")), MissingError);
}
