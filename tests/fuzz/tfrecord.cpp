#include "dtrain/io/records/tfrecord.hpp"

#include "dtrain/io/records/tf_example.hpp"
#include "input.hpp"

using namespace dtrain;

static void read_example(ByteWindow& bytes, int64_t offset, int64_t size) {
  for (const FeaturePlace& feature : find_features(bytes, offset, size, "fuzz")) {
    fuzz::read_or_refuse([&] { read_feature(bytes, feature, "fuzz"); });
    fuzz::read_or_refuse([&] { byte_string(bytes, feature, "fuzz"); });
  }
}

// The first byte chooses whether checksums are corrected: with wrong ones most inputs would not reach the code behind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  return fuzz::read_or_refuse([&] {
    const RecordFile file("fuzz", fuzz::copy_of(data + 1, size - 1));
    if (data[0] == 'g' || data[0] == 'z') {
      decompressed(file, data[0] == 'g' ? Compression::gzip : Compression::zlib, 1 << 20);
      return;
    }
    ByteWindow bytes(file);
    if (data[0] == 'e') return read_example(bytes, 0, file.size());
    TfRecordWalk walk(bytes);
    while (const auto place = walk.next()) {
      fuzz::read_or_refuse([&] { read_example(bytes, place->data(), place->size); });
      fuzz::read_or_refuse([&] { read_tfrecord(file, place->number, place->offset, place->size); });
      walk.told_checksum(*place);
    }
  });
}
