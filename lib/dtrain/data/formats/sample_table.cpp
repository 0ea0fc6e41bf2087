#include "dtrain/data/formats/formats.hpp"

namespace dtrain {

void SampleTable::add(Sample sample, int64_t beside) {
  const auto text_bytes = [](const std::string& text) { return text.size() < 16 ? size_t{0} : text.size() + 17; };
  size_t bytes = 2 * sizeof sample;  // a vector that grows may have room for twice as many
  for (const std::string* text : {&sample.path, &sample.group, &sample.part}) bytes += text_bytes(*text);
  // NOLINTNEXTLINE(bugprone-sizeof-container): the object itself and its letters
  for (const std::string& mask : sample.masks) bytes += sizeof mask + text_bytes(mask);
  bytes += sample.labels.size() * sizeof(float) + sample.mask_places.size() * sizeof(RecordPlace);
  memory_.take(static_cast<int64_t>(bytes) + beside);
  samples_.push_back(std::move(sample));
}

}  // namespace dtrain
