#include "dtrain/io/packed/packed_shard.hpp"
#include "input.hpp"
#include "support/packed_seal.hpp"

using namespace dtrain;

// The first byte chooses whether checksums and the length in the header are corrected first: with wrong ones most
// inputs would not reach the code behind them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  return fuzz::read_or_refuse([&] {
    std::vector<std::byte> bytes = fuzz::copy_of(data + 1, size - 1);
    if (data[0] != 'a') {
      test::set_packed_number<uint64_t>(bytes, 40, bytes.size());
      test::seal_packed(bytes);
    }
    const PackedShard shard(MappedFile("fuzz", std::move(bytes)));
    size_t names = 0;
    for (int64_t record = 0; record < shard.records(); ++record) {
      const PackedEntry entry = shard.entry(record);
      names += entry.path.size() + entry.group.size() + 4 * shard.labels(record).size();
      if (entry.height * entry.width > 1 << 20) continue;
      fuzz::read_or_refuse([&] { shard.picture(record, shard.read(record)); });
      if (entry.mask_bytes > 0) fuzz::read_or_refuse([&] { shard.mask(record, shard.read(record)); });
    }
    check(names < size, "names and labels of records lie in the shard");
  });
}
