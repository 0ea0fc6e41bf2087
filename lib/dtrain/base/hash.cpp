#include "dtrain/base/hash.hpp"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "dtrain/base/error.hpp"

namespace dtrain {

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  constexpr size_t kPiece = size_t{1} << 30;  // ISA-L counts in int
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

static std::string hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string hex8(uint32_t value) {
  const std::array<uint8_t, 4> bytes{static_cast<uint8_t>(value >> 24), static_cast<uint8_t>(value >> 16),
                                     static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
  return hex(bytes);
}

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  check(impl_->context != nullptr && EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1,
        "libcrypto offers SHA-256");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1, "SHA-256 takes bytes");
  return *this;
}

Sha256& Sha256::update(std::string_view text) { return update(std::as_bytes(std::span(text.data(), text.size()))); }

std::array<uint8_t, 32> Sha256::digest() {
  std::array<uint8_t, 32> out{};
  check(EVP_DigestFinal_ex(impl_->context, out.data(), nullptr) == 1, "SHA-256 ends once");
  return out;
}

std::string Sha256::hex_digest() { return hex(digest()); }

uint64_t hash64(std::string_view text) {
  const auto digest = Sha256().update(text).digest();
  uint64_t out = 0;
  for (int i = 7; i >= 0; --i) out = out << 8 | digest[static_cast<size_t>(i)];
  return out;
}

std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex_digest(); }

}  // namespace dtrain
