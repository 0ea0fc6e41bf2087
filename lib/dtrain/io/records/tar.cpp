#include "dtrain/io/records/tar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

using namespace std::string_view_literals;

namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMaxName = int64_t{1} << 16;
constexpr int64_t kMaxExtended = int64_t{1} << 20;  // bytes of a pax header
constexpr int64_t kMaxSize = int64_t{1} << 50;

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A field of the header: from `begin` on, up to `size` characters or a NUL.
std::string_view header_field(std::span<const std::byte> header, size_t begin, size_t size) {
  const std::string_view text = text_in(header).substr(begin, size);
  return text.substr(0, text.find('\0'));
}

/// An octal number as tar writes it, with spaces or NULs around it; none for anything else.
std::optional<int64_t> octal(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \0"sv), text.size());
  const size_t end = std::min(text.find_first_of(" \0"sv, begin), text.size());
  if (text.find_first_not_of(" \0"sv, end) != std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  if (begin == end) return value;
  const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value, 8);
  return error == std::errc() && stop == text.data() + end && value >= 0 ? std::optional(value) : std::nullopt;
}

/// The checksum is the sum of all header bytes, with its own field as spaces; some old programs added signed bytes.
bool has_good_checksum(std::span<const std::byte> header) {
  constexpr size_t kBegin = 148;
  constexpr size_t kEnd = 156;
  int64_t plain = 0;
  int64_t with_sign = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const auto byte = i >= kBegin && i < kEnd ? uint8_t{' '} : std::to_integer<uint8_t>(header[i]);
    plain += byte;
    with_sign += static_cast<int8_t>(byte);
  }
  const auto told = octal(text_in(header).substr(kBegin, kEnd - kBegin));
  return told && (*told == plain || *told == with_sign);
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::string name_in(std::span<const std::byte> header) {
  const std::string name(header_field(header, 0, 100));
  const bool posix = text_in(header).substr(257, 6) == "ustar\0"sv;
  const std::string_view prefix = posix ? header_field(header, 345, 155) : ""sv;
  return prefix.empty() ? name : std::string(prefix) + "/" + name;
}

}  // namespace

/// What extended headers before a member's own one say about it.
struct TarWalk::Extended {
  std::optional<std::string> name;
  std::optional<int64_t> size;
};

void TarWalk::refuse(const std::string& what) const {
  throw DataError(bytes_.path() + ": the tar header at byte " + with_commas(header_) + " " + what);
}

// Blocks of zeros end an archive and fill its last tape block; nothing else may follow.
bool TarWalk::at_end_mark() {
  if (!is_zero(bytes_.at(header_, kBlock))) return false;
  for (int64_t at = header_; at < bytes_.size();) {
    const int64_t count = std::min<int64_t>(bytes_.size() - at, 1 << 16);
    if (!is_zero(bytes_.at(at, count)))
      throw DataError(bytes_.path() + ": something follows the end mark at byte " + with_commas(header_) +
                      "; archives joined by cat must be given separately");
    at += count;
  }
  return true;
}

int64_t TarWalk::data_size(std::span<const std::byte> header, const std::optional<int64_t>& told) const {
  constexpr size_t kBegin = 124;
  constexpr size_t kSize = 12;
  std::optional<int64_t> size = told;
  if (const auto raw = header.subspan(kBegin, kSize); !size && std::to_integer<int>(raw[0]) >= 0x80) {
    int64_t value = std::to_integer<int64_t>(raw[0]) & 0x7F;  // GNU: a binary number, highest byte first
    for (size_t i = 1; i < kSize && value <= kMaxSize; ++i) value = value << 8 | std::to_integer<int64_t>(raw[i]);
    size = value;
  } else if (!size) {
    size = octal(text_in(raw));
  }
  if (!size) refuse("has a size that is not a number; the archive is damaged, fetch it again");
  if (*size > bytes_.size() - header_ - kBlock)
    refuse("promises " + with_commas(std::min(*size, kMaxSize)) +
           " bytes, which reach beyond the end of the file; it was cut short, fetch it again");
  return *size;
}

// The contents of an extended header, which follow it.
std::string TarWalk::text_of(int64_t size) const {
  if (size > kMaxExtended) refuse("has a name or notes of more than 1 MiB");
  return std::string(text_in(bytes_.at(header_ + kBlock, size)));
}

// Lines "LENGTH KEY=VALUE\n", where LENGTH counts the whole line.
void TarWalk::read_pax(int64_t size, Extended& extended) const {
  const std::string text = text_of(size);
  for (std::string_view left = text; !left.empty();) {
    size_t length = 0;
    const auto [stop, error] = std::from_chars(left.data(), left.data() + left.size(), length);
    const auto digits = static_cast<size_t>(stop - left.data());
    if (error != std::errc() || length > left.size() || length < digits + 3 || *stop != ' ' || left[length - 1] != '\n')
      refuse("has pax notes that cannot be read; the archive is damaged, fetch it again");
    const std::string_view line = left.substr(digits + 1, length - digits - 2);
    const std::string_view key = line.substr(0, line.find('='));
    if (key.size() == line.size()) refuse("has pax notes that cannot be read; the archive is damaged, fetch it again");
    const std::string_view value = line.substr(key.size() + 1);
    left.remove_prefix(length);
    if (key.starts_with("GNU.sparse.")) refuse("is of a sparse file, which is not read; pack without --sparse");
    if (key == "path") extended.name = value;
    if (key != "size") continue;
    int64_t number = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (wrong != std::errc() || end != value.data() + value.size() || number < 0 || number > kMaxSize)
      refuse("has a size that is not a number; the archive is damaged, fetch it again");
    extended.size = number;
  }
}

std::optional<TarMember> TarWalk::next() {
  for (Extended extended;;) {
    if (bytes_.size() - header_ < kBlock)
      throw DataError(bytes_.path() + ": the archive ends at byte " + with_commas(bytes_.size()) +
                      " without its end mark; it was cut short, or is not a tar archive: fetch or make it again");
    if (at_end_mark()) {
      if (extended.name || extended.size)
        refuse("is missing: the archive ends after a long name; it was cut short, fetch it again");
      return std::nullopt;
    }
    const auto window = bytes_.at(header_, kBlock);
    std::array<std::byte, kBlock> header{};
    std::copy(window.begin(), window.end(), header.begin());
    if (!has_good_checksum(header))
      refuse(header_ == 0 ? "has a wrong checksum: damaged, or not a tar archive; fetch or make it again"
                          : "has a wrong checksum: it is damaged; fetch the archive again");
    const char type = static_cast<char>(header[156]);
    const bool notes = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    const bool empty = type >= '1' && type <= '6';  // links, devices, folders, whatever their size field says
    const int64_t size = empty ? 0 : data_size(header, notes ? std::nullopt : extended.size);
    if (type == 'S') refuse("is of a sparse file, which is not read; pack without --sparse");
    if (type == 'M') refuse("continues a file of another volume, which is not read; pack into one");
    if (type == 'L') extended.name = text_of(size).c_str();  // up to its NUL
    if (type == 'x') read_pax(size, extended);
    const int64_t here = header_;
    const int64_t padded = (size + kBlock - 1) / kBlock * kBlock;
    if (padded > bytes_.size() - header_ - kBlock) refuse("is followed by too few bytes; the file was cut short");
    if (notes) {
      header_ += kBlock + padded;
      continue;
    }
    TarMember member{extended.name ? *extended.name : name_in(header), here, here + kBlock, size};
    extended = {};
    const bool regular = type == '0' || type == '\0' || type == '7';
    if (regular && (member.name.empty() || member.name.find('\0') != std::string::npos ||
                    static_cast<int64_t>(member.name.size()) > kMaxName))
      refuse("has an invalid name; the archive is damaged, fetch it again");
    header_ += kBlock + padded;
    if (!regular || member.name.ends_with('/')) continue;
    if (member.name.starts_with("./")) member.name.erase(0, 2);
    return member;
  }
}

RecordFile open_tar_file(const std::string& path, int64_t max_decompressed) {
  RecordFile plain(path);
  std::vector<std::byte> start(static_cast<size_t>(std::min<int64_t>(6, plain.size())));
  plain.read(0, start);
  constexpr std::array<std::pair<std::string_view, const char*>, 3> kForeign = {
      {{"BZh"sv, "bzip2"}, {"\xFD\x37zXZ"sv, "xz"}, {"\x28\xB5\x2F\xFD"sv, "zstd"}}};
  for (const auto& [magic, program] : kForeign)
    if (text_in(start).starts_with(magic))
      throw DataError(path + " is compressed by " + program + "; tar archives are read plain or compressed by gzip");
  if (compression_of(start) != Compression::gzip) return plain;
  return {path, decompressed(plain, Compression::gzip, max_decompressed)};
}

std::optional<WebDatasetName> webdataset_name(const std::string& member) {
  const size_t slash = member.rfind('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = member.find('.', base);
  if (dot == std::string::npos || dot == base) return std::nullopt;
  if (member.starts_with("__") && member.ends_with("__")) return std::nullopt;
  return WebDatasetName{member.substr(0, dot), lower_case(member.substr(dot + 1))};
}

}  // namespace dtrain
