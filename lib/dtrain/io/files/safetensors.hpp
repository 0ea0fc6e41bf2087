#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

/// One tensor of a safetensors file, without its bytes. dtype as the format spells it: F64 F32 F16 BF16 I64 I32 I16 I8
/// U8 BOOL, and from other programs U64 U32 U16 F8_E5M2 F8_E4M3, which have no counterpart in dtrain's networks.
struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  ///< empty for a scalar; 0 is a legal extent
  int64_t begin = 0;           ///< offset of the first byte within the data part
  int64_t bytes = 0;
};

/// A tensor to be written: row-major little-endian bytes, owned by the caller.
struct TensorBytes {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::optional<uint32_t> checksum = std::nullopt;  ///< their CRC32C if known; else it is computed
};

/// Size of one element of `dtype`; 0 if the format has no such type.
int64_t bytes_per_element(const std::string& dtype);

/// A safetensors file in memory (format: huggingface/safetensors), read with every check the format asks for: header
/// length against file size before allocation (cap 100 MB), no name twice, offsets without holes or overlap,
/// bytes = shape × dtype, nothing after the last tensor.
/// Files written here carry checksums in `__metadata__` (docs/checkpoint_format.md): `crc32c.<tensor>` for each tensor
/// and `crc32c.header`, over the 8 length bytes and the header with that field's value as 00000000. Values of tensors
/// are not looked at: NaN is a legal number.
class SafetensorsFile {
 public:
  /// Reads and verifies; a file without any checksum (made elsewhere) is accepted unless `require_checksums`. One that
  /// has some must have all.
  /// Throws MissingError, DataError naming the file and the tensor or header field.
  static SafetensorsFile read(const std::string& path, bool require_checksums = false,
                              FileSystem& files = real_file_system());
  /// Reads a file that has checksums and verifies it as read() does, with a megabyte of memory at a time and nothing
  /// kept. Throws likewise.
  static void verify(const std::string& path, FileSystem& files = real_file_system());
  /// Header alone: entries() and metadata(), no tensor bytes are read or checked, crc32c.header is.
  static SafetensorsFile read_header(const std::string& path);

  /// In the order in which the header names them: for files written here, that of write_safetensors().
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(const std::string& name) const;  ///< nullptr when absent
  /// Valid as long as this object. Aligned to the element size if the file was written here.
  /// Precondition: `entry` is one of entries(), and the file came from read().
  std::span<const std::byte> bytes(const TensorEntry& entry) const;
  /// `__metadata__` without the checksums.
  const std::map<std::string, std::string>& metadata() const& { return metadata_; }
  void metadata() const&& = delete;  // it would outlive what it is a part of
  /// True if the file carried checksums; those that read() or read_header() reached were right.
  bool has_checksums() const { return !checksums_.empty(); }

 private:
  void take_header(std::span<const std::byte> header, int64_t file_size, const std::string& path);
  void require_checksums(const std::string& path) const;
  /// `checksum`: the CRC32C of an entry's bytes as they were read.
  void check_tensors(const std::string& path, const std::function<uint32_t(const TensorEntry&)>& checksum) const;

  std::vector<TensorEntry> entries_;
  std::map<std::string, size_t> places_;  // name → index in entries_
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::string> checksums_;  // what follows "crc32c." → 8 hex digits
  std::vector<std::byte> file_;
  int64_t data_begin_ = 0;
};

/// Writes atomically (AtomicFile) with checksums. The order of `tensors` is kept in the header; their bytes are stored
/// by decreasing element size, so that each tensor is aligned for readers that map the file. Names in `metadata` that
/// begin with "crc32c." are refused: they are this function's own; so are the tensor names `__metadata__` and `header`.
/// Throws like throw_errno, DataError for a name or value that is not UTF-8, InternalError for tensors that break the
/// format (a name twice, an unknown dtype, bytes ≠ shape × dtype) or a header over 100 MB.
void write_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata, FileSystem& files = real_file_system());

}  // namespace dtrain
