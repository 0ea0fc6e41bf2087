#pragma once
// Record files as other programs write them, made in memory by the published formats.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::test {

/// One framed record of a TFRecord file.
std::string tfrecord(const std::string& data);

// Values of features, as tf.train.Feature messages.
std::string bytes_feature(const std::vector<std::string>& values);
std::string int64_feature(const std::vector<int64_t>& values, bool packed = true);
std::string float_feature(const std::vector<float>& values, bool packed = true);
/// A tf.train.Example with these features, in this order.
std::string example(const std::vector<std::pair<std::string, std::string>>& features);
/// A protobuf field that holds `bytes`.
std::string message_field(int number, const std::string& bytes);

/// Header and padded content of a tar member, POSIX ustar.
std::string tar_member(const std::string& name, const std::string& content, char type = '0');
/// The same, as GNU tar writes it for a name of more than 100 characters.
std::string gnu_long_member(const std::string& name, const std::string& content);
/// The same with path and size in a pax header; the member's own header says something else.
std::string pax_member(const std::string& name, const std::string& content);
/// Two blocks of zeros.
std::string tar_end();
/// A changed header with its checksum corrected.
void seal_tar_header(std::string& archive, size_t at);

std::string gzip(const std::string& text);
std::string zlib(const std::string& text);

}  // namespace dtrain::test
