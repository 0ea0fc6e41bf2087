#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain {

/// What a module was built as, as a note in its file, so that load_module() can read it before any of its code runs:
///     [[gnu::section(".note.dtrain"), gnu::used]] alignas(4) constexpr auto kStamp =
///     module_stamp("0.1.0-0123456789ab");
template <size_t N>
struct ModuleStamp {
  uint32_t name_bytes;
  uint32_t text_bytes;
  uint32_t type;
  std::array<char, 8> name;                ///< padded to 4 bytes, as the text is
  std::array<char, (N + 3) / 4 * 4> text;  ///< ends with a zero
};

template <size_t N>
constexpr ModuleStamp<N> module_stamp(const char (&stamp)[N]) {
  static_assert(N <= 256, "a stamp is a short text");
  ModuleStamp<N> note{7, N, 1, {'d', 't', 'r', 'a', 'i', 'n'}, {}};
  for (size_t i = 0; i < N; ++i) note.text[i] = stamp[i];
  return note;
}

}  // namespace dtrain
