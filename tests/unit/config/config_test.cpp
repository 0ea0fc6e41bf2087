#include "dtrain/config/config.hpp"

#include <cstring>

#include "scratch_config.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

TEST_CASE("three lines are a configuration, and every default is filled in") {
  const Experiment e =
      from_text("data: {format: image_folder, root: p}\nmodel: {name: resnet50}\nepochs: 20\n").experiment;
  CHECK(e.name == "t");
  CHECK(e.task == Task::multiclass);
  CHECK(e.epochs == 20);
  CHECK(e.data.image.channels == 3);
  CHECK(e.data.image.mean == std::vector<double>{0.485, 0.456, 0.406});
  CHECK(e.data.image.std == std::vector<double>{0.229, 0.224, 0.225});
  CHECK(e.checkpoint.best_monitor == "valid.accuracy");
  CHECK(e.checkpoint.best_is_max);
  CHECK(e.schedule.scale_with_ranks == RankScaling::linear);
  CHECK(e.output_dir == (std::filesystem::current_path() / "runs").string());
  CHECK_FALSE(e.data.split.given);
}

TEST_CASE("defaults follow the variant") {
  CHECK(from_overrides({"data.format=synthetic", "optimizer.name=adagrad"}).experiment.optimizer.eps == 1e-10);
  CHECK(from_overrides({"data.format=synthetic", "optimizer.name=adadelta"}).experiment.optimizer.eps == 1e-6);
  CHECK(from_overrides({"data.format=synthetic", "optimizer.eps=0.5"}).experiment.optimizer.eps == 0.5);
  CHECK(from_overrides({"data.format=synthetic"}).experiment.task == Task::multilabel);
  const Experiment unet = from_overrides({"data.format=synthetic", "model.name=unet"}).experiment;
  CHECK(unet.task == Task::segmentation);
  CHECK(unet.data.image.channels == 1);
  CHECK(unet.data.image.mean == std::vector<double>{0.5});
  CHECK(unet.checkpoint.best_monitor == "valid.iou");
  const Experiment loss = from_overrides({"data.format=synthetic", "checkpoint.best.monitor=valid.loss"}).experiment;
  CHECK_FALSE(loss.checkpoint.best_is_max);
  CHECK(from_overrides({"data.format=synthetic", "batch.global=64"}).experiment.schedule.scale_with_ranks ==
        RankScaling::none);
  const std::vector<std::string> csv = {"data.format=csv", "data.root=/d", "data.labels=l.csv"};
  const auto task_with = [&](const std::string& more) {
    std::vector<std::string> all = csv;
    for (const std::string& part : {more.substr(0, more.find(' ')), more.substr(more.find(' ') + 1)})
      all.push_back(part);
    return from_overrides(all).experiment.task;
  };
  CHECK(task_with("data.csv.label=a data.csv.separator=|") == Task::multilabel);
  CHECK(task_with("data.csv.label=a data.csv.path=p") == Task::multiclass);
  CHECK(task_with("data.csv.labels=[a,b] data.csv.path=p") == Task::multilabel);
}

TEST_CASE("later sources win key by key, lists and mask values are replaced whole") {
  const ScratchFolder folder;
  const std::string a = folder.write(
      "a.yaml",
      "data: {format: image_mask, root: d, image_mask: {mask_values: {1: 1, 2: 2}}}\nmodel: {name: unet}\n"
      "seed: 1\nbatch: {per_rank: 8, last: drop}\nschedule: {decay: {name: multistep, at: [1 epoch, 2 epochs]}}\n");
  const std::string b = folder.write(
      "b.yaml", "seed: 2\nepochs: 7\nbatch: {per_rank: 9}\ndata:\n  image_mask:\n    mask_values: {3: 1}\n");
  const Variable variable("DTRAIN_CONFIG__EPOCHS", "8");
  const Variable other("DTRAIN_CACHE", "/somewhere");
  const Config config = load_config({{a, b}, true, {"seed=3", "schedule.decay={at: [5 epochs]}", "seed=4"}});
  CHECK(config.experiment.name == "a");
  CHECK(config.experiment.seed == 4);
  CHECK(config.experiment.epochs == 8);
  CHECK(config.experiment.batch.per_rank == 9);
  CHECK(config.experiment.batch.drop_last);
  CHECK(config.experiment.data.image_mask.mask_values == std::map<int64_t, int64_t>{{3, 1}});
  CHECK(config.experiment.schedule.decay.at == std::vector<Duration>{{5, Duration::Unit::epochs}});
  CHECK(config.values.at("seed").origin == "command line");
  CHECK(config.values.at("epochs").origin == "DTRAIN_CONFIG__EPOCHS");
  CHECK(config.values.at("batch.per_rank").origin == b + ":3");
  CHECK(config.values.at("optimizer.name").origin == "default");
}

TEST_CASE("a variable that looks like a key and is none is told, with the name that sets the key") {
  const Variable one("DTRAIN_OPTIMIZER_LEARNING_RATE", "0.1");
  const Variable other("DTRAIN_CONFIG_DATA_ROOT", "/data");
  const Variable right("DTRAIN_CONFIG__DATA__ROOT", "/data");
  const Variable ours("DTRAIN_SEED", "7");  // of tests; keys outside groups are too short to be told from others
  const Variable top("DTRAIN_CONFIG_EPOCHS", "7");
  const Variable empty("DTRAIN_CONFIG__SEED", "");
  const std::vector<std::string> told = overlooked_variables();
  REQUIRE(told.size() == 4);
  CHECK(told[0] ==
        "the variable DTRAIN_CONFIG_DATA_ROOT sets nothing: data.root is set by DTRAIN_CONFIG__DATA__ROOT, with two "
        "underscores after CONFIG and for a dot");
  CHECK(told[1].find("epochs is set by DTRAIN_CONFIG__EPOCHS,") != std::string::npos);
  CHECK(told[3].find("optimizer.learning_rate is set by DTRAIN_CONFIG__OPTIMIZER__LEARNING_RATE") != std::string::npos);
  CHECK(told[2] ==
        "the variable DTRAIN_CONFIG__SEED is empty, which takes back what files say of its key; if that is not "
        "meant, unset it");
}

TEST_CASE("decimal commas, bare variables in braces and underscores for dots are told as such") {
  const std::string head = "data: {format: synthetic}\n";
  CHECK(holds(errors_of(head + "optimizer:\n  learning_rate: 0,001\n"), "not '0,001' (did you mean '0.001'?)"));
  CHECK(holds(errors_of(head + "optimizer: {learning_rate: 0,001}\n"), "write numbers with a point, as in 0.001"));
  CHECK(holds(errors_of("data: {format: image_folder, root: ${A}, image: {size: [8, 8]}}\n"),
              "a variable is written in quotes: \"${NAME}\""));
  const Variable flat("DTRAIN_CONFIG__OPTIMIZER_LEARNING_RATE", "0.1");
  try {
    load_config({{}, true, {"data.format=synthetic"}});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(holds(error.what(), "did you mean 'optimizer.learning_rate'? In a variable's name two underscores"));
  }
}

TEST_CASE("an empty value takes back what an earlier source set") {
  const std::string yaml =
      "data: {format: synthetic}\nbatch: {per_rank: 8}\noptimizer: {betas: [0.8, 0.9], eps: 0.1}\n";
  const Experiment e =
      from_text(yaml, {"batch.per_rank=", "batch.global=64", "optimizer=", "optimizer.name=sgd"}).experiment;
  CHECK(e.batch.global == 64);
  CHECK(e.optimizer.beta1 == 0.9);
  CHECK(holds(errors_of("data: {format: synthetic}\nepochs:\n"), "t.yaml:2:1: epochs has no value"));
  CHECK(errors_of("data:\n  format: synthetic\n  augment:\n").empty());
}

TEST_CASE("variables are expanded in plain and quoted scalars") {
  const Variable set("DTRAIN_TEST_A", "x y");
  const Variable empty("DTRAIN_TEST_E", "");
  const std::string yaml =
      "name: ${DTRAIN_TEST_A}-b\nepochs: ${DTRAIN_TEST_NONE:-12}\ndata: {format: image_folder, root: "
      "\"/${DTRAIN_TEST_NONE:-a/b}/$${c}\"}\n"
      "seed: ${DTRAIN_TEST_E:-5}\n";
  const Experiment e = from_text(yaml).experiment;
  CHECK(e.name == "x y-b");
  CHECK(e.epochs == 12);
  CHECK(e.data.root == "/a/b/${c}");
  CHECK(e.seed == 5);
  const std::string wrong =
      errors_of("data: {format: synthetic}\nname: ${DTRAIN_TEST_NONE}\nseed: ${9}\nepochs: ${X\n");
  CHECK(holds(wrong, "t.yaml:2:7: the variable DTRAIN_TEST_NONE is not set"));
  CHECK(holds(wrong, "t.yaml:3:7: '${9}' is neither"));
  CHECK(holds(wrong, "t.yaml:4:9: '${' without its '}'"));
  CHECK(errors_of("data: {format: synthetic}\nname: ${DTRAIN_TEST_NONE}\n", {"name=b"}).empty());
}

TEST_CASE("paths start where the contract says") {
  const ScratchFolder folder;
  const std::string file = folder.write("sub/a.yaml",
                                        "data:\n  format: image_mask\n  root: ../d/\n  image_mask: {images: i/, masks: "
                                        "./m}\n  split: {files: {train: t.txt, valid: ../v.txt}}\n"
                                        "model: {name: unet, weights: w.safetensors}\noutput: {dir: out}\n");
  const std::string cwd = std::filesystem::current_path().string();
  const Experiment e = load_config({{file}, false, {}}).experiment;
  CHECK(e.data.root == folder.path() + "/d");
  CHECK(e.data.image_mask.images == "i");
  CHECK(e.data.image_mask.masks == folder.path() + "/sub/m");
  CHECK(e.data.split.files.at("train") == folder.path() + "/d/t.txt");
  CHECK(e.data.split.files.at("valid") == folder.path() + "/v.txt");
  CHECK(e.model.weights == folder.path() + "/sub/w.safetensors");
  CHECK(e.output_dir == cwd + "/out");
  const Experiment o =
      load_config(
          {{file}, false, {"data.root=r", "model.weights=w", "data.image_mask.masks=m", "data.split.files.valid=./v"}})
          .experiment;
  CHECK(o.data.root == cwd + "/r");
  CHECK(o.model.weights == cwd + "/w");
  CHECK(o.data.image_mask.masks == "m");
  CHECK(o.data.split.files.at("train") == cwd + "/r/t.txt");
  CHECK(o.data.split.files.at("valid") == cwd + "/v");
}

TEST_CASE("numbers are read as people write them, and nothing else is") {
  const Experiment e =
      from_overrides({"data.format=synthetic", "epochs=1e3", "seed=18446744073709551615",
                      "optimizer.learning_rate=1e-3", "optimizer.weight_decay=.5", "data.synthetic.samples=+20"})
          .experiment;
  CHECK(e.epochs == 1000);
  CHECK(e.seed == 18446744073709551615ULL);
  CHECK(e.optimizer.learning_rate == 0.001);
  CHECK(e.optimizer.weight_decay == 0.5);
  CHECK(e.data.synthetic.samples == 20);
  for (const char* wrong : {"epochs=1.5",
                            "epochs=0",
                            "epochs=-1",
                            "epochs=ten",
                            "epochs=0x10",
                            "epochs=1_000",
                            "epochs=[1]",
                            "epochs=1e300",
                            "seed=-1",
                            "seed=18446744073709551616",
                            "optimizer.learning_rate=.nan",
                            "optimizer.learning_rate=nan",
                            "optimizer.learning_rate=.inf",
                            "optimizer.learning_rate=inf",
                            "optimizer.learning_rate=1e999",
                            "optimizer.learning_rate=0",
                            "optimizer.learning_rate=0.1x",
                            "data.image.size=64",
                            "data.image.size=[0, 32]",
                            "model.outputs=3.5",
                            "data.image.size=[64]",
                            "data.image.size=[64, a]",
                            "data.image.channels=2",
                            "data.allow_links=yes",
                            "checkpoint.every=1.5 epochs",
                            "checkpoint.every=0 s",
                            "checkpoint.max_failed=0",
                            "on_nan=ignore",
                            "distributed.watchdog.abort=5 epochs",
                            "distributed.watchdog.abort=3",
                            "distributed.watchdog.abort=0 s",
                            "distributed.logical_ranks=0",
                            "name=a/b",
                            "name=",
                            "epochs=010"}) {
    INFO(wrong);
    try {
      from_overrides({"data.format=synthetic", wrong});
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == 78);
      CHECK(holds(error.what(), std::string("command line: ") + wrong + ": "));
    }
  }
}

TEST_CASE("every error of every source is told at once, in order, with its place") {
  const std::string wrong =
      errors_of("optimizer:\n    lerning_rate: 0.1\nepochs: ten\ndata: {format: cvs}\nmodel:\n  nmae: unet\nloss: 3\n",
                {"optimizer.lr=0.1", "optimzer.eps=3"});
  CHECK(wrong ==
        "t.yaml:2:5: unknown key 'optimizer.lerning_rate' (did you mean 'learning_rate'?)\n"
        "t.yaml:3:9: epochs wants a whole number from 1 to 1000000000, not 'ten'\n"
        "t.yaml:4:16: data.format wants image_folder, nih_cxr14, chexpert, csv, image_mask, synthetic, "
        "tfrecord, webdataset or packed, not 'cvs' "
        "(did you mean "
        "'csv'?)\n"
        "t.yaml:6:3: unknown key 'model.nmae' (did you mean 'name'?)\n"
        "t.yaml:7:7: loss is a group of keys (name, pos_weight, class_weight, gamma, dice, "
        "deep_supervision, l2_kernels, "
        "label_smoothing), not "
        "'3' (did you mean "
        "'loss.name'?)\n"
        "command line: optimizer.lr=0.1: unknown key 'optimizer.lr' (did you mean 'optimizer.learning_rate'?)\n"
        "command line: optimzer.eps=3: unknown key 'optimzer.eps' (did you mean 'optimizer.eps'?)");
}

TEST_CASE("keys that dtrain does not have are unknown, never accepted and ignored") {
  for (const char* key : {"output.wandb=true", "data.augment.hue=1"}) {
    INFO(key);
    CHECK(holds(errors_of("data: {format: synthetic}\n", {key}),
                "unknown key '" + std::string(key, strchr(key, '=')) + "'"));
  }
  CHECK(holds(errors_of("optimizer.eps: 1\ndata: {format: synthetic}\n"), "nest it"));
}

TEST_CASE("files that are absent or no text end with their own code") {
  const ScratchFolder folder;
  const auto code_of = [](const std::string& path) {
    try {
      load_config({{path}, false, {}});
    } catch (const Error& error) {
      return error.code();
    }
    return 0;
  };
  CHECK(code_of(folder.path() + "/none.yaml") == 66);
  CHECK(code_of(folder.path()) == 78);
  CHECK(code_of(folder.write("big.yaml", std::string(2000000, '['))) == 78);
  CHECK(errors_of("", {"foo"}, 64).find("command line: foo: not of the form key=value") != std::string::npos);
}

TEST_CASE("the fingerprint leaves out what does not change the result, and the root of the data") {
  for (const char* key :
       {"name", "epochs", "output.dir", "checkpoint.every", "checkpoint.keep", "data.loader.threads",
        "data.loader.prefetch", "data.loader.cache", "data.loader.pipeline", "data.loader.interleave",
        "data.loader.on_bad_sample", "data.loader.max_bad", "data.loader.decompressed_mb", "distributed.bucket_mb",
        "distributed.backend", "distributed.watchdog.abort", "distributed.watchdog.warn", "data.root", "cuda_graphs"})
    CHECK_FALSE(key_in_fingerprint(key));
  for (const char* key : {"seed", "optimizer.learning_rate", "data.labels", "checkpoint.best.monitor",
                          "distributed.threads", "batch.per_rank"})
    CHECK(key_in_fingerprint(key));
  const auto values = [](const std::string& root, const std::string& rate) {
    return fingerprint_values(
        from_overrides({"data.format=nih_cxr14", "data.labels=l.csv", "data.split.files.train=a/t.txt",
                        "data.root=" + root, "optimizer.learning_rate=" + rate}));
  };
  CHECK(values("/here", "0.1") == values("/there", "0.1"));
  CHECK(values("/here", "0.1") != values("/here", "0.2"));
  CHECK(values("/here", "0.1").at("data.labels") == "l.csv");
  CHECK(values("/here", "0.1").at("data.split.files.train") == "a/t.txt");
}
