#include <sys/stat.h>

#include <cmath>

#include "dtrain/data/order/split.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static const std::string kNihHeader =
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n";

static std::string nih_row(const std::string& name, const std::string& labels, const std::string& patient) {
  return name + "," + labels + ",0," + patient + ",77,F,PA,256,256,0.1,0.1\n";
}

static DataOptions csv(const TempFolder& root) {
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "labels.csv";
  options.csv.path = "file";
  return options;
}

TEST_CASE("the official NIH table gives 14 labels, pictures at any depth, patients as groups") {
  const TempFolder root;
  root.picture("images_001/images/00000002_000.png");
  root.picture("images_002/images/00000001_000.png");
  root.picture("images_002/images/00000001_001.png");
  root.picture("images_002/images/unnamed.png");
  root.text("labels.csv", kNihHeader + nih_row("00000001_000.png", "No Finding", "1") +
                              nih_row("00000001_001.png", "Hernia|Atelectasis", "1") +
                              nih_row("00000002_000.png", "Mass", "2"));
  const Dataset data = dataset_at(nih(root));
  CHECK(data.task == Task::multilabel);
  REQUIRE(data.classes.size() == 14);
  CHECK(data.classes[13] == "Hernia");
  REQUIRE(paths_of(data) == std::vector<std::string>{"images_001/images/00000002_000.png",
                                                     "images_002/images/00000001_000.png",
                                                     "images_002/images/00000001_001.png"});
  CHECK(data.samples[0].group == "2");
  CHECK(data.samples[2].group == "1");
  CHECK(data.samples[0].labels == std::vector<float>{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(data.samples[1].labels == std::vector<float>(14, 0));
  CHECK(data.samples[2].labels == std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  REQUIRE(data.notes.size() == 1);
  CHECK(holds(data.notes[0], "1 picture under data.root named by no row of labels.csv"));

  DataOptions options = nih(root);
  options.classes = {"Hernia"};
  CHECK(dataset_at(options).samples[2].labels == std::vector<float>{1});
  options.classes = {"Hernia", "Flu"};
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "'Flu'"));
}

TEST_CASE("every picture that the table names but the folder lacks is listed, capped, as missing input") {
  const TempFolder root;
  root.picture("p0.png");
  std::string rows = kNihHeader + nih_row("p0.png", "Mass", "1");
  for (int i = 1; i <= 25; ++i) rows += nih_row("p" + std::to_string(i) + ".png", "Mass", "4711");
  root.text("labels.csv", rows);
  const std::string sentence = error_of(66, [&] { dataset_at(nih(root)); });
  CHECK(holds(sentence, "25 pictures"));
  CHECK(holds(sentence, "line 3: 'p1.png'"));
  CHECK(holds(sentence, "'p20.png'"));
  CHECK_FALSE(holds(sentence, "'p21.png'"));
  CHECK(holds(sentence, "5 more"));
  CHECK_FALSE(holds(sentence, "4711"));
}

TEST_CASE("an unknown finding is an error with its line and value, and without the patient") {
  const TempFolder root;
  root.picture("a.png");
  root.picture("b.png");
  root.text("labels.csv", kNihHeader + nih_row("a.png", "Mass", "4711") + nih_row("b.png", "Mass|Pneumonai", "4711"));
  const std::string sentence = error_of(65, [&] { dataset_at(nih(root)); });
  CHECK(holds(sentence, "line 3: 'Pneumonai' (did you mean 'Pneumonia'?)"));
  CHECK_FALSE(holds(sentence, "4711"));
  root.text("labels.csv", kNihHeader + nih_row("a.png", "Mass", "1") + nih_row("b.png", "No Finding|Mass", "1"));
  CHECK(holds(error_of(65, [&] { dataset_at(nih(root)); }), "line 3: 'No Finding'"));
  root.text("labels.csv", kNihHeader + nih_row("a.png", "Mass", "1") + nih_row("b.png", "", "1"));
  CHECK(holds(error_of(65, [&] { dataset_at(nih(root)); }), "line 3"));
}

TEST_CASE("a label file that is empty, has no row, no column of pictures or no text is refused by name") {
  const TempFolder root;
  root.picture("a.png");
  std::string renamed = kNihHeader + nih_row("a.png", "Mass", "1");
  renamed.replace(0, 11, "Picture");
  for (const auto& [text, words] : {std::pair<std::string, std::string>{"", ""},
                                    {kNihHeader, "no sample"},
                                    {renamed, "Image Index"},
                                    {std::string("\0\1\2\0\1\2", 6), ""}}) {
    root.text("labels.csv", text);
    const std::string sentence = error_of(65, [&] { dataset_at(nih(root)); });
    CHECK(holds(sentence, "labels.csv"));
    CHECK(holds(sentence, words));
  }
}

TEST_CASE("two pictures of one base name, and two rows for one picture, are refused") {
  const TempFolder root;
  root.picture("x/a.png");
  root.picture("y/a.png");
  root.text("labels.csv", kNihHeader + nih_row("a.png", "Mass", "1"));
  CHECK(holds(error_of(65, [&] { dataset_at(nih(root)); }), "line 2: 'a.png'"));
  std::filesystem::remove(root / "y/a.png");
  root.text("labels.csv", kNihHeader + nih_row("a.png", "Mass", "1") + nih_row("a.png", "Hernia", "1"));
  CHECK(holds(error_of(65, [&] { dataset_at(nih(root)); }), "line 3: 'a.png', as in line 2"));
}

TEST_CASE("a label file and a list beneath data.root are links out of it only where that is allowed") {
  namespace fs = std::filesystem;
  const TempFolder elsewhere;
  elsewhere.text("labels.csv", "path,kind\na.png,x\nb.png,y\n");
  elsewhere.text("train.txt", "a.png\n");
  const TempFolder root;
  root.picture("a.png");
  root.picture("b.png");
  root.text(".store/labels.csv", "path,kind\na.png,x\nb.png,y\n");
  root.text("valid.txt", "b.png\n");
  fs::create_symlink(root / ".store/labels.csv", root / "inside.csv");
  fs::create_symlink(elsewhere / "labels.csv", root / "outside.csv");
  fs::create_symlink(elsewhere.path(), root / ".folder");
  fs::create_symlink(elsewhere / "train.txt", root / "train.txt");
  fs::create_symlink(elsewhere / "labels.csv", elsewhere / "own.csv");
  DataOptions options = options_for("csv", root.path());
  options.csv.path = "path";
  options.csv.label = "kind";
  const auto samples_with = [&](const std::string& labels) {
    options.labels = labels;
    return open_dataset(options, Task::multiclass, 1).samples.size();
  };
  CHECK(samples_with(root / "inside.csv") == 2);
  CHECK(samples_with(elsewhere / "own.csv") == 2);  // chosen by the user
  for (const std::string& labels : {root / "outside.csv", root / ".folder/labels.csv", root / "x/../outside.csv"}) {
    fs::create_directories(root / "x");
    const std::string sentence = error_of(65, [&] { samples_with(labels); });
    CHECK(holds(sentence, "leads by links out of data.root to '" + elsewhere / "labels.csv"));
    CHECK(holds(sentence, "data.allow_links"));
  }
  options.split.given = true;
  options.split.files = {{"train", "train.txt"}, {"valid", "valid.txt"}};
  CHECK(holds(error_of(65, [&] { samples_with(root / "inside.csv"); }), "train.txt' leads by links out of data.root"));
  options.allow_links = true;
  CHECK(samples_with(root / "outside.csv") == 2);
}

TEST_CASE("a column that sounds like patients and is not used is named") {
  const TempFolder root;
  for (const char* name : {"1.png", "2.png", "3.png"}) root.picture(name);
  root.text("labels.csv", "file,kind,Patient ID\n1.png,a,7\n2.png,b,7\n3.png,b,8\n");
  DataOptions options = csv(root);
  options.csv.label = "kind";
  const Dataset data = dataset_at(options);
  CHECK(data.unused_patients == "Patient ID");
  REQUIRE(data.notes.size() == 1);
  CHECK(holds(data.notes[0], "name it: 'data.csv.group=\"Patient ID\"'"));
  options.csv.group = "Patient ID";
  CHECK(dataset_at(options).unused_patients.empty());
  options.csv.group = "";
  root.text("labels.csv", "file,kind,Patient ID\n1.png,a,7\n2.png,b,9\n3.png,b,8\n");  // one picture each
  CHECK(dataset_at(options).unused_patients.empty());
  root.text("labels.csv", "file,subject\n1.png,a\n2.png,b\n3.png,b\n");
  options.csv.label = "subject";
  CHECK(dataset_at(options).unused_patients.empty());
}

TEST_CASE("a pipe or a device as label file or list is a sentence, at once") {
  const TempFolder root;
  root.picture("a.png");
  root.picture("b.png");
  root.text("labels.csv", "path,kind\na.png,x\nb.png,y\n");
  REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
  DataOptions options = options_for("csv", root.path());
  options.csv.path = "path";
  options.csv.label = "kind";
  for (const std::string& labels : {root / "fifo", std::string("/dev/zero")}) {
    options.labels = labels;
    CHECK(holds(error_of(65, [&] { open_dataset(options, Task::multiclass, 1); }), "not a file"));
  }
  options.labels = root / "labels.csv";
  const Dataset data = open_dataset(options, Task::multiclass, 1);
  options.split.files = {{"train", "fifo"}, {"valid", "labels.csv"}};
  CHECK(holds(error_of(65, [&] { split_dataset(data, options.split); }), "not a file"));
}

TEST_CASE("a label file that is not there names data.labels") {
  const TempFolder root;
  root.picture("a.png");
  CHECK(holds(error_of(66, [&] { dataset_at(nih(root)); }), "data.labels"));
}

TEST_CASE("label columns are 1, 0 or empty for unknown") {
  const TempFolder root;
  for (const char* name : {"d/a.png", "d/b.png", "c.png"}) root.picture(name);
  root.text("labels.csv", "file,who,red,blue\n./d/a.png,P7,1,\nb.png,P8,0.0,1.0\nc.png,P7,,\n");
  DataOptions options = csv(root);
  options.csv.labels = {"blue", "red"};
  options.csv.group = "who";
  const Dataset data = dataset_at(options);
  CHECK(data.task == Task::multilabel);
  CHECK(data.classes == options.csv.labels);
  REQUIRE(paths_of(data) == std::vector<std::string>{"c.png", "d/a.png", "d/b.png"});
  CHECK(std::isnan(data.samples[0].labels[0]));
  CHECK(std::isnan(data.samples[1].labels[0]));
  CHECK(data.samples[1].labels[1] == 1);
  CHECK(data.samples[2].labels == std::vector<float>{1, 0});
  CHECK(data.samples[1].group == "P7");
  REQUIRE(data.notes.size() == 2);
  CHECK(holds(data.notes[0], "3 labels unknown"));
  CHECK(holds(data.notes[1], "1 picture without any known label"));
  root.text("labels.csv", "file,who,red,blue\nd/a.png,P7,1,2\nb.png,P8,x,0\nc.png,P7,,\n");
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "line 2: '2' in column 'blue'"));
  CHECK(holds(sentence, "line 3: 'x' in column 'red'"));
  CHECK_FALSE(holds(sentence, "P8"));
}

TEST_CASE("one label column is a class, or several joined") {
  const TempFolder root;
  for (const char* name : {"a.png", "b.png", "c.png"}) root.picture(name);
  root.text("labels.csv", "file,kind\na.png,class10\nb.png,class2\nc.png,class10\n");
  DataOptions options = csv(root);
  options.csv.label = "kind";
  const Dataset one = dataset_at(options);
  CHECK(one.task == Task::multiclass);
  CHECK(one.classes == std::vector<std::string>{"class2", "class10"});
  CHECK(one.samples[0].class_index == 1);
  CHECK(one.samples[1].class_index == 0);
  CHECK(one.notes.empty());
  root.text("labels.csv", "file,kind\na.png,red; blue\nb.png,\nc.png,blue\n");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "line 3: 'b.png'"));
  root.text("labels.csv", "file,kind\na.png,red; blue\nb.png,red\nc.png,blue\n");
  const Dataset joined = dataset_at(options);
  CHECK(joined.classes.size() == 3);
  REQUIRE(joined.warnings.size() == 1);
  CHECK(holds(joined.warnings[0], "'red; blue' is a class besides those that it joins"));
  CHECK(holds(joined.warnings[0], "set 'data.csv.separator=\";\"'"));
  root.text("labels.csv", "file,kind\na.png,red; blue\nb.png,\nc.png,blue\n");
  options.csv.separator = " ; ";
  const Dataset several = dataset_at(options);
  CHECK(several.task == Task::multilabel);
  CHECK(several.classes == std::vector<std::string>{"blue", "red"});
  CHECK(several.samples[0].labels == std::vector<float>{1, 1});
  CHECK(several.samples[1].labels == std::vector<float>{0, 0});
  CHECK(several.samples[2].labels == std::vector<float>{1, 0});
}

TEST_CASE("paths that leave the root are refused, files of another type are named as such") {
  const TempFolder root;
  root.picture("a.png");
  root.text("b.gif", "GIF8");
  DataOptions options = csv(root);
  options.csv.label = "kind";
  for (const char* bad : {"../a.png", "/etc/a.png", "d/../../a.png"}) {
    root.text("labels.csv", std::string("file,kind\n") + bad + ",x\n");
    CHECK(holds(error_of(65, [&] { dataset_at(options); }), "outside data.root"));
  }
  root.text("labels.csv", "file,kind\na.png,x\nb.gif,y\n");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "line 3: 'b.gif' (no picture by its name)"));
}

TEST_CASE("a name too long for any file is listed as absent") {
  const TempFolder root;
  root.picture("a.png");
  DataOptions options = csv(root);
  options.csv.label = "kind";
  const std::string name = std::string(300, 'x') + ".png";
  root.text("labels.csv", "file,kind\na.png,x\n" + name + ",y\n");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "line 3: '" + name));
}

TEST_CASE("a class that is not UTF-8 is refused with its line") {
  const TempFolder root;
  for (const char* name : {"a.png", "b.png"}) root.picture(name);
  DataOptions options = csv(root);
  options.csv.label = "kind";
  root.text("labels.csv", "file,kind\na.png,x\nb.png,caf\xE9\n");
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "labels.csv:3"));
  CHECK(holds(sentence, "'caf\\xE9' is not UTF-8"));
  root.text("labels.csv", "file,kind\na.png,x\nb.png,\"y\ndtrain: error 0\"\n");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "labels.csv:3: the class 'y\\ndtrain: error 0' holds"));
  root.text("labels.csv", "file,kind\na.png,x\nb.png,caf\xC3\xA9\n");
  CHECK(dataset_at(options).classes.front() == "caf\xC3\xA9");
}

static std::string chexpert_row(const std::string& path, const std::string& fourteen) {
  return path + ",Female,68,Frontal,AP," + fourteen + "\n";
}

static const std::string kChexpertHeader =
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung "
    "Lesion,Edema,Consolidation,Pneumonia,Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support "
    "Devices\n";

// Two patients to train on, one to validate, as the small copy has them.
static DataOptions chexpert(const TempFolder& root) {
  for (const char* name :
       {"train/patient00001/study1/view1_frontal.jpg", "train/patient00002/study2/view1_frontal.jpg",
        "train/patient00002/study2/view2_lateral.jpg", "valid/patient64541/study1/view1_frontal.jpg"})
    root.picture(name);
  const std::string prefix = "CheXpert-v1.0-small/";
  root.text("train.csv",
            kChexpertHeader +
                chexpert_row(prefix + "train/patient00001/study1/view1_frontal.jpg", "1.0,,,,,,,,0.0,0.0,,,,1.0") +
                chexpert_row(prefix + "train/patient00002/study2/view1_frontal.jpg",
                             ",,-1.0,1.0,,-1.0,-1.0,,-1.0,,-1.0,,1.0,") +
                chexpert_row(prefix + "train/patient00002/study2/view2_lateral.jpg", ",,,,,,,,-1.0,,,,,"));
  root.text("valid.csv", kChexpertHeader + chexpert_row(prefix + "valid/patient64541/study1/view1_frontal.jpg",
                                                        "0.0,1.0,1.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0"));
  return options_for("chexpert", root.path());
}

static std::string text_of(const std::vector<float>& labels) {
  std::string text;
  for (float label : labels) text += std::isnan(label) ? '?' : label == 1 ? '1' : '0';
  return text;
}

TEST_CASE("CheXpert's own lists give 14 observations, patients from the path, and parts by list") {
  const TempFolder root;
  const DataOptions options = chexpert(root);
  const Dataset data = dataset_at(options);
  CHECK(data.task == Task::multilabel);
  CHECK(data.classes == chexpert_observations());
  REQUIRE(data.samples.size() == 4);
  CHECK(data.samples[0].path == "train/patient00001/study1/view1_frontal.jpg");
  CHECK(data.samples[2].group == "patient00002");
  CHECK(data.samples[2].part == "train");
  CHECK(data.samples[3].part == "valid");
  CHECK(text_of(data.samples[0].labels) == "10000000000001");
  CHECK(text_of(data.samples[1].labels) == "00?10??0?0?010");
  REQUIRE(data.notes.size() == 3);
  CHECK(holds(data.notes[0], "6 uncertain labels (-1): 0 taken as 1, 0 as 0, 6 as unknown"));
  CHECK(holds(data.notes[1], "not mentioned (empty): taken as 0"));
  CHECK(holds(data.notes[2], "6 labels unknown (ignored)"));
}

TEST_CASE("uncertain labels of CheXpert count as the policy of their observation says") {
  const TempFolder root;
  DataOptions options = chexpert(root);
  options.chexpert.uncertain = Uncertain::zeros;
  options.chexpert.uncertain_labels = {{"Atelectasis", Uncertain::ones}, {"Edema", Uncertain::ignore}};
  const Dataset data = dataset_at(options);
  CHECK(text_of(data.samples[1].labels) == "00010?00100010");
  CHECK(text_of(data.samples[2].labels) == "00000000100000");
  CHECK(holds(data.notes[0], "2 taken as 1, 3 as 0, 1 as unknown"));
  options.chexpert.uncertain = Uncertain::ones;
  options.chexpert.uncertain_labels.clear();
  CHECK(text_of(dataset_at(options).samples[1].labels) == "00110110101010");
  options.chexpert.unmentioned_unknown = true;
  const Dataset unknown = dataset_at(options);
  CHECK(text_of(unknown.samples[1].labels) == "??11?11?1?1?1?");
  CHECK(unknown.manifest_sha256 != data.manifest_sha256);
  options.classes = {"Edema", "No Finding"};
  CHECK(text_of(dataset_at(options).samples[1].labels) == "1?");
}

TEST_CASE("one list of CheXpert is split like any other data, and may lie beside the folder it names") {
  const TempFolder root;
  DataOptions options = chexpert(root);
  options.labels = root / "train.csv";
  const Dataset data = dataset_at(options);
  CHECK(data.samples.size() == 3);
  CHECK(holds(data.notes[0], "1 picture under data.root named by no row of train.csv"));
  options.root = root / "train";  // two leading folders of the paths to drop
  const Dataset inner = dataset_at(options);
  CHECK(inner.samples[0].path == "patient00001/study1/view1_frontal.jpg");
  CHECK(inner.samples[0].group == "patient00001");
  CHECK(inner.samples[0].part.empty());
}

TEST_CASE("lists of CheXpert that are absent, repeat a picture or hold other labels are refused") {
  const TempFolder root;
  const DataOptions options = chexpert(root);
  const std::string row =
      chexpert_row("CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg", "2.0,,,,,,,,,,,,,");
  root.text("valid.csv", kChexpertHeader + row);
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "two label files have a row for one picture"));
  std::filesystem::remove(root / "valid.csv");
  root.text("train.csv", kChexpertHeader + row);
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "line 2: '2.0' in column 'No Finding'"));
  root.text("train.csv",
            kChexpertHeader + chexpert_row("CheXpert-v1.0-small/train/view1_frontal.jpg", ",,,,,,,,,,,,,"));
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "line 2: 'CheXpert-v1.0-small/train/view1_frontal.jpg'"));
  root.text("train.csv", "Path,No Finding\na.jpg,1\n");
  error_of(66, [&] { dataset_at(options); });
  std::filesystem::remove(root / "train.csv");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "holds no train.csv"));
}
