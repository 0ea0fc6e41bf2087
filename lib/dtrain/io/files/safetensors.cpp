#include "dtrain/io/files/safetensors.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/input_file.hpp"
#include "dtrain/io/files/safetensors_header.hpp"

namespace dtrain {

namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 40;
constexpr std::string_view kChecksum = "crc32c.";
constexpr std::string_view kHeaderChecksum = "crc32c.header";
constexpr std::string_view kUnknownChecksum = "00000000";

void check_writable(const std::vector<TensorBytes>& tensors, const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names = {"__metadata__", "header"};
  for (const TensorBytes& tensor : tensors) {
    check(names.insert(tensor.name).second, "tensor '" + tensor.name + "' has a name of its own");
    check(tensor_bytes(tensor.dtype, tensor.shape) == static_cast<int64_t>(tensor.bytes.size()),
          "tensor '" + tensor.name + "' has a known dtype and as many bytes as its shape asks for");
  }
  for (const auto& [key, value] : metadata)
    check(!key.starts_with(kChecksum), "metadata '" + key + "' leaves the checksums' names alone");
}

/// Indices of `tensors` in the order in which their bytes lie in the file.
std::vector<size_t> data_order(const std::vector<TensorBytes>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return bytes_per_element(tensors[a].dtype) > bytes_per_element(tensors[b].dtype);
  });
  return order;
}

}  // namespace

SafetensorsFile SafetensorsFile::read(const std::string& path, bool require_checksums, FileSystem& files) {
  SafetensorsFile out;
  out.file_ = read_file(path, kMaxFileBytes, files);
  const std::span<const std::byte> file(out.file_);
  const auto file_size = static_cast<int64_t>(file.size());
  const int64_t header = parse_header_length(file.first(std::min<size_t>(file.size(), kLengthBytes)), file_size, path);
  out.take_header(file.first(static_cast<size_t>(kLengthBytes + header)), file_size, path);
  if (require_checksums) out.require_checksums(path);
  out.check_tensors(path, [&out](const TensorEntry& entry) { return crc32c(out.bytes(entry)); });
  return out;
}

void SafetensorsFile::verify(const std::string& path, FileSystem& files) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const InputFile input(path, files);
  const int64_t file_size = input.size();
  std::vector<std::byte> piece(kLengthBytes);
  const auto fill = [&](int64_t from, int64_t bytes) {
    piece.resize(static_cast<size_t>(from + bytes));
    if (input.read(std::span(piece).subspan(static_cast<size_t>(from))) != static_cast<size_t>(bytes))
      throw DataError(path + " has become shorter while it was read");
  };
  SafetensorsFile out;
  const int64_t header = parse_header_length(std::span(piece).first(input.read(piece)), file_size, path);
  fill(kLengthBytes, header);
  out.take_header(piece, file_size, path);
  out.require_checksums(path);
  std::map<int64_t, const TensorEntry*> by_place;  // tensors fill the file without a gap
  for (const TensorEntry& entry : out.entries_)
    if (entry.bytes > 0) by_place.emplace(entry.begin, &entry);
  std::map<const TensorEntry*, uint32_t> found;
  for (const auto& [begin, entry] : by_place) {
    uint32_t& crc = found[entry];
    for (int64_t left = entry->bytes; left > 0; left -= kPiece) {
      fill(0, std::min(left, kPiece));
      crc = crc32c(piece, crc);
    }
  }
  out.check_tensors(path, [&found](const TensorEntry& entry) { return found[&entry]; });
}

void SafetensorsFile::require_checksums(const std::string& path) const {
  if (has_checksums()) return;
  throw DataError(path + " has no checksums: it was not written by dtrain, or was rewritten by another program");
}

SafetensorsFile SafetensorsFile::read_header(const std::string& path) {
  SafetensorsFile out;
  const int64_t file_size = file_bytes(path);
  const int64_t header = parse_header_length(read_file_start(path, kLengthBytes), file_size, path);
  const auto start = read_file_start(path, kLengthBytes + header);
  if (static_cast<int64_t>(start.size()) != kLengthBytes + header)
    throw DataError(path + " has become shorter while it was read");
  out.take_header(start, file_size, path);
  return out;
}

/// `header`: the length field and the header after it.
void SafetensorsFile::take_header(std::span<const std::byte> header, int64_t file_size, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  data_begin_ = static_cast<int64_t>(header.size());
  SafetensorsHeader parsed = parse_header(text.substr(kLengthBytes), file_size - data_begin_, path);
  entries_ = std::move(parsed.entries);
  for (auto& [key, value] : parsed.metadata)
    (key.starts_with(kChecksum) ? checksums_[key.substr(kChecksum.size())] : metadata_[key]) = std::move(value);
  if (has_checksums()) {
    const size_t place = header_checksum_place(text);
    const auto stated = checksums_.find("header");
    if (place == std::string_view::npos || stated == checksums_.end() || header_checksum(text, place) != stated->second)
      throw DataError(path +
                      ": the header does not match its checksum 'crc32c.header'; the file is damaged, or another "
                      "program rewrote it and kept the old checksums");
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!places_.emplace(entries_[i].name, i).second)
      throw DataError(path + ": the safetensors header holds the tensor '" + entries_[i].name + "' twice");
    if (has_checksums() && (entries_[i].name == "header" || !checksums_.contains(entries_[i].name)))
      throw DataError(path + ": tensor '" + entries_[i].name + "' has no checksum though others have");
  }
}

void SafetensorsFile::check_tensors(const std::string& path,
                                    const std::function<uint32_t(const TensorEntry&)>& checksum) const {
  if (!has_checksums()) return;
  const TensorEntry* first = nullptr;
  int64_t others = -1;
  for (const TensorEntry& entry : entries_) {
    if (hex8(checksum(entry)) == checksums_.at(entry.name)) continue;
    if (first == nullptr) first = &entry;
    ++others;
  }
  if (first == nullptr) return;
  const int64_t begin = data_begin_ + first->begin;
  throw DataError(path + ": tensor '" + first->name + "' does not match its checksum (bytes " + with_commas(begin) +
                  " to " + with_commas(begin + first->bytes) + " of the file)" +
                  (others == 0
                       ? ""
                       : ", nor " + std::string(others == 1 ? "does" : "do") + " " + count_of(others, "other tensor")) +
                  "; the file is damaged");
}

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry& entry) const {
  check(static_cast<int64_t>(file_.size()) >= data_begin_ + entry.begin + entry.bytes,
        "bytes of a tensor are asked from a file that was read whole");
  return std::span(file_).subspan(static_cast<size_t>(data_begin_ + entry.begin), static_cast<size_t>(entry.bytes));
}

void write_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata, FileSystem& files) {
  check_writable(tensors, metadata);
  SafetensorsHeader header{{}, metadata};
  header.metadata.emplace(kHeaderChecksum, kUnknownChecksum);
  for (const TensorBytes& tensor : tensors) {
    header.entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, static_cast<int64_t>(tensor.bytes.size())});
    header.metadata.emplace(std::string(kChecksum) + tensor.name,
                            hex8(tensor.checksum ? *tensor.checksum : crc32c(tensor.bytes)));
  }
  const std::vector<size_t> order = data_order(tensors);
  int64_t reached = 0;
  for (size_t i : order) {
    header.entries[i].begin = reached;
    reached += header.entries[i].bytes;
  }
  std::string text = format_header(header);
  check(static_cast<int64_t>(text.size()) <= kMaxHeaderBytes, "a safetensors header stays under 100 MB");
  const size_t place = header_checksum_place(text);
  text.replace(place, kUnknownChecksum.size(), header_checksum(text, place));
  AtomicFile file(path, files);
  file.write(text);
  for (size_t i : order) file.write(tensors[i].bytes);
  file.commit();
}

}  // namespace dtrain
