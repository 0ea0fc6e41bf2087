// chaos_packed: damages packed shards at random (bits flipped, blocks zeroed, exchanged, doubled or filled with noise,
// files truncated or extended), opens them as a training run or dtrain verify does, by mapping the file, and counts
// which damages are found, and named: always the file, and if header and index were not hit also a damaged record with
// its offset.
//
// One JSON object at the end; scripts/chaos damage --what shards starts it.
//
// Exit codes: 0 every damage was found and named, 1 one was not (a line on stderr says which), 64 bad command line.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/packed/packed_writer.hpp"
#include "options.hpp"

namespace dtrain {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::array<const char*, 9> kKinds = {"bit",           "bits", "zero block", "noise block", "exchanged blocks",
                                               "doubled block", "cut",  "zero tail",  "longer"};

struct Counts {
  int64_t planted = 0;
  int64_t harmless = 0;  // the bytes are the same: a zeroed block of zeros
  int64_t found = 0;
  int64_t named = 0;
};

Image picture(KeyedRandom& random, int64_t channels, int bits) {
  Image image{24, 40, channels, bits, {}, {}};
  for (int64_t i = 0; i < 24 * 40 * channels; ++i) {
    const auto value = static_cast<uint16_t>(i % 97 + static_cast<int64_t>(random.below(9)));
    if (bits == 16) image.words.push_back(value);
    if (bits == 8) image.bytes.push_back(static_cast<uint8_t>(value));
  }
  return image;
}

Bytes make_shard(const std::string& path, PackedCodec codec) {
  KeyedRandom random(1, Purpose::sample_set, static_cast<uint64_t>(codec), 91);
  std::vector<PackedRecord> records;
  for (int64_t i = 0; i < 12; ++i) {
    const int bits = codec != PackedCodec::jpeg && i % 4 == 3 ? 16 : 8;
    const Image mask = picture(random, 1, 8);
    records.push_back(
        make_packed_record(picture(random, i % 3 == 0 ? 3 : 1, bits), i % 2 == 0 ? &mask : nullptr, codec, 90));
    records.back().path = "images/" + std::to_string(i) + ".png";
    records.back().group = i < 6 ? "patient " + std::to_string(i / 2) : "";
    records.back().labels = {0, 1, static_cast<float>(i % 2)};
  }
  write_packed_shard(path, {codec, 0, 1, 3, {}}, std::move(records));
  return read_file(path);
}

Bytes damaged(const Bytes& whole, size_t kind, KeyedRandom& random) {
  constexpr size_t kBlocks[] = {4096, 512, 64};
  Bytes bytes = whole;
  const size_t block = kBlocks[random.below(std::size(kBlocks))];
  const auto place = [&] { return random.below(bytes.size() / block) * block; };
  const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(place());
  const auto other = bytes.begin() + static_cast<std::ptrdiff_t>(place());
  const auto length = static_cast<std::ptrdiff_t>(block);
  const uint64_t bits = kind == 0 ? 1 : kind == 1 ? 2 + random.below(15) : 0;
  for (uint64_t i = 0; i < bits; ++i) {
    const size_t bit = random.below(bytes.size() * 8);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  if (kind == 2) std::fill(at, at + length, std::byte{0});
  if (kind == 3) std::generate(at, at + length, [&] { return static_cast<std::byte>(random.below(256)); });
  if (kind == 4 && at != other) std::swap_ranges(at, at + length, other);
  if (kind == 5 && at != other) std::copy(at, at + length, other);
  if (kind == 6) bytes.resize(random.below(bytes.size()));
  if (kind == 7)
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size())), bytes.end(), std::byte{0});
  if (kind == 8) bytes.resize(bytes.size() + 1 + random.below(5000), static_cast<std::byte>(random.below(2) * 77));
  return bytes;
}

void write_plainly(const std::string& path, const Bytes& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  check(file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size(), "the file is written");
  std::fclose(file);
}

// The errors about the file: of every damaged record, or of the whole; "" if all is read as if nothing were wrong.
std::string sentences_of(const std::string& path) {
  std::string told;
  try {
    const PackedShard shard{MappedFile(path)};
    for (int64_t record = 0; record < shard.records(); ++record) {
      try {
        shard.read(record);
      } catch (const DataError& error) {
        told += std::string(error.what()) + "\n";
      }
    }
  } catch (const DataError& error) {
    told += std::string(error.what()) + "\n";
  }
  return told;
}

// Whether every damaged record is named, if nothing before the records was damaged.
bool is_named(const Bytes& whole, const Bytes& bytes, const std::string& path, const std::string& told) {
  if (!told.starts_with(path)) return false;
  const PackedShard shard(MappedFile(path, whole));
  const int64_t begin = shard.entry(0).offset;
  if (bytes.size() != whole.size() || !std::equal(bytes.begin(), bytes.begin() + begin, whole.begin())) return true;
  for (int64_t record = 0; record < shard.records(); ++record) {
    const PackedEntry entry = shard.entry(record);
    const bool hit = !std::equal(bytes.begin() + entry.offset, bytes.begin() + entry.offset + entry.bytes(),
                                 whole.begin() + entry.offset);
    if (hit != (told.find(shard.name_of(record) + ": ") != std::string::npos)) return false;
  }
  return true;
}

bool run(const std::string& folder, int64_t first, int64_t end, uint64_t seed) {
  const std::string path = folder + "/shard.dtpack";
  std::vector<Bytes> shards;
  for (const PackedCodec codec : {PackedCodec::raw, PackedCodec::jpeg, PackedCodec::deflate})
    shards.push_back(make_shard(path, codec));
  Counts all;
  for (int64_t trial = first; trial < end; ++trial) {
    KeyedRandom random(seed, Purpose::sample_set, static_cast<uint64_t>(trial), 92);
    const Bytes& whole = shards[random.below(shards.size())];
    const size_t kind = random.below(2) == 0 ? 0 : 1 + random.below(kKinds.size() - 1);
    const Bytes bytes = damaged(whole, kind, random);
    write_plainly(path, bytes);
    const bool harmless = bytes == whole;
    const std::string told = sentences_of(path);
    const bool named = !told.empty() && is_named(whole, bytes, path, told);
    ++all.planted;
    all.harmless += harmless ? 1 : 0;
    all.found += told.empty() ? 0 : 1;
    all.named += named ? 1 : 0;
    if (harmless != told.empty() || (!told.empty() && !named))
      std::fprintf(stderr, "chaos_packed: %s was %s; again: --trial %lld --seed %llu\n%s", kKinds[kind],
                   harmless       ? "harmless and was refused"
                   : told.empty() ? "not found"
                                  : "found and not named",
                   static_cast<long long>(trial), static_cast<unsigned long long>(seed), told.c_str());
  }
  std::printf("{\"planted\": %lld, \"harmless\": %lld, \"found\": %lld, \"named\": %lld}\n",
              static_cast<long long>(all.planted), static_cast<long long>(all.harmless),
              static_cast<long long>(all.found), static_cast<long long>(all.named));
  return all.found + all.harmless == all.planted && all.named == all.found;
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
  int64_t count = 0;
  int64_t trial = -1;
  uint64_t seed = 1;
  Options options("Damages packed shards and counts which damages are found and named.");
  options.number("--count", count, "damages", 1);
  options.number("--trial", trial, "this damage alone, counted from 0", 0);
  options.require_any({"--count", "--trial"});
  options.seed(seed);
  if (const auto code = options.read(argc, argv)) return *code;
  std::string folder = (std::filesystem::temp_directory_path() / "dtrain-chaos-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return exit_code::kIo;
  const bool good = trial < 0 ? run(folder, 0, count, seed) : run(folder, trial, trial + 1, seed);
  std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}
