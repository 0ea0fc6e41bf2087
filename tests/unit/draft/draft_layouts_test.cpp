// Folders as people have them: what is written opens as it was meant, or the file says what to do.
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/text.hpp"
#include "unit/data/trees.hpp"
#include "unit/draft/drafted.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

// Grey rows of one mask: its left part 0, then one stripe of each value.
Image mask_of(const std::vector<uint8_t>& values) {
  Image mask{8, 8, 1, 8, {}, {}};
  for (size_t i = 0; i < 64; ++i) mask.bytes.push_back(values[(i % 8) * values.size() / 8]);
  return mask;
}

bool says(const std::vector<DraftNote>& notes, const std::string& words) {
  return std::any_of(notes.begin(), notes.end(), [&](const DraftNote& one) { return holds(one.sentence, words); });
}

// The reading at the end, as somebody uncomments it.
std::string other_reading_of(const Draft& draft) {
  const std::vector<std::string> lines = split_text(draft.text, '\n');
  auto line = std::find_if(lines.begin(), lines.end(), [](const auto& one) { return holds(one, "Another reading"); });
  std::string text;
  for (; line != lines.end(); ++line)
    if (line->starts_with("#   ")) text += line->substr(4) + "\n";
  return text;
}

}  // namespace

TEST_CASE("trees of folders are drafted as they are meant, or asked about; no part becomes a class in silence",
          "[long]") {
  Draw draw(19);
  for (int i = 0; i < 10 * Draw::kKinds; ++i) {
    const Tree tree = draw.tree(i % Draw::kKinds);
    INFO("tree " << i << ", kind " << i % Draw::kKinds);
    const TempFolder root;
    for (const std::string& picture : tree.pictures) root.text(picture, "x");
    for (const std::string& folder : tree.empty) std::filesystem::create_directories(root / folder);
    const Draft draft = draft_configuration(root.path());
    INFO(draft.text);
    const bool asked = says(draft.to_fill_in, "which folders are parts") ||
                       says(draft.to_fill_in, "inside the classes") || says(draft.to_fill_in, "what keeps the folder");
    if (asked) {
      CHECK(tree.fault);
      continue;
    }
    const Experiment e = loaded(draft.text);
    const Dataset data = opened(e);
    for (const std::string& name : data.classes)
      CHECK((part_called(name).empty() || tree.classes.contains(name) || !draft.choices.empty()));
    if (tree.fault) continue;
    CHECK(std::set<std::string>(data.classes.begin(), data.classes.end()) == tree.classes);
    const Split split = split_dataset(data, e.data.split);
    CHECK_FALSE(split.valid.empty());
    for (const int64_t test : split.test) {
      const std::string& meant = tree.part.at(data.samples[static_cast<size_t>(test)].path);
      CHECK((meant == "test" || meant.empty()));
    }
  }
}

TEST_CASE("what the reader notes about a folder, and what was assumed, stands in the file") {
  const TempFolder root;
  for (const char* name : {"CAT/1.png", "CAT/2.png", "cat/3.png", "cat/4.png", "dog/5.png", "dog/6.png"})
    root.picture(name);
  const Draft alike = draft_configuration(root.path());
  CHECK(says(alike.choices, "'CAT', 'cat'"));
  CHECK(holds(alike.text, "# Note: classes that differ only in case"));
  std::filesystem::rename(root / "cat", root / "train");
  const Draft assumed = draft_configuration(root.path());
  CHECK(says(assumed.choices, "an assumption about which folders are parts"));
  CHECK(opened(loaded(assumed.text)).classes == std::vector<std::string>{"CAT", "dog", "train"});
}

TEST_CASE("folders of masks are found by name or by their values, and their values become classes") {
  const TempFolder root;
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i) + ".png";
    root.picture("scans/" + name, random_image(8, 8, 1, static_cast<unsigned>(i)));
    root.picture("truth/" + name, mask_of({0, 7, 9}));
  }
  const Draft draft = draft_configuration(root.path());
  CHECK(draft.to_fill_in.empty());
  const Experiment e = loaded(draft.text);
  CHECK(e.task == Task::segmentation);
  CHECK(e.data.image_mask.images == "scans");
  CHECK(e.data.image_mask.masks == "truth");
  CHECK(e.data.image_mask.mask_values == std::map<int64_t, int64_t>{{7, 1}, {9, 2}});
  CHECK(holds(draft.text, "0 in 38 %, 7 in 38 %, 9 in 25 %"));
  CHECK(opened(e).samples.size() == 6);

  std::filesystem::rename(root / "truth", root / "b");  // a name that says nothing
  const Draft unnamed = draft_configuration(root.path());
  CHECK(loaded(unnamed.text).data.image_mask.masks == "b");
  CHECK(unnamed.to_fill_in.empty());
  CHECK(loaded(other_reading_of(unnamed)).task == Task::multiclass);
  std::filesystem::create_directory(root / "c");  // which a class cannot be
  const Draft asked = draft_configuration(root.path());
  CHECK(says(asked.to_fill_in, "whether the folders are pictures and their masks"));
  CHECK(says(asked.to_fill_in, "one folder of pictures per class"));
  for (int i = 0; i < 6; ++i)  // no masks
    root.picture("b/" + std::to_string(i) + ".png", random_image(32, 32, 1, static_cast<unsigned>(90 + i)));
  const Draft refused = draft_configuration(root.path());
  CHECK(says(refused.to_fill_in, "what keeps the folder from being read as one folder of pictures per class"));
  CHECK(holds(refused.text, "format: image_folder"));
}

TEST_CASE("255 beside classes that are numbered is taken as one, and told") {
  const TempFolder root;
  for (int i = 0; i < 4; ++i) {
    root.picture("images/" + std::to_string(i) + ".png", random_image(8, 8, 1, static_cast<unsigned>(i)));
    root.picture("masks/" + std::to_string(i) + ".png", mask_of({0, 1, 255}));
  }
  const Draft draft = draft_configuration(root.path());
  CHECK(loaded(draft.text).data.image_mask.mask_values == std::map<int64_t, int64_t>{{1, 1}, {255, 2}});
  CHECK(says(draft.choices, "255 is taken as a class"));
  CHECK(holds(draft.text, "# mask_values: {1: 1}"));
}

TEST_CASE("masks without 0, and masks of which most is foreground, are asked about") {
  const TempFolder root;
  for (int i = 0; i < 4; ++i) {
    root.picture("images/" + std::to_string(i) + ".png", random_image(8, 8, 1, static_cast<unsigned>(i)));
    root.picture("masks/" + std::to_string(i) + ".png", mask_of({29, 226}));
  }
  const Draft draft = draft_configuration(root.path());
  REQUIRE(draft.to_fill_in.size() == 1);
  CHECK(holds(draft.to_fill_in[0].sentence, "which pixel value of the masks is which class"));
  CHECK(loaded(draft.text).data.image_mask.mask_values.empty());
  const Experiment chosen = loaded(uncommented(draft.text, "image_mask: {mask_values: {226: 1}}"));
  CHECK(chosen.data.image_mask.mask_values == std::map<int64_t, int64_t>{{226, 1}});

  for (int i = 0; i < 4; ++i) root.picture("masks/" + std::to_string(i) + ".png", mask_of({255, 255, 255, 0}));
  const Draft bright = draft_configuration(root.path());
  CHECK(bright.to_fill_in.empty());
  CHECK(says(bright.choices, "0, the smaller part, as background"));
  CHECK(holds(bright.text, "# mask_values: {0: 1}"));
}

TEST_CASE("a folder for each sample, and nnU-Net's folders") {
  const TempFolder root;
  for (int i = 0; i < 5; ++i) {
    const std::string sample = "s" + std::to_string(i);
    root.picture(sample + "/image/p.png", random_image(8, 8, 1, static_cast<unsigned>(i)));
    for (int k = 0; k < 2; ++k) root.picture(sample + "/mask/" + std::to_string(k) + ".png", mask_of({0, 0, 0, 255}));
    root.picture("n/imagesTr/" + sample + "_0000.png", random_image(8, 8, 1, static_cast<unsigned>(i)));
    root.picture("n/labelsTr/" + sample + ".png", mask_of({0, 1, 2}));
  }
  root.text("n/dataset.json",
            R"({"labels": {"background": 0, "a": 1, "b": 2}, "numTraining": 5, "file_ending": ".png"})");
  const Experiment nnunet = loaded(draft_configuration(root / "n").text);
  CHECK(opened(nnunet).classes == std::vector<std::string>{"a", "b"});
  std::filesystem::remove_all(root / "n");
  const Draft draft = draft_configuration(root.path());
  INFO(draft.text);
  CHECK(draft.to_fill_in.empty());
  const Experiment e = loaded(draft.text);
  CHECK(e.data.image_mask.images == "image");
  CHECK(opened(e).samples.size() == 5);
  CHECK(opened(e).samples[0].masks.size() == 2);
}

namespace {

// 40 pictures p0.png … and a table with this header and these cells of row i.
void table_of(const TempFolder& root, const std::string& header, const std::function<std::string(int)>& cells) {
  std::string rows = "file," + header + "\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "p" + std::to_string(i) + ".png";
    root.picture(name);
    rows += name + "," + cells(i) + "\n";
  }
  root.text("list.csv", rows);
}

}  // namespace

TEST_CASE("a table's columns are labels, patients and parts by their names and values") {
  const TempFolder root;
  table_of(root, "diagnosis,view,Patient ID,set", [](int i) {
    return std::string(i % 2 == 0 ? "benign" : "malignant") + (i % 3 == 0 ? ",PA," : ",AP,") + std::to_string(i / 4) +
           (i < 32 ? ",train" : ",test");
  });
  const Draft draft = draft_configuration(root.path());
  CHECK(draft.to_fill_in.empty());
  const Experiment e = loaded(draft.text);
  CHECK(e.task == Task::multiclass);
  CHECK(e.data.csv.path == "file");
  CHECK(e.data.csv.label == "diagnosis");
  CHECK(e.data.csv.group == "Patient ID");
  CHECK(e.data.csv.split == "set");
  CHECK(split_dataset(opened(e), e.data.split).test.size() == 8);
  CHECK(holds(draft.text, "benign 20, malignant 20"));
}

TEST_CASE("patients stay whole, at the price of exact shares or of the test part; too few of them are asked about") {
  const auto drafted = [](int patients) {
    const TempFolder root;
    table_of(root, "diagnosis,Patient ID", [&](int i) {
      return std::string(i % 2 == 0 ? "benign," : "malignant,") + std::to_string(i / 2 % patients);
    });
    const Draft draft = draft_configuration(root.path());
    const Experiment e = loaded(draft.text);
    const Dataset data = opened(e);
    const Split split = split_dataset(data, e.data.split);
    for (const std::string& warning : split.warnings) CHECK_FALSE(warning.starts_with("split leak"));
    return draft;
  };
  CHECK(drafted(10).to_fill_in.empty());
  const Draft two = drafted(2);
  CHECK(two.to_fill_in.empty());
  CHECK(holds(two.text, "40 pictures of 2 patients: each stays whole"));

  const TempFolder root;
  table_of(root, "diagnosis,Patient ID", [](int i) { return std::string(i % 2 == 0 ? "benign,7" : "malignant,7"); });
  const Draft one = draft_configuration(root.path());
  REQUIRE(one.to_fill_in.size() == 1);
  CHECK(holds(one.to_fill_in[0].sentence, "the pictures are of 1 patient, too few for parts that share none"));
  CHECK_FALSE(holds(one.text, "each stays whole"));
}

TEST_CASE("where only a person knows the label, the columns are asked for") {
  const TempFolder root;
  table_of(root, "site,scanner",
           [](int i) { return std::string(1, "ABC"[i % 3]) + (i % 2 == 0 ? ",GE" : ",Siemens"); });
  const Draft draft = draft_configuration(root.path());
  REQUIRE(draft.to_fill_in.size() == 1);
  CHECK(holds(draft.to_fill_in[0].sentence, "which column of list.csv is the label"));
  const std::vector<std::string> lines = split_text(draft.text, '\n');
  CHECK(holds(lines.at(static_cast<size_t>(draft.to_fill_in[0].line - 1)), "label: site"));
  error_of(78, [&] { loaded(draft.text); });
  for (const char* column : {"site", "scanner"})
    CHECK(opened(loaded(uncommented(draft.text, std::string("label: ") + column))).samples.size() == 40);
}

TEST_CASE("several labels in one field, columns of 0 and 1, rows without a picture") {
  const TempFolder root;
  table_of(root, "finding", [](int i) { return std::string(i % 2 == 0 ? "wet" : i % 3 == 0 ? "wet; old" : "old"); });
  Experiment e = loaded(draft_configuration(root.path()).text);
  CHECK(e.task == Task::multilabel);
  CHECK(e.data.csv.separator == ";");

  table_of(root, "wet,old,sex", [](int i) { return std::to_string(i % 2) + "," + std::to_string(i / 2 % 2) + ",F"; });
  for (int i = 30; i < 40; ++i) std::filesystem::remove(root / ("p" + std::to_string(i) + ".png"));
  const Draft draft = draft_configuration(root.path());
  e = loaded(draft.text);
  CHECK(e.data.csv.labels == std::vector<std::string>{"wet", "old"});
  CHECK(e.data.on_missing == OnMissing::skip);
  CHECK(holds(draft.text, "10 rows name pictures that are not in the folder"));
  CHECK(opened(e).samples.size() == 30);
}

TEST_CASE("a table and folders of classes: one is written, the other stands beside") {
  const TempFolder root;
  std::string rows = "Image Index,Finding Labels,Patient ID\n";
  std::string tests;
  for (int i = 0; i < 40; ++i) {
    const std::string name = std::to_string(1000 + i / 2) + "_" + std::to_string(i % 2) + ".png";
    root.picture((i % 4 < 2 ? "ill/" : "well/") + name);
    rows += name + (i % 4 < 2 ? ",Mass|Nodule," : ",No Finding,") + std::to_string(1000 + i / 2) + "\n";
    if (i >= 30) tests += name + "\n";
  }
  root.text("labels.csv", rows);
  const Draft draft = draft_configuration(root.path());
  CHECK(says(draft.choices, "one folder of pictures per class"));
  const Experiment other = loaded(other_reading_of(draft));
  CHECK(other.data.format->name == "image_folder");
  CHECK(other.task == Task::multiclass);
  CHECK(other.checkpoint.best_monitor != loaded(draft.text).checkpoint.best_monitor);
  Experiment e = loaded(draft.text);
  CHECK(e.data.format->name == "nih_cxr14");
  CHECK(e.data.split.by == SplitOptions::By::patient);
  CHECK(holds(draft.text, "40 pictures of 20 patients"));

  root.text("test_list.txt", tests);
  e = loaded(draft_configuration(root.path()).text);
  CHECK(e.data.split.files.contains("test"));
  CHECK(split_dataset(opened(e), e.data.split).test.size() == 10);
}

TEST_CASE("pictures alone, masks beside pictures, nothing at all") {
  const TempFolder root;
  CHECK(holds(error_of(65, [&] { draft_configuration(root.path()); }), "holds no picture"));
  error_of(66, [&] { draft_configuration(root / "absent"); });
  root.text("table.csv", "a,b\n1,2\n");
  CHECK(holds(error_of(65, [&] { draft_configuration(root.path()); }), "table.csv"));
  for (int i = 0; i < 3; ++i)
    root.picture(std::to_string(i) + ".png", random_image(16, 16, 3, static_cast<unsigned>(i)));
  const Draft alone = draft_configuration(root.path());
  CHECK(says(alone.to_fill_in, "nothing in the folder says it"));
  CHECK(holds(alone.text, "# format: image_folder"));
  CHECK(holds(alone.text, "size: [16, 16]"));
  CHECK(holds(error_of(78, [&] { loaded(alone.text); }), "data.format is missing"));
  CHECK(says(alone.to_fill_in, "no column of table.csv, which holds nothing but numbers, names one of the pictures"));
  for (int i = 0; i < 3; ++i) root.picture(std::to_string(i) + "_mask.png", mask_of({0, 255}));
  const Draft beside = draft_configuration(root.path());
  CHECK(holds(beside.text, "mask_suffix: _mask"));
  const Experiment e = loaded(beside.text);
  CHECK(e.data.image_mask.mask_suffix == "_mask");
  CHECK(opened(e).samples.size() == 3);
}

TEST_CASE("masks with a suffix in a folder of their own, or beside pictures in folders of parts, are drafted with it") {
  const auto drafted = [](const std::vector<std::pair<std::string, std::string>>& pairs) {
    const TempFolder root;
    for (const auto& [picture, mask] : pairs)
      for (const char* number : {"1", "2", "3"}) {
        root.picture(picture + number + ".png", random_image(16, 16, 3, 1));
        root.picture(mask + number + "_seg.png", mask_of({0, 255}));
      }
    const Draft draft = draft_configuration(root.path());
    INFO(draft.text);
    CHECK(holds(draft.text, "mask_suffix: _seg"));
    const Experiment e = loaded(draft.text);
    CHECK(opened(e).samples.size() == 3 * pairs.size());
    return e;
  };
  CHECK(drafted({{"images/", "masks/"}}).data.image_mask.images == "images");
  CHECK(drafted({{"images/", "images/"}}).data.image_mask.masks == "images");
  CHECK(drafted({{"train/", "train/"}, {"val/a", "val/a"}}).data.image_mask.mask_suffix == "_seg");
}

TEST_CASE("parts that share patients are drafted anew, and the words say what the split is") {
  const auto whole = [](const TempFolder& root) {
    const Draft draft = draft_configuration(root.path());
    INFO(draft.text);
    CHECK(draft.to_fill_in.empty());
    CHECK(says(draft.choices, "share patients; the draft splits all pictures again"));
    const Experiment e = loaded(draft.text);
    const Split split = split_dataset(opened(e), e.data.split);
    for (const std::string& warning : split.warnings) CHECK_FALSE(warning.starts_with("split leak"));
    CHECK_FALSE(split.valid.empty());
    std::string flat;  // comments on one line
    for (const std::string& line : split_text(draft.text, '\n')) {
      const std::string_view text = trimmed(line);
      flat += " " + std::string(text.starts_with("# ") ? text.substr(2) : text);
    }
    CHECK(holds(flat, std::to_string(split.train.size()) + " train, " + std::to_string(split.valid.size()) +
                          " valid, " + std::to_string(split.test.size()) + " test"));
    return e;
  };
  const char* const parts[] = {"train", "test", "valid"};
  for (const int named : {2, 3}) {
    const TempFolder table;
    table_of(table, "diagnosis,Patient ID,set", [&](int i) {
      return std::string(i % 2 == 0 ? "benign," : "malignant,") + std::to_string(i / 4) + "," + parts[i % named];
    });
    CHECK(whole(table).data.csv.split.empty());
  }
  const TempFolder folders;
  for (int i = 0; i < 80; ++i)
    folders.picture(std::string(parts[i % 4 == 0 ? 1 : 0]) + (i % 2 == 0 ? "/ill/" : "/well/") + "p" +
                    std::to_string(i / 8) + "_" + std::to_string(i) + ".png");
  CHECK(whole(folders).data.split.test > 0);
}
