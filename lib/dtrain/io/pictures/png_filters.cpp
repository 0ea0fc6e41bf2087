#include "dtrain/io/pictures/png_filters.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace dtrain {

namespace {

// A filtered byte depends on its left neighbour, so a single row can only be undone byte after byte. But the row below
// may follow one byte behind: 16 rows are undone side by side, one in each lane of a vector, lane i at column t − i in
// step t. Then `left` is the previous result of the same lane, and `above` the result of the lane before it one step
// ago. The first lane only supplies the row above the band, which is finished already, so a band finishes 15 rows.
using Lanes = uint8_t __attribute__((vector_size(16)));
constexpr int64_t kLanes = 16;
constexpr int64_t kBandRows = kLanes - 1;

enum Filter : uint8_t { kNone, kSub, kUp, kAverage, kPaeth, kFilters };

/// Rows that are undone together, and for each filter the lanes that use it (all bits set).
struct Band {
  std::array<uint8_t*, kLanes> rows{};  // by lane; null: none
  int64_t row_bytes = 0;
  std::array<Lanes, kFilters> uses{};
};

// All functions below are inlined into undo(), which is compiled for each vector width.
template <size_t... kPlace>
[[gnu::always_inline]] inline Lanes low_halves(Lanes a, Lanes b, std::index_sequence<kPlace...>) {
  return __builtin_shufflevector(a, b, (kPlace / 2 + kPlace % 2 * 16)...);
}

template <size_t... kPlace>
[[gnu::always_inline]] inline Lanes high_halves(Lanes a, Lanes b, std::index_sequence<kPlace...>) {
  return __builtin_shufflevector(a, b, (8 + kPlace / 2 + kPlace % 2 * 16)...);
}

/// Lane i gets lane i − 1, the first one 0.
template <size_t... kPlace>
[[gnu::always_inline]] inline Lanes next_lane(Lanes lanes, std::index_sequence<kPlace...>) {
  return __builtin_shufflevector(Lanes{}, lanes, (kPlace == 0 ? 0 : 15 + kPlace)...);
}

constexpr auto kPlaces = std::make_index_sequence<kLanes>();

/// Turns rows into columns, or back, by four perfect shuffles of the 256 bytes.
[[gnu::always_inline]] inline void transpose(Lanes* block) {
  for (int round = 0; round < 4; ++round) {
    std::array<Lanes, kLanes> next;
    for (size_t i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = low_halves(block[i], block[i + 8], kPlaces);
      next[2 * i + 1] = high_halves(block[i], block[i + 8], kPlaces);
    }
    std::copy(next.begin(), next.end(), block);
  }
}

/// The part of columns [first, first + 16) that a row has.
struct Part {
  int64_t begin;
  int64_t count;
  Part(int64_t first, int64_t row_bytes) : begin(std::max<int64_t>(first, 0)) {
    count = std::max<int64_t>(0, std::min(first + kLanes, row_bytes) - begin);
  }
};

/// Lane i gets its columns t − i … t − i + 15, with zeros outside the row.
[[gnu::always_inline]] inline void load_lanes(const Band& band, int64_t t, Lanes* block) {
  const bool inside = t >= kLanes - 1 && t + kLanes <= band.row_bytes;
  for (int64_t i = 0; i < kLanes; ++i) {
    const auto lane = static_cast<size_t>(i);
    block[lane] = Lanes{};
    if (band.rows[lane] == nullptr) continue;
    if (inside) {
      std::memcpy(&block[lane], band.rows[lane] + t - i, kLanes);
    } else {
      const Part part(t - i, band.row_bytes);
      std::memcpy(reinterpret_cast<uint8_t*>(&block[lane]) + part.begin - (t - i), band.rows[lane] + part.begin,
                  static_cast<size_t>(part.count));
    }
  }
}

/// Stores all lanes but the first, which load_lanes() has loaded.
[[gnu::always_inline]] inline void store_lanes(const Band& band, int64_t t, const Lanes* block) {
  const bool inside = t >= kLanes - 1 && t + kLanes <= band.row_bytes;
  for (int64_t i = 1; i < kLanes; ++i) {
    const auto lane = static_cast<size_t>(i);
    if (band.rows[lane] == nullptr) continue;
    if (inside) {
      std::memcpy(band.rows[lane] + t - i, &block[lane], kLanes);
    } else {
      const Part part(t - i, band.row_bytes);
      std::memcpy(band.rows[lane] + part.begin, reinterpret_cast<const uint8_t*>(&block[lane]) + part.begin - (t - i),
                  static_cast<size_t>(part.count));
    }
  }
}

[[gnu::always_inline]] inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
[[gnu::always_inline]] inline Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
/// a − b, or 0 where that is negative.
[[gnu::always_inline]] inline Lanes excess(Lanes a, Lanes b) { return larger(a, b) - b; }
[[gnu::always_inline]] inline Lanes half_sum(Lanes a, Lanes b) { return (a & b) + ((a ^ b) >> 1); }

/// Which of left, above and corner is nearest to left + above − corner. If low and high are the smaller and the larger
/// of left and above, that sum is (corner − low) from high, (high − corner) from low, and the difference of those two
/// from corner. If corner is not between them, excess() makes the smaller distance 0, so the choice is still right.
[[gnu::always_inline]] inline Lanes paeth(Lanes left, Lanes above, Lanes corner) {
  const Lanes low = smaller(left, above);
  const Lanes high = larger(left, above);
  const Lanes to_high = excess(corner, low);
  const Lanes to_low = excess(high, corner);
  const Lanes nearer = smaller(to_high, to_low);
  const Lanes to_corner = larger(to_high, to_low) - nearer;
  return to_corner < nearer ? corner : (to_low < to_high ? low : high);
}

/// `PixelBytes` is an int, or the constant 1: then each step needs the result of the one before it, which stays in a
/// register if the compiler knows the distance.
template <typename PixelBytes>
[[gnu::always_inline]] inline void undo_band(const Band& band, PixelBytes pixel_bytes) {
  constexpr size_t kBack = 8;  // a filter reads at most this many bytes back
  std::array<Lanes, kBack + kLanes> made{}, aboves{};
  Lanes* const block = made.data() + kBack;
  for (int64_t t = 0; t < band.row_bytes + kLanes - 1; t += kLanes) {
    load_lanes(band, t, block);
    transpose(block);
#pragma GCC unroll 16
    for (size_t k = kBack; k < kBack + kLanes; ++k) {
      const Lanes left = made[k - static_cast<size_t>(pixel_bytes)];
      const Lanes corner = aboves[k - static_cast<size_t>(pixel_bytes)];
      const Lanes above = next_lane(made[k - 1], kPlaces);
      aboves[k] = above;
      made[k] += (band.uses[kSub] & left) | (band.uses[kUp] & above) | (band.uses[kAverage] & half_sum(left, above)) |
                 (band.uses[kPaeth] & paeth(left, above, corner));
    }
    std::copy_n(made.end() - kBack, kBack, made.begin());
    std::copy_n(aboves.end() - kBack, kBack, aboves.begin());
    transpose(block);
    store_lanes(band, t, block);
  }
}

/// Rows whose filters do not read the left neighbour need no lanes.
[[gnu::always_inline]] inline void undo_plain(const Band& band) {
  for (size_t lane = 1; lane < kLanes && band.rows[lane] != nullptr; ++lane) {
    if (band.uses[kUp][lane] == 0 || band.rows[lane - 1] == nullptr) continue;
    const uint8_t* __restrict above = band.rows[lane - 1];
    uint8_t* __restrict row = band.rows[lane];
    for (int64_t x = 0; x < band.row_bytes; ++x) row[x] = static_cast<uint8_t>(row[x] + above[x]);
  }
}

// DTRAIN_VECTOR_CLONES comes from CMake's dtrain_vector_code(). It is here not for wider vectors but for AVX's encoding
// of instructions: after ISA-L's AVX code, instructions in the older encoding wait for the upper halves of registers.
DTRAIN_VECTOR_CLONES void undo(const Band& band, int pixel_bytes, bool plain) {
  if (plain) {
    undo_plain(band);
  } else if (pixel_bytes == 1) {
    undo_band(band, std::integral_constant<int, 1>());
  } else {
    undo_band(band, pixel_bytes);
  }
}

}  // namespace

bool undo_png_filters(uint8_t* data, int64_t rows, int64_t row_bytes, int pixel_bytes) {
  const auto row = [&](int64_t y) { return data + y * (row_bytes + 1); };
  for (int64_t first = 0; first < rows; first += kBandRows) {
    Band band;
    band.row_bytes = row_bytes;
    if (first > 0) band.rows[0] = row(first - 1) + 1;
    bool plain = true;
    for (int64_t y = first; y < std::min(rows, first + kBandRows); ++y) {
      const uint8_t filter = *row(y);
      if (filter >= kFilters) return false;
      plain = plain && (filter == kNone || filter == kUp);
      const auto lane = static_cast<size_t>(y - first + 1);
      band.uses[filter][lane] = 0xFF;
      band.rows[lane] = row(y) + 1;
    }
    undo(band, pixel_bytes, plain);
  }
  return true;
}

}  // namespace dtrain
