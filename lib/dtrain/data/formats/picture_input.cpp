#include "dtrain/data/formats/picture_input.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/label_rows.hpp"
#include "dtrain/data/formats/picture_channels.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/store/channel_files.hpp"
#include "dtrain/data/store/file_store.hpp"
#include "dtrain/data/store/picture_faults.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostLookedAt = 16;  // that are looked at; records' names end in numbers

struct Found {
  std::string root;
  std::vector<std::string> paths;
  std::vector<std::string> left_out;
  const DataFormat* records = nullptr;  // instead of paths: of the record files that the input is
  std::string listed_in = "";           // the list or table that names the paths
};

void add_file(const std::string& name, Found& found) {
  const std::string whole = (fs::path(found.root) / name).string();
  add_page_names(name, may_have_pages(name) ? pages_if_readable(whole) : 1, found.paths);
}

std::string folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The path of `folder` relative to `root`; "" if it is not inside.
std::string beneath(const std::string& root, const std::string& folder) {
  std::error_code failed;
  const fs::path relative = fs::weakly_canonical(folder, failed).lexically_relative(fs::weakly_canonical(root, failed));
  const std::string text = relative.string();
  return failed || text == "." || text == ".." || text.starts_with("../") ? "" : text;
}

// The format whose record files have such names; null for all other files.
const DataFormat* record_format(const std::string& name) {
  for (const DataFormat* format : data_formats())
    if (format->is_record_file != nullptr && format->is_record_file(name)) return format;
  return nullptr;
}

bool is_input(const std::string& name) { return has_image_extension(name) || record_format(name) != nullptr; }

[[noreturn]] void refuse_mixture(const std::string& folder, const std::string& one, const std::string& other) {
  throw DataError("--input '" + folder + "' holds record files of two kinds, such as " + one + " and " + other +
                  "; name them one after the other, each with an --output of its own");
}

// Takes the pictures out that lie in a folder for which `test` holds, and says so.
void leave_out(const std::function<bool(const std::string& folder)>& test, const std::string& what,
               std::vector<std::string>& pictures, std::vector<std::string>& said) {
  std::map<std::string, bool> known;
  std::string such;
  const auto is_in_such = [&](const std::string& path) {
    for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      const auto [folder, is_new] = known.try_emplace(path.substr(0, at), false);
      if (is_new) folder->second = test(folder->first);
      if (folder->second && such.empty()) such = folder->first;
      if (folder->second) return true;
    }
    return false;
  };
  const size_t count = std::erase_if(pictures, is_in_such);
  if (count > 0)
    said.push_back(count_of(static_cast<int64_t>(count), "picture") + " left out in " + what + ", such as " + such +
                   "/; to predict such a folder, name it with an --input of its own");
}

// What this program, or whoever drew them, has made of pictures lies among them often; it is no input.
void leave_out_masks(const std::string& root, const DataOptions& data, std::vector<std::string>& pictures,
                     std::vector<std::string>& said) {
  const auto is_prediction = [&](const std::string& folder) {
    const std::string description = root + "/" + folder + "/predict.json";
    if (!is_file(description)) return false;
    const std::vector<std::byte> bytes = read_file_start(description, 256);
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).find(kPredictionFormat) !=
           std::string_view::npos;
  };
  leave_out(is_prediction, "what dtrain predict has written", pictures, said);
  if (!has_mask_files(data)) return;
  const std::string masks = fs::path(data.image_mask.masks + "/").lexically_normal().parent_path().string();
  std::vector<std::string> others = pictures, told;
  leave_out([&](const std::string& folder) { return folder == masks || folder.ends_with("/" + masks); },
            "folders named '" + masks + "', as that of the masks in training", others, told);
  if (others.empty()) return;  // there is nothing but such
  pictures = std::move(others);
  said.insert(said.end(), told.begin(), told.end());
}

Found in_folder(const std::string& folder, const std::string& left_out, const DataOptions& data) {
  FolderScan scan = scan_folder(folder, folder, data.allow_links, is_input, AtFault::list);
  const std::string own = beneath(folder, left_out);
  const auto is_own = [&](const std::string& path) { return !own.empty() && lies_in(path, own); };
  std::erase_if(scan.pictures, is_own);
  std::erase_if(scan.foreign, is_own);
  std::vector<std::string> not_used;
  leave_out_masks(folder, data, scan.pictures, not_used);
  const auto records = std::stable_partition(scan.pictures.begin(), scan.pictures.end(),
                                             [](const std::string& name) { return record_format(name) == nullptr; });
  const std::vector<std::string> files(records, scan.pictures.end());
  scan.pictures.erase(records, scan.pictures.end());
  Found found{folder, std::move(scan.pictures), std::move(not_used)};
  if (found.paths.empty() && !files.empty()) {
    found.records = record_format(files.front());
    for (const std::string& file : files)
      if (record_format(file) != found.records) refuse_mixture(folder, files.front(), file);
    return found;
  }
  if (found.paths.empty())
    throw DataError("--input '" + folder + "' holds no picture" +
                    (scan.foreign.empty() ? "" : " that can be read; convert such as " + scan.foreign.front()) +
                    "; see docs/data.md for the formats that are read");
  if (!files.empty())
    found.left_out.push_back(count_of(static_cast<int64_t>(files.size()), "record file") +
                             " beside pictures left out, such as " + files.front() +
                             "; name them with an --input of their own");
  if (!scan.foreign.empty())
    found.left_out.push_back(count_of(static_cast<int64_t>(scan.foreign.size()), "picture") +
                             " of formats that are not read left out, such as " + scan.foreign.front() +
                             "; convert them to PNG or TIFF");
  return found;
}

void refuse_twice(const Found& found, const std::string& what) {
  std::set<std::string_view> seen;
  for (const std::string& path : found.paths)
    if (!seen.insert(path).second) throw DataError(what + " names '" + path + "' twice");
}

Found in_list(const std::string& list) {
  Found found{folder_of(list), {}, {}};
  found.listed_in = list;
  std::string text = read_text(list, kMostTableBytes);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw DataError("the list '" + list + "' is UTF-16; save it as UTF-8");
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  int64_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    ++number;
    const std::string path(trimmed(line));
    if (path.find('\0') != std::string::npos)
      throw DataError("the list '" + list + "' holds a zero byte in line " + with_commas(number) +
                      ", which no path can; it is damaged, or no list");
    if (!path.empty()) add_file(fs::path(path).lexically_normal().string(), found);
  }
  if (found.paths.empty()) throw DataError("the list '" + list + "' names no picture; it needs one path per line");
  refuse_twice(found, "the list '" + list + "'");
  return found;
}

Found in_table(const std::string& file, const std::string& wanted) {
  const CsvTable table = CsvTable::read(file, kMostTableBytes);
  const int64_t column =
      table.column(wanted.empty() ? "path" : wanted, wanted.empty() ? "the default of --column" : "--column");
  Found found{folder_of(file), {}, {}};
  found.listed_in = file;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string path = text_at(table, row, column);
    if (path.empty())
      throw DataError(file + ":" + std::to_string(table.line(row)) + " has no path in column '" +
                      table.columns()[static_cast<size_t>(column)] + "'; fill it in, or take the row out");
    add_file(fs::path(path).lexically_normal().string(), found);
  }
  if (found.paths.empty()) throw DataError("the table '" + file + "' has no row; it needs one for each picture");
  refuse_twice(found, "the table '" + file + "'");
  return found;
}

Found find(const std::string& input, const std::string& column, const std::string& left_out, const DataOptions& data) {
  std::error_code failed;
  const fs::file_status status = fs::status(input, failed);
  if (status.type() == fs::file_type::not_found)
    throw MissingError("--input '" + input +
                       "' does not exist; name a folder of pictures, a picture, a list, a table or a record file");
  if (status.type() == fs::file_type::none) throw_errno("look at", input, failed.value());
  const std::string name(base_name(input));
  const bool is_file = status.type() != fs::file_type::directory;
  const bool is_table = is_file && lower_case(name).ends_with(".csv");
  if (!column.empty() && !is_table)
    throw UsageError("--column names a column of a table, and --input '" + input +
                     "' is none: its name does not end in .csv");
  if (!is_file) return in_folder(input, left_out, data);
  if (is_table) return in_table(input, column);
  if (lower_case(name).ends_with(".txt")) return in_list(input);
  Found found{folder_of(input), {}, {}, record_format(name)};
  if (found.records != nullptr) return found;
  if (!has_image_extension(name))
    throw DataError("--input '" + input +
                    "' is by its name neither a folder, a picture, a list (.txt), a table (.csv) nor a record file");
  add_file(name, found);
  return found;
}

// One name for each picture of several files, the first, whether or not it is there: what is missing is told with it.
void keep_first_names(const ImageOptions& image, const std::string& input, Found& found) {
  const ChannelFiles channels(image.files);
  if (!channels.several() || found.records != nullptr) return;
  std::vector<std::string> others, firsts;
  std::set<std::string> seen;
  for (const std::string& path : found.paths) {
    if (channels.channel_of(path) == ChannelFiles::kNone) {
      others.push_back(path);
    } else if (std::string first = channels.sibling(path, 0); seen.insert(first).second) {
      firsts.push_back(std::move(first));
    }
  }
  const std::string key = "data.image.files " + channels.text();
  if (firsts.empty())
    throw DataError("the network was trained on pictures of " + count_of(std::ssize(image.files), "file") +
                    " each, whose names end as in " + key + ", but no name in --input '" + input + "' does, such as " +
                    others.front() + "; name files that do");
  if (!others.empty())
    found.left_out.push_back(count_of(std::ssize(others), "picture") + " left out whose names end in none of " + key +
                             ", such as " + others.front());
  found.paths = std::move(firsts);
}

void refuse_records(const ImageOptions& image, const std::string& input) {
  if (image.is_stacked())
    throw DataError("--input '" + input +
                    "' holds record files, but the network was trained on pictures of several files or pages "
                    "(data.image.files or .slices), which these do not hold; name a folder of such pictures");
}

// Every picture of the record files at options.root.
void list_records(const DataFormat& format, const DataOptions& options, PictureInput& out) {
  Dataset listed;
  listed.format = &format;
  listed.root = options.root;
  format.list_pictures(options, listed);
  if (listed.samples.empty()) throw DataError("--input '" + options.root + "' holds no record");
  out.pictures = std::make_shared<const ListedPictures>(listed.store, options.image);
  out.dataset.samples = std::move(listed.samples);
  out.notes = std::move(listed.notes);
}

// Looks at one picture of each ending: a reader that is not there is told before anything is computed.
void require_readers(const PictureInput& input) {
  std::set<std::string> endings;
  for (const Sample& sample : input.dataset.samples) {
    const std::string file = picture_path(sample.path).file;
    if (!endings.insert(file.substr(without_ending(file).size())).second) continue;
    if (endings.size() > kMostLookedAt) return;
    try {
      input.pictures->header(sample);
    } catch (const Error& error) {
      if (!is_of_the_file(error)) throw_of_the_machine(error);
    }
  }
}

}  // namespace

PictureInput open_pictures(const std::string& input, const std::string& column, const std::string& left_out,
                           const DataOptions& data) {
  Found found = find(input, column, left_out, data);
  keep_first_names(data.image, input, found);
  PictureInput out;
  out.left_out = std::move(found.left_out);
  out.dataset.task = Task::multilabel;
  out.dataset.root = found.root;
  if (found.records != nullptr) {
    refuse_records(data.image, input);
    DataOptions options = data;
    options.root = input;
    list_records(*found.records, options, out);
  } else {
    out.pictures =
        std::make_shared<const ListedPictures>(std::make_shared<const FileStore>(found.root, data.image), data.image);
    SampleTable table(out.dataset);
    std::set<std::string> folders;
    for (std::string& path : found.paths) {
      folders.insert(folder_of(path));
      Sample sample;
      sample.path = std::move(path);
      table.add(std::move(sample));
    }
    if (data.image.slices > 1 && !holds_stacks(out.dataset))
      out.notes.push_back("none of the pictures is a page of a stack: each is shown in all " +
                          std::to_string(data.image.slices) + " channels of the network");
    out.notes.push_back(count_of(static_cast<int64_t>(out.dataset.samples.size()), "picture") + " from " +
                        count_of(static_cast<int64_t>(folders.size()), "folder") +
                        (found.listed_in.empty() ? "" : ", as '" + found.listed_in + "' names them"));
  }
  out.dataset.store = out.pictures;
  require_readers(out);
  Sha256 sha, stamps;
  bool any = found.listed_in.empty();
  for (Sample& sample : out.dataset.samples) {
    sample.id = hash64(sample.path);
    const std::string text = out.pictures->manifest_text(sample);
    any = any || text != ListedPictures::kUnread;
    sha.update(sample.path + '\0' + text + '\0');
    stamps.update(out.pictures->stamp(sample) + '\0');
  }
  if (!any)
    throw MissingError("none of the " + count_of(std::ssize(out.dataset.samples), "picture") + " that '" +
                       found.listed_in + "' names can be found, such as " +
                       out.pictures->picture_name(out.dataset.samples.front()) +
                       "; paths are relative to its folder, or absolute");
  out.dataset.manifest_sha256 = sha.hex_digest();
  out.stamps_sha256 = stamps.hex_digest();
  return out;
}

std::string output_stem(const std::string& path) {
  const PicturePath parts = picture_path(path);
  const std::vector<std::string> names = split_text(without_ending(path), '/');
  std::string stem;
  for (size_t i = 0; i + 1 < names.size(); ++i)
    if (!names[i].empty() && names[i] != "." && names[i] != "..") stem += names[i] + "/";
  stem += names.back();
  return parts.page > 0 ? stem + "#" + std::to_string(parts.page) : stem;
}

// Of files while they are written: MASK.tmp.
static bool is_too_long(const std::string& stem) {
  constexpr size_t kMost = 255;  // bytes of a name, on nearly all file systems
  const std::string path = stem + std::string(kMaskEnding) + ".tmp";
  const std::vector<std::string> names = split_text(path, '/');
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.size() > kMost; });
}

void require_own_stems(const Dataset& dataset) {
  std::map<std::string, const std::string*> owners;
  for (const Sample& sample : dataset.samples) {
    const std::string stem = output_stem(sample.path);
    if (is_too_long(stem)) throw DataError("the name '" + sample.path + "' is too long to name a mask by; rename it");
    const auto [found, is_new] = owners.emplace(stem, &sample.path);
    if (!is_new)
      throw DataError("'" + *found->second + "' and '" + sample.path + "' would both be written as " + stem +
                      std::string(kMaskEnding) +
                      "; rename one of them, or predict them separately into different folders");
  }
  for (const auto& [stem, path] : owners)
    for (size_t at = stem.find('/'); at != std::string::npos; at = stem.find('/', at + 1))
      if (const std::string above = stem.substr(0, at);
          above.ends_with(kMaskEnding) && owners.contains(above.substr(0, above.size() - kMaskEnding.size())))
        throw DataError("'" + *owners.at(above.substr(0, above.size() - kMaskEnding.size())) +
                        "' would be written as " + above + ", which is the folder of '" + *path +
                        "'; rename one of them");
}

}  // namespace dtrain
