#pragma once
#include <cstdint>

namespace dtrain {

/// Undoes PNG's filters in place: `data` holds `rows` rows, each of a filter byte and `row_bytes` bytes. `pixel_bytes`
/// is how far back a filter looks: the bytes of a pixel, 1…8, 1 where a byte holds several. False if a
/// filter byte is none of the five: `data` is then of no use.
bool undo_png_filters(uint8_t* data, int64_t rows, int64_t row_bytes, int pixel_bytes);

}  // namespace dtrain
