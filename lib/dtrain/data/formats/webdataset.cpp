#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/record_labels.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/io/records/tar.hpp"

namespace dtrain {

const DataFormat& webdataset_format();

namespace {

/// The members of one archive that share a key.
struct Group {
  std::string key;
  std::vector<std::pair<std::string, TarMember>> members;  // by extension

  const TarMember* find(const std::string& extension) const {
    for (const auto& [name, member] : members)
      if (name == extension) return &member;
    return nullptr;
  }
};

// A file .png or .cls has no name before its dot. Names such as ._1.png, which macOS leaves, are no samples.
void require_name(const ByteWindow& bytes, const TarMember& member, const WebDatasetOptions& names) {
  const std::string base = lower_case(member.name.substr(member.name.rfind('/') + 1));
  std::vector<std::string> wanted = names.image;
  wanted.push_back(names.mask.empty() ? names.label.substr(0, names.label.find(':')) : names.mask);
  for (const std::string& extension : wanted)
    if (base == "." + lower_case(extension))
      throw DataError(bytes.path() + " holds '" + member.name + "' at byte " + with_commas(member.offset) +
                      ": a sample needs a name before the dot; make the archive again with one");
}

std::vector<Group> member_groups(ByteWindow& bytes, const WebDatasetOptions& names) {
  constexpr size_t kMost = 1000;  // members of one sample; more are certainly several samples
  TarWalk walk(bytes);
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> places;
  MemoryDraw memory("the index of " + bytes.path(), "cut it into several archives");
  while (const auto member = walk.next()) {
    const auto name = webdataset_name(member->name);
    if (!name) require_name(bytes, *member, names);
    if (!name) continue;
    const auto [place, first] = places.emplace(name->key, groups.size());
    if (first) groups.push_back({name->key, {}});
    memory.take(static_cast<int64_t>((first ? 2 * name->key.size() + 200 : 0) + member->name.size() + 160));
    Group& group = groups[place->second];
    if (const TarMember* other = group.find(name->extension); other != nullptr)
      throw DataError(bytes.path() + " holds '" + member->name + "' twice, at bytes " + with_commas(other->offset) +
                      " and " + with_commas(member->offset));
    if (group.members.size() == kMost)
      throw DataError(
          bytes.path() + " holds more than 1,000 files of the key '" + group.key + "', '" + member->name +
          "' at byte " + with_commas(member->offset) +
          " among them; a sample's key is its name up to the first dot, so its number must come before that");
    group.members.emplace_back(name->extension, *member);
  }
  return groups;
}

/// "json:label" → extension and field; "cls" → extension alone.
struct Source {
  explicit Source(const std::string& text)
      : extension(lower_case(text.substr(0, text.find(':')))),
        field(text.find(':') == std::string::npos ? "" : text.substr(text.find(':') + 1)) {}
  std::string extension;
  std::string field;
};

/// One archive that is being read.
class Archive {
 public:
  Archive(const RecordFile& file, std::string name, int64_t number)
      : bytes_(file), name_(std::move(name)), number_(number) {}

  ByteWindow& bytes() { return bytes_; }
  RecordPlace place(const TarMember& member) const { return {number_, 0, member.offset, member.size, 0}; }
  std::string path(const TarMember& member) const { return name_ + "/" + member.name; }

  const TarMember& member(const Group& group, const std::string& extension, const std::string& key) const {
    if (const TarMember* found = group.find(extension); found != nullptr) return *found;
    std::vector<std::string> extensions;
    for (const auto& [name, member] : group.members) extensions.push_back("." + name);
    throw DataError(bytes_.path() + ": the sample '" + group.key + "' at byte " +
                    with_commas(group.members[0].second.header) + " has no ." + extension + ", which data.webdataset." +
                    key + " names; it has " + join(extensions, ", ") + ": name one of these there, or add the file");
  }

  FieldValues values(const Group& group, const Source& source, const std::string& key) {
    constexpr int64_t kMost = int64_t{1} << 20;
    const TarMember& found = member(group, source.extension, key);
    const std::string name = bytes_.path() + "/" + found.name + " at byte " + with_commas(found.offset);
    if (found.size > kMost) throw DataError(name + " has more than 1 MiB, the most that is read of a label or a group");
    const auto raw = bytes_.at(found.offset, found.size);
    const std::string text(reinterpret_cast<const char*>(raw.data()), raw.size());
    if (!source.field.empty()) return json_field(text, source.field, name);
    FieldValues values;
    for (const std::string& line : split_text(text, '\n'))
      if (const auto word = trimmed(line); !word.empty()) values.texts.emplace_back(word);
    return values;
  }

 private:
  ByteWindow bytes_;
  std::string name_;
  int64_t number_;
};

const TarMember* picture_of(const Group& group, const std::vector<std::string>& extensions) {
  for (const std::string& extension : extensions)
    if (const TarMember* found = group.find(lower_case(extension)); found != nullptr) return found;
  return nullptr;
}

/// The archives as a store: a sample's picture and mask are members of its archive.
class TarSet final : public RecordSet {
 public:
  using RecordSet::RecordSet;

 private:
  RecordFile open_file(const std::string& path, int64_t room) const override { return open_tar_file(path, room); }

  std::vector<std::byte> bytes_of(const StoredFile& stored) const override {
    std::vector<std::byte> bytes(static_cast<size_t>(stored.place.size));
    open(stored.place.file)->read(stored.place.offset, bytes);
    return bytes;
  }

  std::string name_of(const StoredFile& stored) const override {
    return whole_path(stored.path) + " at byte " + with_commas(stored.place.offset);
  }
};

bool is_tar_name(const std::string& file) {
  const std::string name = lower_case(file);
  return name.ends_with(".tar") || name.ends_with(".tar.gz") || name.ends_with(".tgz");
}

constexpr size_t kMostEndings = 8;  // named in a message

// For archives whose members do not have the configured names.
[[noreturn]] void refuse_endings(const DataOptions& options, const std::string& label,
                                 const std::set<std::string>& endings) {
  const WebDatasetOptions& names = options.webdataset;
  const std::string others = label.empty() ? "" : names.mask.empty() ? " and .label" : " and .mask";
  throw DataError("data.root '" + options.root + "' holds no sample: a key ends at the first dot of a name, and no ." +
                  join(names.image, ", .") + (label.empty() ? "" : " or ." + label) +
                  " follows one; the members end in " + join({endings.begin(), endings.end()}, ", ") +
                  (endings.size() == kMostEndings ? " …" : "") + ": name such endings with data.webdataset.image" +
                  others + ", or write names without a dot before them");
}

// A sample for each group with a picture, which `fill` adds its labels to; it gives the bytes of what it keeps of them
// beside the table. Groups without one are refused if they have `label`, an extension; "": all are left out. The names
// of the archives.
template <typename Fill>
std::vector<std::string> walk_archives(const DataOptions& options, const std::string& label, Dataset& dataset,
                                       const Fill& fill) {
  const WebDatasetOptions& names = options.webdataset;
  const auto records = std::make_shared<const TarSet>(
      options, find_record_files(options, is_tar_name, "tar archive: their names end in .tar, .tar.gz or .tgz"));
  dataset.store = records;
  SampleTable table(dataset);
  int64_t others = 0;
  std::set<std::string> endings;  // some of theirs, for the message
  int64_t bytes_of_archives = 0;
  for (size_t number = 0; number < records->files().size(); ++number) {
    const std::shared_ptr<const RecordFile> file = records->open(static_cast<int64_t>(number));
    Archive archive(*file, records->files()[number], static_cast<int64_t>(number));
    bytes_of_archives += file->size();
    for (const Group& group : member_groups(archive.bytes(), names)) {
      const TarMember* picture = picture_of(group, names.image);
      if (picture == nullptr && (label.empty() || group.find(label) == nullptr)) {
        ++others;
        for (const auto& [extension, member] : group.members)
          if (endings.size() < kMostEndings) endings.insert("." + extension);
        continue;
      }
      if (picture == nullptr) picture = &archive.member(group, join(names.image, " or ."), "image");
      Sample sample;
      sample.path = archive.path(*picture);
      sample.place = archive.place(*picture);
      const int64_t beside = fill(archive, group, sample);
      table.add(std::move(sample), beside);
    }
  }
  if (dataset.samples.empty() && others > 0) refuse_endings(options, label, endings);
  dataset.notes.push_back(count_of(static_cast<int64_t>(records->files().size()), "tar archive") + ", " +
                          with_commas(static_cast<int64_t>(dataset.samples.size())) + " samples, " +
                          with_commas(bytes_of_archives) + " bytes");
  if (others > 0)
    dataset.notes.push_back(count_of(others, "group") + " without " +
                            (label.empty() ? "picture" : "picture and label") + " left out");
  return records->files();
}

void read_webdataset(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  const WebDatasetOptions& names = options.webdataset;
  const Source label(names.mask.empty() ? names.label : names.mask);
  const Source group_source(names.group);
  std::vector<FieldValues> labels;
  const auto fill = [&](Archive& archive, const Group& group, Sample& sample) -> int64_t {
    if (!names.group.empty()) {
      const FieldValues values = archive.values(group, group_source, "group");
      if (values.texts.size() != 1)
        throw DataError(sample.path + ": data.webdataset.group wants one value, and there are " +
                        std::to_string(values.texts.size()));
      sample.group = values.texts[0];
    }
    if (names.mask.empty()) {
      labels.push_back(archive.values(group, label, "label"));
      return bytes_of(labels.back());
    }
    const TarMember& mask = archive.member(group, label.extension, "mask");
    sample.masks = {archive.path(mask)};
    sample.mask_places = {archive.place(mask)};
    return 0;
  };
  const std::vector<std::string> files = walk_archives(options, label.extension, dataset, fill);
  finish_records(options, names.names, labels, files, dataset);
}

void list_archive_pictures(const DataOptions& options, Dataset& dataset) {
  walk_archives(options, "", dataset, [](Archive&, const Group&, Sample&) { return int64_t{0}; });
}

// --- which members may be what

/// Of an archive's first members.
struct Members {
  std::map<std::string, int64_t> extensions;  ///< how often each occurs
  std::vector<std::string> fields;            ///< of the first JSON file: those that can hold labels
};

std::vector<std::string> label_fields(const std::string& text) {
  std::vector<std::string> fields;
  const nlohmann::json json = try_parse_json(text);
  if (!json.is_object()) return fields;
  for (const auto& [field, value] : json.items())
    if (value.is_string() || value.is_number_integer() || (value.is_array() && !value.empty() && !value[0].is_object()))
      fields.push_back(field);
  return fields;
}

Members members_of(const std::string& path, int64_t room) {
  constexpr int kMembers = 3000;
  constexpr int64_t kMostOfJson = int64_t{1} << 20;
  const RecordFile file = open_tar_file(path, room);
  ByteWindow bytes(file);
  TarWalk walk(bytes);
  Members members;
  std::optional<TarMember> json;
  for (int i = 0; i < kMembers; ++i) {
    const auto member = walk.next();
    if (!member) break;
    const auto name = webdataset_name(member->name);
    if (!name) continue;
    ++members.extensions[name->extension];
    if (name->extension == "json" && !json && member->size <= kMostOfJson) json = member;
  }
  if (!json) return members;
  const auto raw = bytes.at(json->offset, json->size);
  members.fields = label_fields({reinterpret_cast<const char*>(raw.data()), raw.size()});
  return members;
}

std::vector<Reading> webdataset_readings(const FolderLook& look) {
  const auto first_file = std::find_if(look.others.begin(), look.others.end(), is_tar_name);
  if (first_file == look.others.end()) return {};
  Reading first = reading_of(webdataset_format(), look.root, look);
  first.family = "members of the archives";
  first.question = "which ending is the label's";
  first.sees = "tar archives in WebDataset's layout";
  first.likelihood = 80;
  Members members;
  try {
    const std::string path = is_file(look.root) ? look.root : whole_folder(look, *first_file);
    members = members_of(path, first.options.loader.decompressed_mb * 1'000'000);
  } catch (const Error&) {
    return {first};  // opening it says what is wrong
  }
  WebDatasetOptions& names = first.options.webdataset;
  std::vector<std::string> pictures;
  std::vector<std::string> labels;
  for (const std::string& field : members.fields)
    (sounds_like_patients(field) ? names.group : labels.emplace_back()) = "json:" + field;
  for (const auto& [extension, count] : members.extensions) {
    const std::string kind = extension.substr(0, extension.find('.'));
    if (extension == "json" && !members.fields.empty()) continue;
    if (!has_image_extension("x." + extension))
      labels.push_back(extension);
    else if (extension != kind && sounds_like_masks(kind))
      names.mask = extension;
    else
      pictures.push_back(extension);
  }
  const auto usual = [&](const std::string& extension) {
    return std::count(names.image.begin(), names.image.end(), extension) > 0;
  };
  if (!pictures.empty() && std::none_of(pictures.begin(), pictures.end(), usual)) names.image = pictures;
  if (!names.mask.empty() || labels.empty() || members.extensions.contains(names.label)) return {first};
  std::vector<Reading> all;
  for (const std::string& label : labels) {
    Reading reading = first;
    reading.options.webdataset.label = label;
    reading.decides = {"data.webdataset.label"};
    reading.trust = labels.size() == 1 ? Reading::Trust::offered : Reading::Trust::asked;
    all.push_back(std::move(reading));
  }
  return all;
}

}  // namespace

/// *.tar, *.tar.gz and *.tgz at any depth; members with one key (their path up to the first dot of the last part) are
/// one sample, wherever they are in the archive; a sample's path is FILE/MEMBER. Root may be one such file, of any
/// name. Files whose names begin with train and with val, valid, validation or test, or differ in these words alone,
/// are the parts, like folders.
const DataFormat& webdataset_format() {
  static const DataFormat kFormat = {
      .name = "webdataset",
      .wants = "tar archives of pictures and labels",
      .task_default = "segmentation with a `mask`, else multiclass",
      .tasks = tasks_of_records,
      .open = read_webdataset,
      .check = [](const DataOptions& options, Task, KeyReport& report) { check_records(options, report); },
      .readings = webdataset_readings,
      .class_names = [](const DataOptions& options) { return record_classes(options, options.webdataset.names); },
      .class_count = [](const DataOptions& options) { return record_class_count(options, options.webdataset.names); },
      .class_keys = {"data.webdataset.names"},
      .classes_told_by = "the record files",
      .record_files = true,
      .is_record_file = is_tar_name,
      .list_pictures = list_archive_pictures,
      .has_masks = [](const DataOptions& options) { return !options.webdataset.mask.empty(); },
      .masks_key = "data.webdataset.mask",
      .group_key = "data.webdataset.group",
  };
  return kFormat;
}

}  // namespace dtrain
