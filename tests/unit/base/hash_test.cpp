#include "dtrain/base/hash.hpp"

#include "support/catch.hpp"

using namespace dtrain;

static std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_CASE("CRC32C has its published check value") {
  CHECK(crc32c(bytes("123456789")) == 0xe3069283);
  CHECK(hex8(0xe3069283) == "e3069283");
}

TEST_CASE("CRC32C continues from an earlier piece") {
  CHECK(crc32c(bytes("6789"), crc32c(bytes("12345"))) == 0xe3069283);
  CHECK(crc32c(bytes("")) == 0);
}

TEST_CASE("SHA-256 has its published value, in one piece and in several") {
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  CHECK(sha256_hex("abc") == abc);
  CHECK(Sha256().update("a").update("bc").hex_digest() == abc);
}

TEST_CASE("hash64 is the first eight bytes of SHA-256, little-endian") {
  CHECK(hash64("abc") == 0xeacf018fbf1678baULL);
}
