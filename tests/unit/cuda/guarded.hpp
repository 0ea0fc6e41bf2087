#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace dtrain::test {

/// An array in memory of its own with a margin on both sides: an index that is off by one reads a huge number there, or
/// leaves a mark.
template <typename Value>
class Guarded {
 public:
  explicit Guarded(std::vector<Value> values)
      : size_(values.size()), all_((size_ + 2 * kMargin) * sizeof(Value), kByte) {
    if (size_ > 0) std::memcpy(data(), values.data(), size_ * sizeof(Value));
  }
  explicit Guarded(size_t size) : Guarded(std::vector<Value>(size)) {}

  Value* data() { return reinterpret_cast<Value*>(all_.data()) + kMargin; }
  const Value* data() const { return reinterpret_cast<const Value*>(all_.data()) + kMargin; }
  size_t size() const { return size_; }
  std::vector<Value> values() const { return {data(), data() + size_}; }

  bool margins_untouched() const {
    const auto whole = [](unsigned char byte) { return byte == kByte; };
    return std::all_of(all_.begin(), all_.begin() + kMargin * sizeof(Value), whole) &&
           std::all_of(all_.end() - kMargin * sizeof(Value), all_.end(), whole);
  }
  /// The same bits, NaN included.
  bool operator==(const Guarded& other) const { return all_ == other.all_; }

 private:
  static constexpr std::ptrdiff_t kMargin = 64;  // elements
  static constexpr unsigned char kByte = 0x7F;   // floats and doubles near the largest there are

  size_t size_;
  std::vector<unsigned char> all_;
};

}  // namespace dtrain::test
