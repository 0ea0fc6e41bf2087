#include <algorithm>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/data/format.hpp"
#include "dtrain/data/reading.hpp"

namespace dtrain {

// Each is defined beside its reader; add a new one here and to the list below.
const DataFormat& nih_cxr14_format();
const DataFormat& chexpert_format();
const DataFormat& csv_format();
const DataFormat& image_mask_format();
const DataFormat& synthetic_format();
const DataFormat& tfrecord_format();
const DataFormat& webdataset_format();
const DataFormat& packed_format();

const std::vector<const DataFormat*>& data_formats() {
  static const std::vector<const DataFormat*> kAll = {&image_folder_format(), &nih_cxr14_format(),  &chexpert_format(),
                                                      &csv_format(),          &image_mask_format(), &synthetic_format(),
                                                      &tfrecord_format(),     &webdataset_format(), &packed_format()};
  return kAll;
}

std::vector<Reading> all_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const DataFormat* format : data_formats())
    if (format->readings != nullptr)
      for (Reading& reading : format->readings(look)) all.push_back(std::move(reading));
  std::stable_sort(all.begin(), all.end(),
                   [](const Reading& a, const Reading& b) { return a.likelihood > b.likelihood; });
  return all;
}

template <typename Test>
static const DataFormat* first_format(Test test) {
  const auto found = std::find_if(data_formats().begin(), data_formats().end(), test);
  check(found != data_formats().end(), "there is such a format");
  return *found;
}

const DataFormat* format_named(const std::string& name) {
  return first_format([&](const DataFormat* format) { return format->name == name; });
}

const DataFormat* generated_format() {
  return first_format([](const DataFormat* format) { return format->generated; });
}

}  // namespace dtrain
