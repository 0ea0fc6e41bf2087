#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtrain {

/// Bytes of a file, wherever they are: for readers that take what they need from it, not all of it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /// Fills `out` from `offset`; false where the file does not reach. Throws like throw_errno.
  virtual bool read(uint64_t offset, std::span<std::byte> out) const = 0;
};

/// `bytes` must outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  bool read(uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::span<const std::byte> bytes_;
};

/// A regular file, open for reading.
class DiskSource final : public ByteSource {
 public:
  /// Throws as file_bytes().
  explicit DiskSource(const std::string& path);
  ~DiskSource() override;
  DiskSource(const DiskSource&) = delete;
  DiskSource& operator=(const DiskSource&) = delete;

  uint64_t size() const override { return size_; }
  bool read(uint64_t offset, std::span<std::byte> out) const override;

  /// Which bytes these are: another file, or another version of it, has other numbers.
  using Identity = std::array<int64_t, 5>;
  Identity identity() const;

 private:
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace dtrain
