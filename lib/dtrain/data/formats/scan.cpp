#include "dtrain/data/formats/scan.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/picture_faults.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

int64_t pages_if_readable(const std::string& path) {
  try {
    return count_pages(path);
  } catch (const Error& error) {
    if (!is_of_the_file(error)) throw;
    return 1;
  }
}

namespace {

// Never a person's: what macOS packs into an archive, and the folder of previews on some network drives.
bool is_kept_by_a_system(const std::string& name) { return name == "__MACOSX" || name == "@eaDir"; }

class Walk {
 public:
  Walk(const std::string& root, bool allow_links, NameTest wanted, AtFault at_fault)
      : root_(root), allow_links_(allow_links), wanted_(wanted), at_fault_(at_fault) {}

  FolderScan run(const std::string& folder) {
    follow(folder, true);
    enter(folder, "");
    std::sort(scan_.pictures.begin(), scan_.pictures.end(), natural_less);
    return std::move(scan_);
  }

 private:
  void enter(const std::string& folder, const std::string& prefix) {
    open_.push_back(folder);
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) visit(*entry, prefix);
    if (error) throw_errno("read the folder", folder, error.value());
    open_.pop_back();
  }

  void visit(const fs::directory_entry& entry, const std::string& prefix) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) return;
    const bool picture = wanted_(name);
    std::error_code error;
    const bool link = entry.is_symlink(error);
    const bool folder = entry.is_directory(error);  // follows links, as the next two do
    const bool lost = link && picture && at_fault_ == AtFault::list && leads_nowhere(entry.path());
    if (link && !lost && (picture || folder)) follow(entry.path(), folder);
    if (folder && is_kept_by_a_system(name)) return;
    if (folder) return enter(entry.path().string(), prefix + name + "/");
    if (!lost && !entry.is_regular_file(error)) return;
    if (picture) {
      memory_.take(static_cast<int64_t>(sizeof(std::string) + prefix.size() + name.size()));
      add_page_names(prefix + name, may_have_pages(name) ? pages_of(entry.path().string()) : 1, scan_.pictures);
    } else {
      ++scan_.others;
      if (!foreign_image_extension(name).empty()) scan_.foreign.push_back(prefix + name);
    }
  }

  static bool leads_nowhere(const fs::path& link) {
    std::error_code error;
    return fs::status(link, error).type() == fs::file_type::not_found;
  }

  int64_t pages_of(const std::string& path) const {
    return at_fault_ == AtFault::list ? pages_if_readable(path) : count_pages(path);
  }

  void follow(const fs::path& link, bool folder) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (error == std::errc::permission_denied) throw_errno("follow", link.string(), error.value());
    if (error) throw MissingError("the link '" + link.string() + "' leads nowhere; remove it or restore its target");
    if (!allow_links_ && !lies_in(target.string(), canonical_root()))
      throw DataError("the link '" + link.string() + "' leads out of '" + root_ + "' to '" + target.string() +
                      "'; set data.allow_links: true if this is intended");
    if (!folder) return;
    for (const std::string& above : open_)
      if (fs::equivalent(above, target, error) && !error)
        throw DataError("the link '" + link.string() + "' leads back into a folder that contains it; remove it");
  }

  const std::string& canonical_root() {
    std::error_code error;
    if (canonical_root_.empty()) canonical_root_ = fs::canonical(root_, error).string();
    if (error) throw_errno("follow", root_, error.value());
    return canonical_root_;
  }

  std::string root_;
  std::string canonical_root_;
  bool allow_links_;
  NameTest wanted_;
  AtFault at_fault_;
  std::vector<std::string> open_;  // the folders from the start down to the current one
  FolderScan scan_;
  MemoryDraw memory_{"the list of files under " + root_, "use fewer files"};
};

}  // namespace

FolderScan scan_folder(const std::string& root, const std::string& folder, bool allow_links, NameTest wanted,
                       AtFault at_fault) {
  return Walk(root, allow_links, wanted, at_fault).run(folder);
}

FolderScan scan_beneath(const std::string& root, const std::string& relative, bool allow_links) {
  const bool outside = relative == ".." || relative.starts_with("../");
  const std::string whole = relative.empty() ? root : (fs::path(root) / relative).lexically_normal().string();
  return scan_folder(outside ? whole : root, whole, allow_links);
}

void refuse_lost(const FolderScan& scan, const std::string& folder) {
  std::vector<std::string> foreign;
  std::set<std::string_view> read;
  if (!scan.foreign.empty())
    for (const std::string& name : scan.pictures) read.insert(without_ending(name));
  for (const std::string& name : scan.foreign)
    if (!read.contains(name.substr(0, name.size() - foreign_image_extension(name).size()))) foreign.push_back(name);
  if (foreign.empty()) return;
  std::sort(foreign.begin(), foreign.end(), natural_less);
  std::map<std::string, int64_t> counts;
  for (const std::string& name : foreign) ++counts[foreign_image_extension(name)];
  std::vector<std::string> kinds;
  for (const auto& [ending, count] : counts) kinds.push_back(with_commas(count) + " of " + ending);
  throw DataError("'" + folder + "' holds " + count_of(static_cast<int64_t>(foreign.size()), "picture") +
                  " of formats that are not read (" + join(kinds, ", ") + "), such as " + foreign.front() +
                  "; convert them to PNG or TIFF, or move them out of data.root");
}

void require_plain_name(const std::string& name, const std::string& what, const std::string& advice) {
  if (is_printable(name)) return;
  bool utf8 = true;
  for (size_t at = 0, length = 0; utf8 && at < name.size(); at += length) {
    length = utf8_length(std::string_view(name).substr(at));
    utf8 = length > 0;
  }
  throw DataError(what + " '" + printable(name) + "' " +
                  (utf8 ? "holds characters that control a terminal or the direction of writing" : "is not UTF-8") +
                  "; " + advice);
}

static std::vector<std::string> some_folders(const std::string& folder, bool left_out) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    const bool out = name.starts_with('.') || is_kept_by_a_system(name);
    if (out == left_out && entry->is_directory(ignored)) names.push_back(name);
  }
  if (error) throw_errno("read the folder", folder, error.value());
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

std::vector<std::string> folders_in(const std::string& folder) { return some_folders(folder, false); }

std::vector<std::string> folders_left_out(const std::string& folder) { return some_folders(folder, true); }

bool is_beside_the_data(const std::string& name) {
  const std::string word = lower_case(name);
  return name.starts_with('.') || is_kept_by_a_system(name) || word == "thumbs" || word == "thumbnails";
}

void require_root(const std::string& root) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found)
    throw MissingError("data.root '" + root + "' does not exist; set data.root to the folder of the data set");
  if (error) throw_errno("read data.root", root, error.value());
  if (status.type() != fs::file_type::directory)
    throw DataError("data.root '" + root + "' is a file; set data.root to the folder of the data set");
}

}  // namespace dtrain
