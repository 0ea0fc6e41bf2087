#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

/// CRC32C (Castagnoli) of `bytes`, continuing from `crc` (0 to begin). ISA-L, about 8 GB/s on one core.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

/// `value` as 8 lowercase hex digits.
std::string hex8(uint32_t value);

/// SHA-256 (OpenSSL's libcrypto), fed in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  /// The 32 bytes; the object is then spent.
  std::array<uint8_t, 32> digest();
  /// The same as 64 lowercase hex digits.
  std::string hex_digest();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// First 8 bytes of SHA-256 of `text`, little-endian: a number for `text` that is the same on every machine.
uint64_t hash64(std::string_view text);

/// SHA-256 of `text` as 64 lowercase hex digits.
std::string sha256_hex(std::string_view text);

}  // namespace dtrain
