#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// A PNG with one more tEXt chunk (PNG specification, 11.3.4.3), right behind its header. `keyword`: 1 to 79 Latin-1
/// characters, as "Software"; `text`: Latin-1. `png` is whole and well-formed (InternalError else).
std::vector<std::byte> with_png_text(std::span<const std::byte> png, const std::string& keyword,
                                     const std::string& text);

}  // namespace dtrain
