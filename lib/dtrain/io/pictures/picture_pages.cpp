#include "dtrain/io/pictures/picture_pages.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/byte_source.hpp"
#include "dtrain/io/pictures/dicom_frames.hpp"
#include "dtrain/io/pictures/tiff_pages.hpp"

namespace dtrain {

bool may_have_pages(const std::string& file) {
  constexpr std::array kEndings = {".tif", ".tiff", ".dcm", ".dicom"};
  const std::string lower = lower_case(file);
  return std::any_of(kEndings.begin(), kEndings.end(), [&](const char* ending) { return lower.ends_with(ending); });
}

PicturePath picture_path(const std::string& path) {
  const size_t mark = path.rfind('#');
  if (mark == std::string::npos) return {path, 0};
  int64_t page = 0;
  const char* const end = path.data() + path.size();
  const auto [stopped, error] = std::from_chars(path.data() + mark + 1, end, page);
  const bool paged = error == std::errc() && stopped == end && page > 0 && path[mark + 1] != '0';
  if (!paged || !may_have_pages(path.substr(0, mark))) return {path, 0};
  return {path.substr(0, mark), page};
}

void add_page_names(const std::string& file, int64_t pages, std::vector<std::string>& names) {
  if (pages == 1) return names.push_back(file);
  for (int64_t page = 1; page <= pages; ++page) names.push_back(file + "#" + std::to_string(page));
}

int64_t count_pages(const std::string& path) {
  const DiskSource source(path);
  if (begins_as_tiff(source)) return count_tiff_pages(source, path);
  return begins_as_dicom(source) ? count_dicom_frames(source) : 1;
}

std::vector<std::byte> read_picture_file(const std::string& path) {
  constexpr int64_t kMostPixelBytes = int64_t{2} << 30;  // more than ImageLimits permits of pixels, uncompressed
  const PicturePath place = picture_path(path);
  if (place.page == 0) return read_file(path, kMostPixelBytes);
  const DiskSource source(place.file);
  if (begins_as_tiff(source)) return tiff_page_alone(source, place.page, path);
  if (begins_as_dicom(source)) return dicom_frame_alone(source, place.page, path);
  throw DataError(path + ": " + place.file + " is neither a TIFF nor a DICOM file, which alone have pages");
}

}  // namespace dtrain
