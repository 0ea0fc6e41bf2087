#include <filesystem>

#include "dtrain/data/formats/formats.hpp"
#include "input.hpp"

using namespace dtrain;

// dataset.json of nnU-Net's layout, beside two cases. What is accepted has classes from 1 on, without a gap.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::InputFile file("dataset.json");
  static const bool made = [] {
    for (const char* name : {"imagesTr/a_0000.png", "imagesTr/b_0000.png", "labelsTr/a.png", "labelsTr/b.png"}) {
      const std::filesystem::path path = file.folder() + "/" + name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << "a picture";
    }
    return true;
  }();
  return fuzz::read_or_refuse([&] {
    file.write(fuzz::text_of(data, size));
    DataOptions options;
    options.root = file.folder();
    Dataset dataset;
    dataset.task = Task::segmentation;
    dataset.root = options.root;
    read_nnunet(options, dataset);
    check(made && dataset.samples.size() == 2, "both cases are read");
    check(!dataset.classes.empty() && dataset.classes.size() == dataset.mask_values.size(), "every class has a value");
  });
}
