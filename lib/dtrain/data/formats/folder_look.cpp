#include <algorithm>
#include <filesystem>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostTables = 16;
constexpr int64_t kMostBytes = int64_t{1} << 28;  // of a table; ChestX-ray14's has 8 MB

bool any_file(const std::string& /*name*/) { return true; }

FolderScan every_file(const std::string& root, std::string& links_out) {
  try {
    return scan_folder(root, root, false, any_file);
  } catch (const DataError& error) {  // a link that leads out, or in a circle, which is thrown again
    links_out = error.what();
    return scan_folder(root, root, true, any_file);
  }
}

size_t depth_of(const std::string& path) { return static_cast<size_t>(std::count(path.begin(), path.end(), '/')); }

void read_tables(std::vector<std::string> files, FolderLook& look) {
  std::stable_sort(files.begin(), files.end(),
                   [](const std::string& a, const std::string& b) { return depth_of(a) < depth_of(b); });
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string path = whole_folder(look, files[i]);
    try {
      if (i >= kMostTables) throw DataError(files[i] + " was not read: there are more than 16 tables");
      look.tables.push_back(CsvTable::read(path, kMostBytes));
    } catch (const Error& error) {
      look.unread.emplace_back(error.what());
    }
  }
}

}  // namespace

FolderLook look_at_folder(const std::string& path) {
  FolderLook look;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found)
    throw MissingError("'" + path + "' does not exist; name the folder of the data set");
  if (failed) throw_errno("look at", path, failed.value());
  look.root = fs::canonical(path).string();
  if (status.type() != fs::file_type::directory) {
    look.others.push_back(look.root);
    return look;
  }
  for (std::string& file : every_file(look.root, look.links_out).pictures)
    (has_image_extension(picture_path(file).file) ? look.pictures : look.others).push_back(std::move(file));
  std::vector<std::string> tables;
  for (const std::string& file : look.others)
    if (lower_case(file).ends_with(".csv")) tables.push_back(file);
  read_tables(std::move(tables), look);
  return look;
}

std::string whole_folder(const FolderLook& look, const std::string& base) {
  return base.empty() ? look.root : (fs::path(look.root) / base).string();
}

Reading reading_of(const DataFormat& format, const std::string& root, const FolderLook& look) {
  Reading reading;
  reading.options.format = &format;
  reading.options.root = root;
  reading.options.allow_links = !look.links_out.empty();
  if (!look.links_out.empty()) reading.why["data.allow_links"] = look.links_out;
  return reading;
}

std::vector<Reading> readings_of_table(const DataFormat& format, const CsvTable& table, const FolderLook& look) {
  Reading strict = reading_of(format, look.root, look);
  strict.options.labels = table.name();
  strict.table = table.name();
  strict.family = "table " + table.name();
  strict.likelihood = 85;
  Reading lenient = strict;
  lenient.options.on_missing = OnMissing::skip;
  lenient.why["data.on_missing"] = "some rows name pictures that are not in the folder";
  return {strict, lenient};
}

std::vector<std::string> folders_with_pictures(const FolderLook& look, const std::string& base) {
  std::set<std::string> folders;
  const std::string prefix = base.empty() ? "" : base + "/";
  for (const std::string& picture : look.pictures) {
    if (!picture.starts_with(prefix)) continue;
    const size_t slash = picture.find('/', prefix.size());
    if (slash != std::string::npos) folders.insert(picture.substr(prefix.size(), slash - prefix.size()));
  }
  std::vector<std::string> sorted(folders.begin(), folders.end());
  std::sort(sorted.begin(), sorted.end(), natural_less);
  return sorted;
}

std::vector<std::string> pictures_in(const FolderLook& look, const std::string& base) {
  std::vector<std::string> found;
  const std::string prefix = base.empty() ? "" : base + "/";
  for (const std::string& picture : look.pictures)
    if (picture.starts_with(prefix)) found.push_back(picture.substr(prefix.size()));
  return found;
}

std::vector<std::string> layout_bases(const FolderLook& look) {
  std::vector<std::string> bases = {""};
  while (true) {
    const std::string& base = bases.back();
    const std::vector<std::string> folders = folders_with_pictures(look, base);
    const std::string prefix = base.empty() ? "" : base + "/";
    const bool all_deeper = std::all_of(look.pictures.begin(), look.pictures.end(), [&](const std::string& picture) {
      return picture.find('/', prefix.size()) != std::string::npos;
    });
    if (folders.size() != 1 || !all_deeper || !part_called(folders.front()).empty()) return bases;
    bases.push_back(prefix + folders.front());
  }
}

bool sounds_like_masks(std::string_view folder) {
  static const std::set<std::string> kWords = {"mask",     "label",  "gt",        "groundtruth",  "annotation",
                                               "annot",    "seg",    "truth",     "segmentation", "target",
                                               "labelstr", "manual", "1stmanual", "msk"};
  std::string word;
  for (const char c : lower_case(folder))
    if (std::string_view("_- .").find(c) == std::string_view::npos) word += c;
  const auto known = [](const std::string& text) { return kWords.contains(text); };
  return known(word) || (word.ends_with('s') && known(word.substr(0, word.size() - 1))) || word.ends_with("mask") ||
         word.ends_with("masks");
}

}  // namespace dtrain
