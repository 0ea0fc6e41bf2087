#include "dtrain/data/formats/picture_input.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

struct Found {
  std::string root;
  std::vector<std::string> paths;
  std::vector<std::string> notes;
};

// A stack that cannot be read is one picture here; decoding it tells why.
int64_t pages_of(const std::string& path) {
  try {
    return count_pages(path);
  } catch (const Error&) {
    return 1;
  }
}

void add_file(const std::string& name, Found& found) {
  const std::string whole = (fs::path(found.root) / name).string();
  add_page_names(name, may_have_pages(name) ? pages_of(whole) : 1, found.paths);
}

std::string folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

// `folder`, where it lies beneath `root`, as a path relative to it; "" where it does not.
std::string beneath(const std::string& root, const std::string& folder) {
  std::error_code failed;
  const fs::path relative = fs::weakly_canonical(folder, failed).lexically_relative(fs::weakly_canonical(root, failed));
  const std::string text = relative.string();
  return failed || text == "." || text == ".." || text.starts_with("../") ? "" : text;
}

Found in_folder(const std::string& folder, const std::string& left_out, bool allow_links) {
  FolderScan scan = scan_folder(folder, folder, allow_links);
  const std::string own = beneath(folder, left_out);
  const auto is_own = [&](const std::string& path) { return !own.empty() && lies_in(path, own); };
  std::erase_if(scan.pictures, is_own);
  std::erase_if(scan.foreign, is_own);
  Found found{folder, std::move(scan.pictures), {}};
  if (found.paths.empty())
    throw DataError("--input '" + folder + "' holds no picture" +
                    (scan.foreign.empty() ? "" : " that can be read; convert such as " + scan.foreign.front()) +
                    "; see docs/data.md for the formats that are read");
  if (!scan.foreign.empty())
    found.notes.push_back(count_of(static_cast<int64_t>(scan.foreign.size()), "picture") +
                          " of formats that are not read left out, such as " + scan.foreign.front() +
                          "; convert them to PNG or TIFF");
  return found;
}

Found in_list(const std::string& list) {
  Found found{folder_of(list), {}, {}};
  for (const std::string& line : split_text(read_text(list, kMostTableBytes), '\n')) {
    const std::string path(trimmed(line));
    if (!path.empty()) add_file(fs::path(path).lexically_normal().string(), found);
  }
  if (found.paths.empty()) throw DataError("the list '" + list + "' names no picture; it needs one path per line");
  std::set<std::string_view> seen;
  for (const std::string& path : found.paths)
    if (!seen.insert(path).second) throw DataError("the list '" + list + "' names '" + path + "' twice");
  return found;
}

Found find(const std::string& input, const std::string& left_out, bool allow_links) {
  std::error_code failed;
  const fs::file_status status = fs::status(input, failed);
  if (status.type() == fs::file_type::not_found)
    throw MissingError("--input '" + input + "' does not exist; name a folder of pictures, a picture or a .txt list");
  if (status.type() == fs::file_type::none) throw_errno("look at", input, failed.value());
  if (status.type() == fs::file_type::directory) return in_folder(input, left_out, allow_links);
  const std::string name(base_name(input));
  if (lower_case(name).ends_with(".txt")) return in_list(input);
  if (!has_image_extension(name))
    throw DataError("--input '" + input +
                    "' is neither a folder, nor a picture by its name, nor a list of paths that ends in .txt");
  Found found{folder_of(input), {}, {}};
  add_file(name, found);
  return found;
}

}  // namespace

PictureInput open_pictures(const std::string& input, const std::string& left_out, bool allow_links,
                           const ImageOptions& size) {
  Found found = find(input, left_out, allow_links);
  PictureInput out;
  out.pictures = std::make_shared<const ListedPictures>(found.root, size);
  out.notes = std::move(found.notes);
  out.dataset.task = Task::multilabel;
  out.dataset.root = found.root;
  out.dataset.store = out.pictures;
  Sha256 sha;
  for (std::string& path : found.paths) {
    Sample sample;
    sample.path = std::move(path);
    sample.id = hash64(sample.path);
    sha.update(sample.path + '\0' + out.pictures->manifest_text(sample) + '\0');
    out.dataset.samples.push_back(std::move(sample));
  }
  out.dataset.manifest_sha256 = sha.hex_digest();
  return out;
}

std::string output_stem(const std::string& path) {
  const PicturePath parts = picture_path(path);
  std::string stem(without_ending(path));
  while (true) {
    if (stem.starts_with("/"))
      stem.erase(0, 1);
    else if (stem.starts_with("../"))
      stem.erase(0, 3);
    else
      break;
  }
  return parts.page > 0 ? stem + "#" + std::to_string(parts.page) : stem;
}

void require_own_stems(const Dataset& dataset) {
  std::map<std::string, const std::string*> owners;
  for (const Sample& sample : dataset.samples) {
    const std::string stem = output_stem(sample.path);
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
