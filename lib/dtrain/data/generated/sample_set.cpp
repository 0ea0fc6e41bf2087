#include "dtrain/data/generated/sample_set.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLabelFile = "Data_Entry_2017_v2020.csv";
constexpr const char* kHeader =
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n";
// Not atomic: the folder was empty, and a sync for each of hundreds of small files is slow.
void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw_errno("write", path, errno == 0 ? EIO : errno);
}

void write_text(const std::string& path, const std::string& text) { write_bytes(path, std::as_bytes(std::span(text))); }

std::string numbered(const char* format, int64_t a, int64_t b = 0) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, static_cast<long long>(a), static_cast<long long>(b));
  return buffer;
}

void require_empty(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory)
    throw UsageError("--output '" + folder + "' is a file; name a folder that is new or empty");
  const bool empty = fs::is_empty(folder, error);
  if (error) throw_errno("read the folder", folder, error.value());
  if (!empty) throw UsageError("--output '" + folder + "' is not empty; name a folder that is new or empty");
}

/// The finding numbers of each picture: none for three of five pictures; the others get the findings in turn, and some
/// of them a second and a third.
std::vector<std::vector<int64_t>> draw_findings(int64_t count, uint64_t seed) {
  std::vector<std::vector<int64_t>> findings(static_cast<size_t>(count));
  const std::vector<int64_t> order = keyed_permutation(count, seed, Purpose::sample_set, 0);
  KeyedRandom random(seed, Purpose::sample_set, 1, 1);
  for (int64_t i = 0; i < count * 2 / 5; ++i) {
    std::vector<int64_t>& own = findings[static_cast<size_t>(order[static_cast<size_t>(i)])];
    own.push_back(i % 14);
    for (int64_t step : {1, 2})
      if (random.chance(0.3)) own.push_back((i + step * (1 + static_cast<int64_t>(random.below(6)))) % 14);
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
  }
  return findings;
}

// How a set is made: where, how large, on how many threads.
struct SetJob {
  std::string folder;
  int64_t count;
  uint64_t seed;
  PictureSize size;
  size_t threads;

  void each(const std::function<void(int64_t)>& make) const {
    run_in_parallel(static_cast<size_t>(count), threads, [&](size_t i) { make(static_cast<int64_t>(i)); });
  }
};

void write_xray(const SetJob& job) {
  struct Visit {
    int64_t patient;
    int64_t visit;
    std::string file;
  };
  make_folders(job.folder + "/images");
  const auto findings = draw_findings(job.count, job.seed);
  KeyedRandom random(job.seed, Purpose::sample_set, 2, 1);
  const std::string pixels = "," + std::to_string(job.size.width) + "," + std::to_string(job.size.height);
  std::string table = kHeader;
  std::vector<Visit> all;
  int64_t patient = 0;
  int64_t visit = 0;
  int64_t visits = 0;
  std::string person;
  for (const std::vector<int64_t>& own : findings) {
    if (visit == visits) {
      ++patient;
      visit = 0;
      visits = 1 + static_cast<int64_t>(random.below(4));
      person = std::to_string(20 + random.below(60)) + (random.chance(0.5) ? ",M" : ",F");
    }
    all.push_back({patient, visit, numbered("%08lld_%03lld.png", patient, visit)});
    std::vector<std::string> labels;
    for (int64_t finding : own) labels.push_back(nih_findings()[static_cast<size_t>(finding)]);
    table += all.back().file + "," + (labels.empty() ? "No Finding" : join(labels, "|")) + "," + std::to_string(visit) +
             "," + std::to_string(patient) + "," + person + ",PA" + pixels + ",0.143,0.143\n";
    ++visit;
  }
  job.each([&](int64_t i) {
    const Visit& one = all[static_cast<size_t>(i)];
    write_bytes(job.folder + "/images/" + one.file,
                encode_png(xray_picture(job.seed, one.patient, one.visit, findings[static_cast<size_t>(i)], job.size)));
  });
  write_text(job.folder + "/" + kLabelFile, table);
}

void write_chips(const SetJob& job) {
  make_folders(job.folder + "/good");
  make_folders(job.folder + "/defect");
  job.each([&](int64_t i) {
    const bool defect = i % 2 == 1;
    const bool jpeg = i / 2 % 2 == 0;
    const Image chip = chip_picture(job.seed, i, defect, job.size);
    const std::string name = numbered("/chip_%04lld", i + 1) + (jpeg ? ".jpg" : ".png");
    write_bytes(job.folder + (defect ? "/defect" : "/good") + name, jpeg ? encode_jpeg(chip) : encode_png(chip));
  });
}

void write_cells(const SetJob& job) {
  make_folders(job.folder + "/images");
  make_folders(job.folder + "/masks");
  job.each([&](int64_t i) {
    const CellPicture cells = cell_picture(job.seed, i, job.size);
    const std::string name = numbered("/cells_%04lld.png", i + 1);
    write_bytes(job.folder + "/images" + name, encode_png(cells.picture));
    write_bytes(job.folder + "/masks" + name, encode_png(cells.mask));
  });
}

struct SetKind {
  const char* name;
  int64_t count;
  PictureSize size;
  void (*write)(const SetJob& job);
  const char* config;
  const char* overrides;  // adapt the published settings to a small set
};

constexpr SetKind kKinds[] = {
    {"xray", 256, kXraySize, write_xray, "configs/chexnet.yaml",
     " 'data.image.size=[128, 128]' batch.per_rank=8 epochs=3"},
    {"chips", 400, kChipSize, write_chips, "configs/quickstart.yaml", ""},
    {"cells", 48, kCellSize, write_cells, "configs/unet_microscopy.yaml",
     " 'data.image.size=[128, 160]' batch.per_rank=4 epochs=20"},
};

}  // namespace

SampleSetReport write_sample_set(const std::string& kind, const std::string& folder, int64_t count, uint64_t seed,
                                 PictureSize size, size_t threads) {
  if (count < 0) throw UsageError("--count wants 1 or more, not " + std::to_string(count));
  const bool own_size = size.height == 0 && size.width == 0;
  const auto fits = [](int64_t side) { return side >= 16 && side <= 8192; };
  if (!own_size && !(fits(size.height) && fits(size.width)))
    throw UsageError("--size wants height and width from 16 to 8192, not " + std::to_string(size.height) + "," +
                     std::to_string(size.width));
  std::vector<std::string> names;
  for (const SetKind& known : kKinds) {
    names.emplace_back(known.name);
    if (kind != known.name) continue;
    require_empty(folder);
    const int64_t pictures = count == 0 ? known.count : count;
    known.write({folder, pictures, seed, own_size ? known.size : size, threads});
    const std::string place = fs::absolute(folder).lexically_normal().string();
    std::error_code unread;
    if (!fs::exists(known.config, unread))  // it is in the source folder, and dtrain may have been installed
      return {pictures, "dtrain init " + shell_word(place) + " --output config.yaml"};
    return {pictures,
            std::string("dtrain --config ") + known.config + " " + shell_word("data.root=" + place) + known.overrides};
  }
  const std::string near = nearest_word(kind, names);
  throw UsageError("--kind '" + kind + "' is not one of xray, chips, cells" +
                   (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

}  // namespace dtrain
