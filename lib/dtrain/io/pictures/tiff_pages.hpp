#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/pictures/byte_source.hpp"

namespace dtrain {

// The pages of a TIFF file, from its directories. Previews and transparency masks, which a TIFF marks as such, are no
// pages.

/// Whether a file begins as classic or BigTIFF does, in either byte order.
bool begins_as_tiff(const ByteSource& source);

/// A few small reads a page. 1 where the directories are damaged: decoding the file reports that. `name` is for
/// messages.
int64_t count_tiff_pages(const ByteSource& source, const std::string& name);

/// A TIFF file of page `page` (from 1) alone; what its pixels do not need is left out. Throws DataError, naming the
/// picture, if there is no such page or the directories are damaged.
std::vector<std::byte> tiff_page_alone(const DiskSource& source, int64_t page, const std::string& name);

/// Where the directories of the pages of a TIFF file in memory are. Throws DataError naming `name` if their chain is
/// damaged: it leads out of the file, back to itself, or over more than 65,535.
std::vector<uint64_t> tiff_pages(std::span<const std::byte> file, const std::string& name);

}  // namespace dtrain
