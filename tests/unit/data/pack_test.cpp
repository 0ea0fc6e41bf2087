#include "dtrain/data/pack/pack.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <cmath>
#include <set>

#include "batches.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/pack/stored_sample.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/data/store/packed_set.hpp"
#include "dtrain/io/files/file.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

void pack_into(const PackJob& job, const std::string& folder, int threads = 1) {
  PackedManifest manifest = job.manifest();
  for (size_t k = 0; k < job.shards().size(); ++k)
    manifest.shards.push_back(job.write(k, folder, threads, [](int64_t) {}));
  manifest.complete = true;
  write_packed_manifest(manifest, folder);
}

struct Source {
  DataOptions options;
  Dataset dataset;
  Split split;
};

Source source_of(DataOptions options, int64_t side) {
  options.image.height = options.image.width = side;
  Source source{options, open_dataset(options, Task::from_format, 1), {}};
  source.split = split_dataset(source.dataset, options.split);
  return source;
}

PackJob job_of(const Source& source, const PackOptions& options) {
  return PackJob(source.dataset, source.split, source.options, options);
}

// Packs, and opens the packed set.
Source packed(const Source& source, const PackOptions& options, const std::string& folder) {
  pack_into(job_of(source, options), folder);
  DataOptions again = source.options;
  again.format = format_named("packed");
  again.root = folder;
  again.split.given = false;
  return source_of(again, source.options.image.height);
}

// Two classes, patients in the names, colours mixed.
DataOptions make_folder(const TempFolder& root, int64_t side) {
  for (int i = 0; i < 22; ++i)
    root.picture(
        std::string(i % 2 == 0 ? "cat" : "dog") + "/" + std::to_string(1000 + i / 2) + "_" + std::to_string(i) + ".png",
        random_image(side, side, i % 3 == 0 ? 3 : 1, static_cast<unsigned>(i)));
  DataOptions options = options_for("image_folder", root.path());
  options.split.given = true;
  options.split.valid = 0.3;
  options.split.test = 0.2;
  return options;
}

DataOptions make_masks(const TempFolder& root, int64_t side) {
  for (int i = 0; i < 9; ++i) {
    Image mask = random_image(side, side, 1, static_cast<unsigned>(i + 50));
    for (uint8_t& value : mask.bytes) value = static_cast<uint8_t>(value % 4 * 10);
    root.picture("images/" + std::to_string(i) + ".png", random_image(side, side, 1, static_cast<unsigned>(i)));
    root.picture("masks/" + std::to_string(i) + ".png", mask);
  }
  DataOptions options = options_for("image_mask", root.path());
  options.image_mask.mask_values = {{10, 1}, {30, 2}};
  options.image.channels = 1;
  return options;
}

DataOptions make_labels(const TempFolder& root) {
  std::string table = "path,a,b,c,who\n";
  for (int i = 0; i < 12; ++i) {
    const std::string name = std::to_string(i) + ".png";
    root.picture("p/" + name, random_image(10, 10, 1, static_cast<unsigned>(i)));
    table += "p/" + name + "," + std::to_string(i % 2) + "," + (i % 3 == 0 ? "" : "1") + ",0,w" +
             std::to_string(i / 3) + "\n";
  }
  root.text("labels.csv", table);
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "labels.csv";
  options.csv.labels = {"a", "b", "c"};
  options.csv.group = "who";
  options.image.channels = 1;
  return options;
}

void check_same(const Source& a, const Source& b) {
  CHECK(a.dataset.task == b.dataset.task);
  CHECK(a.dataset.classes == b.dataset.classes);
  CHECK(a.dataset.mask_values == b.dataset.mask_values);
  CHECK(a.split.sha256 == b.split.sha256);
  CHECK(a.split.train == b.split.train);
  REQUIRE(paths_of(a.dataset) == paths_of(b.dataset));
  for (size_t i = 0; i < a.dataset.samples.size(); ++i) {
    const Sample& x = a.dataset.samples[i];
    const Sample& y = b.dataset.samples[i];
    CHECK(x.id == y.id);
    CHECK(x.class_index == y.class_index);
    CHECK((tells_patient(a.dataset, x) ? x.group : "") == y.group);
    REQUIRE(x.labels.size() == y.labels.size());
    for (size_t k = 0; k < x.labels.size(); ++k)
      CHECK((x.labels[k] == y.labels[k] || (std::isnan(x.labels[k]) && std::isnan(y.labels[k]))));
    const auto index = static_cast<int64_t>(i);
    const Image p = read_picture(a.dataset, index);
    const Image q = read_picture(b.dataset, index);
    CHECK((p.bytes == q.bytes && p.words == q.words && p.channels == q.channels));
    if (a.dataset.task == Task::segmentation)
      CHECK(read_mask(a.dataset, index).bytes == read_mask(b.dataset, index).bytes);
  }
}

std::vector<Batch> all_batches(const Source& source, bool raw, std::optional<int64_t> epoch) {
  DataOptions options = source.options;
  options.augment.hflip = options.augment.rot90 = 0.5;
  options.loader.threads = 2;
  Loader loader(source.dataset, options, 3, at::MemoryFormat::ChannelsLast, no_trace, Delivery{.raw = raw});
  std::vector<int64_t> all;
  for (size_t i = 0; i < source.dataset.samples.size(); ++i)
    all.push_back(static_cast<int64_t>(i * 5 % source.dataset.samples.size()));
  loader.start({{all, epoch}, {{2, 1}, epoch}});
  std::vector<Batch> batches;
  while (std::optional<Batch> batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

}  // namespace

TEST_CASE("a packed set has the samples, labels, groups, parts and pixels of its source, with every exact codec") {
  const TempFolder a;
  const TempFolder b;
  const TempFolder c;
  for (const Source& source :
       {source_of(make_folder(a, 12), 12), source_of(make_masks(b, 12), 12), source_of(make_labels(c), 10)})
    for (const PackedCodec codec : {PackedCodec::raw, PackedCodec::deflate}) {
      const TempFolder folder;
      const Source again = packed(source, {.samples_per_shard = 4, .expand = {}, .codec = codec}, folder.path());
      check_same(source, again);
      CHECK_FALSE(holds(again.dataset.notes.back(), "resized again"));
      DataOptions smaller = again.options;
      smaller.image.height = smaller.image.width = 5;
      CHECK(holds(open_dataset(smaller, Task::from_format, 1).notes.back(), "resized again to data.image.size, 5 x 5"));
      for (size_t i = 0; i < source.split.valid.size(); ++i)
        CHECK(again.dataset.samples[static_cast<size_t>(source.split.valid[i])].part == "valid");
    }
}

TEST_CASE("batches of a packed set have the bits of its source's, raw and finished") {
  const TempFolder a;
  const TempFolder b;
  for (const Source& source : {source_of(make_folder(a, 12), 12), source_of(make_masks(b, 12), 12)}) {
    const TempFolder folder;
    const Source again = packed(source, {.samples_per_shard = 5, .expand = {}}, folder.path());
    for (const bool raw : {false, true})
      for (const auto epoch : std::vector<std::optional<int64_t>>{std::nullopt, 3}) {
        const std::vector<Batch> x = all_batches(source, raw, epoch);
        const std::vector<Batch> y = all_batches(again, raw, epoch);
        REQUIRE(x.size() == y.size());
        for (size_t i = 0; i < x.size(); ++i) {
          CHECK(x[i].samples == y[i].samples);
          if (x[i].targets.defined()) CHECK(at::equal(x[i].targets, y[i].targets));
          CHECK(at::equal(raw ? x[i].raw->pixels : x[i].images, raw ? y[i].raw->pixels : y[i].images));
          if (raw && x[i].raw->masks.defined()) CHECK(at::equal(x[i].raw->masks, y[i].raw->masks));
        }
      }
  }
}

TEST_CASE("a packed set holds all channels of pictures of several files, and says what they are") {
  const TempFolder root, folder;
  for (int i = 0; i < 8; ++i)
    for (const char* ending : {"_0000.png", "_0001.png"})
      root.picture((i % 2 == 0 ? "cat/" : "dog/") + std::to_string(i) + ending,
                   random_image(6, 5, 1, static_cast<unsigned>(2 * i + (ending[4] - '0'))));
  DataOptions options = options_for("image_folder", root.path());
  options.split.given = true;
  options.split.valid = 0.3;
  options.image.files = {"_0000", "_0001"};
  options.image.channels = 2;
  const Source source = source_of(options, 8);
  PackOptions how;
  how.codec = GENERATE(PackedCodec::raw, PackedCodec::deflate);
  const Source set = packed(source, how, folder.path());
  REQUIRE(set.dataset.samples.size() == 8);
  CHECK(read_picture(set.dataset, 0).channels == 2);
  DataOptions plain = options_for("packed", folder.path());
  CHECK(holds(error_of(78, [&] { open_dataset(plain, Task::from_format, 1); }),
              "was packed with data.image.files [_0000, _0001] and data.image.slices 1"));
  take_own_channels(plain);
  CHECK(plain.image.files == options.image.files);
  CHECK(plain.image.channels == 2);
  CHECK(open_dataset(plain, Task::from_format, 1).manifest_sha256 == set.dataset.manifest_sha256);
  how.codec = PackedCodec::jpeg;
  CHECK(holds(error_of(78, [&] { job_of(source, how); }), "channels that are no colours"));
  how.codec = PackedCodec::raw;
  how.to = PackTo::webdataset;
  CHECK(holds(error_of(78, [&] { job_of(source, how); }), "which only --to packed"));
}

TEST_CASE("shards have the same bytes for any number of threads, and the manifest lists them") {
  const TempFolder root;
  const Source source = source_of(make_folder(root, 9), 8);
  const PackJob job = job_of(source, {.samples_per_shard = 3, .expand = {PackTurn::hflip}});
  const TempFolder one;
  const TempFolder three;
  pack_into(job, one.path(), 1);
  pack_into(job, three.path(), 3);
  for (const PackShard& shard : job.shards()) CHECK((read_file(one / shard.file) == read_file(three / shard.file)));
  CHECK(read_text(one / "manifest.json") == read_text(three / "manifest.json"));
  const PackedManifest manifest = read_packed_manifest(one.path());
  CHECK(manifest.shards.size() == job.shards().size());
  CHECK(manifest.parts.at("train") == static_cast<int64_t>(2 * source.split.train.size()));
  CHECK(manifest.parts.at("valid") == static_cast<int64_t>(source.split.valid.size()));
  CHECK(manifest.expand == std::vector<std::string>{"hflip"});
  CHECK(manifest.split_sha256 == source.split.sha256);
  CHECK(job.shards()[0].file.starts_with("train-00000-of-000"));
  CHECK(job.shards()[0].items.size() == 3);
}

TEST_CASE("only training samples are enlarged, each copy under a name of its own in the group of its source") {
  const TempFolder root;
  const TempFolder folder;
  const Source source = source_of(make_folder(root, 12), 12);
  const std::vector<PackTurn> turns = {PackTurn::vflip, PackTurn::hflip, PackTurn::rot90, PackTurn::rot180,
                                       PackTurn::rot270};
  const Source again = packed(source, {.samples_per_shard = 7, .expand = turns}, folder.path());
  DataOptions another = source.options;  // with its own split, which copies would cross
  another.format = format_named("packed");
  another.root = folder.path();
  CHECK(holds(error_of(78, [&] { open_dataset(another, Task::from_format, 1); }), "leave data.split out"));
  CHECK(training_digits(again.dataset, again.split) == training_digits(source.dataset, source.split));
  CHECK(again.split.train.size() == 6 * source.split.train.size());
  CHECK(again.split.valid.size() == source.split.valid.size());
  std::set<uint64_t> ids;
  for (const Sample& sample : again.dataset.samples) {
    ids.insert(sample.id);
    const size_t at = sample.path.find('@');
    CHECK((at == std::string::npos || sample.part == "train"));
    REQUIRE_FALSE(sample.group.empty());
    CHECK(sample.path.find(sample.group) != std::string::npos);
  }
  CHECK(ids.size() == again.dataset.samples.size());
  for (size_t i = 0; i < again.dataset.samples.size(); ++i)
    if (again.dataset.samples[i].path.ends_with("@rot90")) {
      size_t from = i;
      while (again.dataset.samples[from].path.find('@') != std::string::npos) --from;
      ImageOptions size = again.options.image;
      std::vector<float> turned(12 * 12 * 3);
      std::vector<float> stored(12 * 12 * 3);
      transform_image(read_picture(again.dataset, static_cast<int64_t>(from)), size, {.quarter_turns = 1}, turned);
      transform_image(read_picture(again.dataset, static_cast<int64_t>(i)), size, {}, stored);
      REQUIRE(turned == stored);
    }
  DataOptions broad = source.options;
  broad.image.width = 14;
  CHECK(holds(error_of(78, [&] { PackJob(source.dataset, source.split, broad, {.expand = {PackTurn::rot90}}); }),
              "square"));
  CHECK(holds(error_of(64, [&] { turn_named("rot9"); }), "did you mean 'rot90'"));
}

TEST_CASE("a shard that is there whole is kept, one that is missing, cut or of another job is not") {
  const TempFolder root;
  const TempFolder folder;
  const Source source = source_of(make_folder(root, 12), 12);
  const PackJob job = job_of(source, {.samples_per_shard = 4, .expand = {}});
  CHECK_FALSE(job.find(0, folder.path()).has_value());
  pack_into(job, folder.path());
  const std::string first = folder / job.shards()[0].file;
  const std::vector<std::byte> whole = read_file(first);
  const auto found = job.find(0, folder.path());
  REQUIRE(found.has_value());
  CHECK(found->records == 4);
  CHECK(found->bytes == static_cast<int64_t>(whole.size()));
  std::filesystem::resize_file(first, whole.size() / 2);
  CHECK_FALSE(job.find(0, folder.path()).has_value());
  job.write(0, folder.path(), 2, [](int64_t) {});
  CHECK((read_file(first) == whole));
  const PackJob other = job_of(source, {.samples_per_shard = 4, .expand = {}, .codec = PackedCodec::deflate});
  CHECK(other.manifest().job != job.manifest().job);
  CHECK_FALSE(other.find(0, folder.path()).has_value());
}

TEST_CASE("classes of packed masks are not chosen among") {
  const TempFolder root;
  const TempFolder folder;
  pack_into(job_of(source_of(make_masks(root, 12), 12), {.samples_per_shard = 4, .expand = {}}), folder.path());
  DataOptions options = options_for("packed", folder.path());
  options.classes = {"2", "1"};
  CHECK(holds(error_of(78, [&] { open_dataset(options, Task::segmentation, 1); }), "packed masks"));
}

TEST_CASE("an exchange file that is damaged is packed anew") {
  const TempFolder root;
  const Source source = source_of(make_folder(root, 12), 12);
  for (const PackTo to : {PackTo::tfrecord, PackTo::webdataset}) {
    const TempFolder folder;
    const PackJob job = job_of(source, {.to = to, .samples_per_shard = 4, .expand = {}});
    pack_into(job, folder.path());
    CHECK(job.find(0, folder.path()).has_value());
    const std::string file = folder / job.shards()[0].file;
    std::string bytes = read_text(file);
    bytes.resize(bytes.size() / 2);
    folder.text(job.shards()[0].file, bytes);
    CHECK_FALSE(job.find(0, folder.path()).has_value());
  }
}

TEST_CASE("a manifest with a valid checksum and impossible values is a sentence") {
  const TempFolder root;
  const TempFolder folder;
  const Source source = source_of(make_folder(root, 12), 12);
  pack_into(job_of(source, {.samples_per_shard = 4, .expand = {}}), folder.path());
  const std::string text = read_text(folder / "manifest.json");
  const auto refusal = [&](const std::string& part, const std::string& other) {
    const std::string key = "\"crc32c\": \"";
    std::string changed = text;
    REQUIRE(changed.find(part) != std::string::npos);
    changed.replace(changed.find(part), part.size(), other);
    changed.replace(changed.find(key) + key.size(), 8, "00000000");
    changed.replace(changed.find(key) + key.size(), 8, hex8(crc32c(std::as_bytes(std::span(changed)))));
    folder.text("manifest.json", changed);
    return error_of(65, [&] { read_packed_manifest(folder.path()); });
  };
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  CHECK(holds(refusal("\"version\": 1", "\"version\": " + deep), "deeper than 64 levels"));
  CHECK(holds(refusal("\"version\": 1", "\"version\": [[\"x\"]]"), "version a list"));
  CHECK(holds(refusal("\"samples_per_shard\": 4", "\"samples_per_shard\": 1e300"), "'samples_per_shard' is a number"));
  CHECK(holds(refusal("\"channels\": ", "\"channels\": -"), "'channels' is a number, where a whole number from 1"));
}

TEST_CASE("a set that is not what its manifest says is refused") {
  const TempFolder root;
  const TempFolder folder;
  const TempFolder other;
  const Source source = source_of(make_folder(root, 12), 12);
  const PackJob job = job_of(source, {.samples_per_shard = 4, .expand = {}});
  pack_into(job, folder.path());
  DataOptions options = options_for("packed", folder.path());
  const auto refused = [&](int code) { return error_of(code, [&] { open_dataset(options, Task::from_format, 1); }); };
  CHECK(holds(error_of(78, [&] { open_dataset(options, Task::multilabel, 1); }), "set task: multiclass"));
  const std::string text = read_text(folder / "manifest.json");
  std::string changed = text;
  changed[changed.find("\"dog\"") + 1] = 'f';
  folder.text("manifest.json", changed);
  CHECK(holds(refused(65), "manifest.json is damaged"));
  write_packed_manifest(job.manifest(), folder.path());
  CHECK(holds(refused(65), "not completely packed"));
  folder.text("manifest.json", text);
  const std::string file = folder / job.shards()[1].file;
  const PackJob another = job_of(source, {.samples_per_shard = 4, .expand = {PackTurn::hflip}});
  pack_into(another, other.path());
  std::filesystem::copy_file(other / another.shards()[1].file, file, std::filesystem::copy_options::overwrite_existing);
  CHECK(holds(refused(65), "is not the shard that manifest.json lists"));
  std::filesystem::remove(file);
  CHECK(holds(refused(66), job.shards()[1].file));
  std::filesystem::remove(folder / "manifest.json");
  CHECK(holds(refused(66), "dtrain pack did not write this folder"));
}

TEST_CASE("a damaged record is named when it is read, and the others are read all the same") {
  const TempFolder root;
  const TempFolder folder;
  const Source source = source_of(make_folder(root, 12), 12);
  const Source again = packed(source, {.samples_per_shard = 100, .expand = {}}, folder.path());
  const Sample& hit = again.dataset.samples[static_cast<size_t>(again.split.train[2])];
  const std::string file = folder / "train-00000-of-00001.dtpack";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(hit.place.offset + 5);
  stream.put('!');
  stream.close();
  const std::string told = error_of(65, [&] { read_picture(again.dataset, again.split.train[2]); });
  CHECK(holds(told, file + ": record 2 (" + hit.path + ") at byte "));
  CHECK(read_picture(again.dataset, again.split.train[1]).height == 12);
}

TEST_CASE("pictures are stored in data.image.size, 16 bits as 16 bits, rounded to their own depth") {
  const TempFolder root;
  const TempFolder folder;
  std::string pgm = "P5\n9 9\n65535\n";
  for (int i = 0; i < 81 * 2; ++i) pgm += static_cast<char>(i * 37);
  for (const char* name : {"a/1.pgm", "a/2.pgm", "b/3.pgm", "b/4.pgm"}) root.text(name, pgm);
  DataOptions options = options_for("image_folder", root.path());
  options.image.range_high = 4095;
  const Source exact = source_of(options, 9);
  const StoredSample same = stored_sample(exact.dataset, exact.options, 0);
  CHECK(same.picture.words == read_picture(exact.dataset, 0).words);
  Source small = source_of(options, 5);
  const StoredSample stored = stored_sample(small.dataset, small.options, 0);
  CHECK(stored.picture.bits == 16);
  CHECK(stored.picture.words.size() == 25);
  ImageOptions plain = small.options.image;
  plain.range_high = 0;
  const std::vector<float> expected = resized_pixels(read_picture(small.dataset, 0), plain);
  for (size_t i = 0; i < 25; ++i) CHECK(std::abs(expected[i] * 65535 - stored.picture.words[i]) <= 0.51F);
  small.options.split.valid = 0.25;
  small.split = split_dataset(small.dataset, small.options.split);
  CHECK(holds(error_of(65, [&] { packed(small, {.expand = {}, .codec = PackedCodec::jpeg}, folder.path()); }),
              "16 bits, which JPEG"));
  const PackJob exchange = job_of(small, {.to = PackTo::tfrecord, .expand = {}});
  CHECK(holds(error_of(65, [&] { exchange.write(0, folder.path(), 1, [](int64_t) {}); }), "leave --to out"));
}

TEST_CASE("what is packed for other programs is read back by dtrain's own readers") {
  const TempFolder a;
  const TempFolder b;
  const TempFolder c;
  for (const PackTo to : {PackTo::tfrecord, PackTo::webdataset})
    for (const Source& source :
         {source_of(make_folder(a, 12), 12), source_of(make_masks(b, 12), 12), source_of(make_labels(c), 10)}) {
      const TempFolder folder;
      const PackJob job = job_of(source, {.to = to, .samples_per_shard = 4, .expand = {}});
      pack_into(job, folder.path());
      DataOptions options = options_for(to == PackTo::tfrecord ? "tfrecord" : "webdataset", folder.path());
      options.image = source.options.image;
      const bool masks = source.dataset.task == Task::segmentation;
      const bool groups = source.dataset.task == Task::multilabel;
      if (masks) {
        options.tfrecord.mask = "image/segmentation/class/encoded";
        options.webdataset.mask = "seg.png";
        options.image_mask.mask_values = {{1, 1}, {2, 2}};
      } else {
        options.tfrecord.names = options.webdataset.names = source.dataset.classes;
        options.webdataset.label = "json:label";
        if (groups) options.tfrecord.group = "image/group";
        if (groups) options.webdataset.group = "json:group";
      }
      const Dataset again = open_dataset(options, source.dataset.task, 1);
      const Split split = split_dataset(again, options.split);
      REQUIRE(again.samples.size() == source.dataset.samples.size());
      REQUIRE(split.train.size() == source.split.train.size());
      for (size_t i = 0; i < split.train.size(); ++i) {
        const int64_t x = source.split.train[i];
        const int64_t y = split.train[i];
        const Sample& from = source.dataset.samples[static_cast<size_t>(x)];
        const Sample& found = again.samples[static_cast<size_t>(y)];
        CHECK(from.class_index == found.class_index);
        REQUIRE(from.labels.size() == found.labels.size());
        for (size_t k = 0; k < from.labels.size(); ++k)
          CHECK((from.labels[k] == found.labels[k] || (std::isnan(from.labels[k]) && std::isnan(found.labels[k]))));
        if (groups) CHECK(from.group == found.group);
        CHECK(read_picture(source.dataset, x).bytes == read_picture(again, y).bytes);
        if (masks) CHECK(read_mask(source.dataset, x).bytes == read_mask(again, y).bytes);
      }
    }
}
