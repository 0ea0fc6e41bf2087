#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/records/protobuf_message.hpp"

namespace dtrain {

// Record files for other programs: what tfrecord.hpp, tf_example.hpp and tar.hpp read, written. Equal input gives equal
// bytes: they contain no time and no user.

/// Frames `data` as the next record of a TFRecord file.
void append_tfrecord(std::span<const std::byte> data, std::vector<std::byte>& file);

/// A tf.train.Example in the making. A name that is added twice is in it twice.
class ExampleWriter {
 public:
  void add_bytes(const std::string& name, std::span<const std::byte> value);
  void add_text(const std::string& name, const std::string& value);
  void add_number(const std::string& name, int64_t value);  ///< >= 0
  void add_floats(const std::string& name, std::span<const float> values);
  /// The whole message.
  std::vector<std::byte> message() const;

 private:
  void add(const std::string& name, uint32_t kind, const ProtobufMessage& list);
  ProtobufMessage features_;
};

/// A regular file of a tar archive (POSIX ustar), mode 0644, of 1970, owned by nobody. `name`: 1 … 100 bytes.
void append_tar_member(const std::string& name, std::span<const std::byte> content, std::vector<std::byte>& archive);
/// What follows the last member.
void append_tar_end(std::vector<std::byte>& archive);

}  // namespace dtrain
