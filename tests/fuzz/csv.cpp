#include "dtrain/io/files/csv.hpp"

#include "input.hpp"

using namespace dtrain;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::read_or_refuse([&] {
    const CsvTable table = CsvTable::parse(fuzz::text_of(data, size), "fuzz");
    size_t characters = 0;
    for (int64_t row = 0; row < table.rows(); ++row)
      for (size_t column = 0; column < table.columns().size(); ++column)
        characters += csv_field(table.at(row, static_cast<int64_t>(column))).size();
    check(table.rows() == 0 || table.line(0) > 1, "the header stands before the rows");
    check(characters < 8 * size + 64, "fields are no longer than their file");
  });
}
