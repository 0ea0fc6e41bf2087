#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/packed/packed_shard.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// Pictures as a shard stores them; packed_shard.cpp and packed_writer.cpp alone include this.

/// The stored bytes of a picture. `quality`: of JPEG, 1 … 100. Throws InternalError for JPEG of 16 bits.
std::vector<std::byte> encode_packed(const Image& picture, PackedCodec codec, int quality);

/// The picture that `header` promises, whose samples the `stored` bytes of a raw shard are, still without them. Throws
/// DataError for another number of bytes; `name` begins messages.
Image raw_packed(size_t stored, const ImageHeader& header, const std::string& name);

/// Back to the picture that `header` promises, of a codec that is not raw. Throws DataError for bytes that are
/// something else; no memory is taken for a picture that they cannot hold.
Image decode_packed(std::span<const std::byte> stored, const ImageHeader& header, PackedCodec codec,
                    const std::string& name);

/// The codec of the masks in a shard of `pictures`.
PackedCodec mask_codec(PackedCodec pictures);

}  // namespace dtrain
