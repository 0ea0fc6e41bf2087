#include "dtrain/data/order/split.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static DataOptions csv_of_kinds(const TempFolder& root) {
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "labels.csv";
  options.csv.label = "kind";
  return options;
}

// Three of five pictures that have rows, as if one archive of two were there, and one picture without a row.
static void part_of_nih(const TempFolder& root) {
  for (const char* name : {"images_001/1_0.png", "images_001/1_1.png", "images_001/2_0.png", "images_001/9_0.png"})
    root.picture(name);
  root.text(
      "labels.csv",
      "Image Index,Finding Labels\n1_0.png,Mass\n1_1.png,No Finding\n2_0.png,Hernia\n3_0.png,Mass\n4_0.png,Edema\n");
}

TEST_CASE("rows whose pictures are absent are an error that names the key, or left out and told") {
  const TempFolder root;
  part_of_nih(root);
  DataOptions options = nih(root);
  const std::string sentence = error_of(66, [&] { dataset_at(options); });
  CHECK(holds(sentence, "names 2 pictures that data.root"));
  CHECK(holds(sentence, "set data.on_missing: skip"));
  options.on_missing = OnMissing::skip;
  const Dataset data = dataset_at(options);
  CHECK(paths_of(data) == std::vector<std::string>{"images_001/1_0.png", "images_001/1_1.png", "images_001/2_0.png"});
  REQUIRE(data.notes.size() == 2);
  CHECK(holds(data.notes[0], "2 rows of labels.csv left out because data.root does not hold their pictures"));
  CHECK(holds(data.notes[0], "line 5: '3_0.png'"));
  CHECK(data.left_out == std::vector<std::string>{"3_0.png", "4_0.png"});
  CHECK(holds(data.notes[1], "1 picture under data.root named by no row"));
}

TEST_CASE("what skipping leaves is the same data as a label file without the rows") {
  const TempFolder root;
  for (const char* name : {"a.png", "b.png", "of no row.png"}) root.picture(name);
  root.text("labels.csv", "path,kind\na.png,x\nc.png,only absent\nb.png,y\n");
  DataOptions options = csv_of_kinds(root);
  options.on_missing = OnMissing::skip;
  const Dataset skipped = dataset_at(options);
  CHECK(skipped.classes == std::vector<std::string>{"x", "y"});  // none without a picture
  root.text("labels.csv", "path,kind\na.png,x\nb.png,y\n");
  options.on_missing = OnMissing::fail;
  const Dataset whole = dataset_at(options);
  CHECK(skipped.manifest_sha256 == whole.manifest_sha256);
  CHECK(whole.notes.size() + 1 == skipped.notes.size());
  root.picture("c.png");
  root.text("labels.csv", "path,kind\na.png,x\nc.png,only absent\nb.png,y\n");
  CHECK(dataset_at(options).manifest_sha256 != skipped.manifest_sha256);
}

TEST_CASE("skipping every row is an error, and so are names that only need mending") {
  const TempFolder root;
  root.picture("d/a.png");
  root.text("labels.csv", "path,kind\nx.png,x\ny.png,y\n");
  DataOptions options = csv_of_kinds(root);
  for (const OnMissing way : {OnMissing::fail, OnMissing::skip}) {
    options.on_missing = way;
    const std::string sentence = error_of(66, [&] { dataset_at(options); });
    CHECK(holds(sentence, "holds no picture that " + options.labels + " names in 2 rows"));
    CHECK(holds(sentence, "line 3: 'y.png'"));
  }
  root.text("labels.csv", "path,kind\nd/a.png,x\nd\\b.png,y\ngone.png,x\n");
  const std::string sentence = error_of(66, [&] { dataset_at(options); });
  CHECK(holds(sentence, "line 3: 'd\\b.png' (write / between folders, not \\)"));
  CHECK_FALSE(holds(sentence, "gone.png"));
  options.on_missing = OnMissing::fail;
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "(write / between folders, not \\)"));
  root.text("b.gif", "GIF8");
  root.text("labels.csv", "path,kind\nd/a.png,x\nb.gif,y\n");
  options.on_missing = OnMissing::skip;
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "line 3: 'b.gif' (no picture by its name)"));
}

TEST_CASE("a name that may be in another composition than the file's is hinted at") {
  const std::string composed = "caf\xC3\xA9.png";
  const std::string decomposed = "cafe\xCC\x81.png";
  const TempFolder root;
  root.picture("a.png");
  root.text("labels.csv", "path,kind\na.png,x\n" + decomposed + ",y\n");
  DataOptions options = csv_of_kinds(root);
  CHECK_FALSE(holds(error_of(66, [&] { dataset_at(options); }), "NFC"));  // no file could be meant
  root.picture(composed);
  const std::string sentence = error_of(66, [&] { dataset_at(options); });
  CHECK(holds(sentence, "in another composition (NFC, NFD)"));
  CHECK(holds(sentence, "convmv"));
  CHECK(holds(sentence, "line 3: '" + decomposed + "'"));
  options.on_missing = OnMissing::skip;
  CHECK(holds(dataset_at(options).notes.at(0), "in another composition (NFC, NFD)"));
  root.text("labels.csv", "path,kind\na.png,x\n" + composed + ",y\nb.png,y\n");
  CHECK_FALSE(holds(dataset_at(options).notes.at(0), "NFC"));
}

TEST_CASE("list files of a split may name what was left out, nothing else that is absent") {
  const TempFolder root;
  part_of_nih(root);
  root.text("train.txt", "1_0.png\n1_1.png\n4_0.png\n");
  root.text("valid.txt", "2_0.png\n3_0.png\n");
  DataOptions options = nih(root);
  options.on_missing = OnMissing::skip;
  options.split.files = {{"train", "train.txt"}, {"valid", "valid.txt"}};
  options.split.given = true;
  const Dataset data = dataset_at(options);
  const Split split = split_dataset(data, options.split);
  CHECK(split.train == std::vector<int64_t>{0, 1});
  CHECK(split.valid == std::vector<int64_t>{2});
  root.text("valid.txt", "2_0.png\n3_0.png\n5_0.png\n");
  const std::string sentence = error_of(66, [&] { split_dataset(data, options.split); });
  CHECK(holds(sentence, "valid.txt:3: '5_0.png'"));
  CHECK_FALSE(holds(sentence, "3_0.png"));
  root.text("valid.txt", "3_0.png\n");
  CHECK(holds(error_of(66, [&] { split_dataset(data, options.split); }), "take data.split.files.valid out"));
}

static std::string chexpert_list(const std::string& part, int first, int count) {
  std::string text = "Path";
  for (const std::string& name : chexpert_observations()) text += "," + name;
  text += "\n";
  for (int i = first; i < first + count; ++i)
    text +=
        "CheXpert-v1.0-small/" + part + "/patient" + std::to_string(i) + "/study1/a.png" + std::string(14, ',') + "\n";
  return text;
}

TEST_CASE("CheXpert without its validation list is split by shares, whatever folders lie beside") {
  const TempFolder root;
  for (int i = 0; i < 40; ++i) root.picture("train/patient" + std::to_string(i) + "/study1/a.png");
  root.text("train.csv", chexpert_list("train", 0, 40));
  DataOptions options = options_for("chexpert", root.path());
  for (const bool folder : {false, true}) {
    if (folder) root.picture("valid/patient99/study1/a.png");
    const Dataset data = dataset_at(options);
    const Split split = split_dataset(data, options.split);
    CHECK_FALSE(split.valid.empty());
    CHECK(split.train.size() + split.valid.size() == 40);
    CHECK(holds(data.notes.back(), "data.split makes the others"));
  }
  root.text("valid.csv", chexpert_list("valid", 99, 1));
  const Dataset data = dataset_at(options);
  CHECK(split_dataset(data, options.split).valid == std::vector<int64_t>{40});
  CHECK_FALSE(holds(data.notes.back(), "data.split"));
  std::filesystem::remove_all(root / "valid");
  options.on_missing = OnMissing::skip;
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "holds no picture that " + (root / "valid.csv")));
}

TEST_CASE("a table without header, of another format, or with other names for its columns is told with the cure") {
  const TempFolder root;
  root.picture("a.png");
  DataOptions options = csv_of_kinds(root);
  root.text("labels.csv", "a.png,x\nb.png,y\n");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }),
              "has no header: its first line (a.png, x) names a picture already; write the names of the columns above "
              "it, such as path,label"));
  root.text("labels.csv", "Image Index,Finding Labels\na.png,Mass\n");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "its columns are those of data.format=nih_cxr14"));
  root.text("labels.csv", "file,kind\na.png,x\n");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "'file' holds names of pictures: data.csv.path=file"));
}

TEST_CASE("where no row has a picture the message says what the folder has instead") {
  const TempFolder root;
  DataOptions options = csv_of_kinds(root);
  root.text("labels.csv", "path,kind\nimg/a,x\n");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "no picture at all is under it"));
  root.picture("deep/a.png");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "it has deep/a.png, so write a.png for a"));
  root.text("labels.csv", "path,kind\nimg/a.png,x\n");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }),
              "it has deep/a.png: write the path so, or the name a.png alone"));
  root.text("labels.csv", "path,kind\nimg/b.png,x\n");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "it has pictures such as deep/a.png"));
}
