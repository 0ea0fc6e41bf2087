// Every key of the schema changes something, or is refused. The test loops over the schema itself, so a key without a
// row here is a failure. What a key changes is checked on small generated data if that is cheap; for other keys the row
// names the test that shows it.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/config/checks.hpp"
#include "dtrain/config/schema.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/optim/optimizer.hpp"
#include "dtrain/optim/schedule.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"
#include "unit/config/scratch_config.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Lines = std::vector<std::string>;
using Witness = std::string (*)(const Experiment&);

constexpr int64_t kSamples = 12;

const Lines kSynthetic = {"data.format=synthetic",    "data.synthetic={samples: 12, classes: 3}",
                          "data.image.size=[20, 20]", "model.name=small_cnn",
                          "batch.per_rank=2",         "epochs=4"};
const Lines kMulticlass = {"data.format=synthetic", "task=multiclass"};
const Lines kFolder = {"data.format=image_folder", "data.root=/d"};
const Lines kNih = {"data.format=nih_cxr14", "data.root=/d", "data.labels=l.csv"};
const Lines kChexpert = {"data.format=chexpert", "data.root=/d"};
const Lines kCsv = {"data.format=csv", "data.root=/d", "data.labels=l.csv", "data.csv.label=a"};
const Lines kMask = {"data.format=image_mask", "data.root=/d", "model.name=unet"};
const Lines kTfrecord = {"data.format=tfrecord", "data.root=/d"};
const Lines kWebdataset = {"data.format=webdataset", "data.root=/d"};
const Lines kPlain = {"data.format=synthetic"};

Lines with(Lines lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

// --- what a key changes, as text

std::string text_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().to(at::kDouble).flatten();
  const at::Tensor places = at::arange(1, flat.numel() + 1, at::kDouble);
  return shortest(flat.sum().item<double>()) + " " + shortest((flat * places).sum().item<double>()) + "\n";
}

std::string data_of(const Experiment& e) { return open_dataset(e.data, e.task, e.seed).manifest_sha256; }

std::string split_of(const Experiment& e) {
  return split_dataset(open_dataset(e.data, e.task, e.seed), e.data.split).sha256;
}

std::string batch_of(const Experiment& e) {
  const Dataset dataset = open_dataset(e.data, e.task, e.seed);
  Trace trace(false);
  Loader loader(dataset, e.data, e.seed, at::MemoryFormat::ChannelsLast, trace);
  std::vector<int64_t> samples(static_cast<size_t>(kSamples));
  std::iota(samples.begin(), samples.end(), 0);
  std::vector<BatchRequest> requests;
  requests.push_back({samples, 0});
  loader.start(std::move(requests));
  return text_of(loader.next()->images);
}

std::string order_of(const Experiment& e) {
  const int64_t v = std::max<int64_t>(1, e.distributed.logical_ranks);
  std::vector<int64_t> part(static_cast<size_t>(kSamples));
  std::iota(part.begin(), part.end(), 0);
  const auto groups = sampled_groups(e.data.sampling, open_dataset(e.data, e.task, e.seed), part);
  const EpochPlan plan(kSamples, v, e.batch, e.data.distribute, e.seed, 0, groups);
  std::string text;
  for (int64_t step = 0; step < plan.steps(); ++step)
    for (int64_t rank = 0; rank < v; ++rank) {
      for (const int64_t place : plan.places(step, rank)) text += std::to_string(place) + " ";
      text += "in " + std::to_string(plan.micro_batches(step, rank).size()) + " passes\n";
    }
  return text;
}

std::string network_of(const Experiment& e) {
  const ImageOptions& image = e.data.image;
  const auto network = make_network(
      e.model, {image.channels, image.seen_height(), image.seen_width(), 3, e.loss.deep_supervision}, e.seed);
  network->set_random_key(1, 2, 3);
  std::string text;
  for (const NamedTensor& parameter : network->named_parameters())
    text += parameter.name + " " + text_of(parameter.tensor);
  return text + text_of(network->forward(at::ones({4, image.channels, image.seen_height(), image.seen_width()})));
}

std::string loss_of(const Experiment& e) {
  const at::Tensor logits = at::arange(6, at::kDouble).view({2, 3});
  const at::Tensor targets = e.task == Task::multiclass ? at::tensor({2, 0}, at::kLong) : logits.gt(2).to(at::kFloat);
  return text_of(Loss(e.loss, e.task, e.task == Task::multiclass ? e.loss.class_weight.list : e.loss.pos_weight.list)
                     .per_sample(logits, targets));
}

// Two updates at the base rate.
std::string update_of(const Experiment& e) {
  const at::Tensor weights = at::tensor({1.0F, -2.0F, 0.5F, 0.0F});
  Optimizer optimizer(e.optimizer, weights);
  for (const float scale : {1.0F, -0.3F}) {
    optimizer.begin_update(e.optimizer.learning_rate);
    optimizer.update({0, 4}, at::tensor({0.1F, -0.3F, 0.2F, 0.01F}) * scale);
  }
  return text_of(weights);
}

// Of all epochs' steps; what plateau watches rises from epoch to epoch.
std::string rates_of(const Experiment& e) {
  constexpr int64_t kSteps = 5;
  Schedule schedule(e.schedule, e.optimizer.learning_rate, std::max<int64_t>(1, e.distributed.logical_ranks), kSteps,
                    e.epochs);
  std::string text;
  for (int64_t step = 0; step < kSteps * e.epochs; ++step) {
    text += shortest(schedule.rate(step)) + " ";
    if ((step + 1) % kSteps == 0) schedule.end_epoch(step + 1, static_cast<double>(step));
  }
  return text;
}

// --- the rows

struct Row {
  std::string key;
  std::string value;        // one that is not the default
  Lines base = kSynthetic;  // settings with which it has an effect
  Witness witness = nullptr;
  std::string shown_by = "";     // "file: test", if it is not checked here
  std::vector<Lines> idle = {};  // settings with which it has none
};

Row seen(const std::string& key, const std::string& value, Witness witness, const Lines& beside = {},
         const std::vector<Lines>& idle = {}) {
  return {key, value, with(kSynthetic, beside), witness, "", idle};
}

Row elsewhere(const std::string& key, const std::string& value, const Lines& base, const std::string& by,
              const std::vector<Lines>& idle = {}) {
  return {key, value, base, nullptr, by, idle};
}

std::vector<Row> all_rows() {
  const std::string augmented = "tests/e2e/augment_test.py: test_each_key_does_something";
  const std::string masks = "tests/unit/data/dataset_test.cpp: a folder per sample unites its masks";
  const std::string columns = "tests/unit/data/label_file_test.cpp: one label column is a class, or several joined";
  const std::string records =
      "tests/unit/data/records_test.cpp: labels in TFRecords are numbers, names, flags or lists";
  const std::string members = "tests/unit/data/records_test.cpp: members of an archive with one key are one sample";
  const std::string masks_in_records =
      "tests/unit/data/records_test.cpp: masks in TFRecords and archives make a segmentation set";
  const std::string patients = "tests/unit/data/records_test.cpp: patients in records are groups of the split";
  const std::string uncertain =
      "tests/unit/data/label_file_test.cpp: uncertain labels of CheXpert count as the policy of their observation says";
  const std::string list_files =
      "tests/unit/data/split_test.cpp: list files name parts by path, base name or first word";
  const std::string folders = "tests/unit/data/split_test.cpp: parts by folder hold what lies beneath them";
  const std::string free_keys = "tests/e2e/resume_test.py: test_keys_outside_the_fingerprint_may_change";
  const std::string gpu = "tests/e2e/device_test.py: test_a_gpu_that_is_asked_for_and_not_there";
  const std::string other_ranks = "tests/unit/train/trainer_test.cpp: other reductions train as well";
  const std::string mixed = "tests/unit/train/trainer_test.cpp: mixed pictures and labels have the same bits";
  const std::string limits = "tests/unit/watch/watchdog_test.cpp: a stall is noticed and told with section and step";
  const std::string early = "tests/e2e/stop_test.py: test_a_run_ends_where_its_monitor_has_not_improved";
  const Lines sgd = {"optimizer.name=sgd"};
  const Lines cosine = {"schedule.decay.name=cosine"};
  const Lines plateau = {"schedule.decay={name: plateau, patience: 0}"};
  const Lines window = {"data.image.window=[16, 16]"};
  const Lines two_ranks = {"distributed.logical_ranks=2"};
  const Lines sequential = with(kFolder, {"data.loader.pipeline=sequential"});
  const Lines no_shares = with(kFolder, {"data.split={valid: 0, test: 0}"});
  const Lines lists = with(kFolder, {"data.split.files={train: a, valid: b}"});
  const Lines by_order = with(kFolder, {"data.split.by=order"});
  const Lines flat = {"schedule.scale_with_ranks=none"};
  return {
      elsewhere("name", "other", kPlain, free_keys),
      seen("task", "multiclass", data_of),
      seen("seed", "7", network_of),
      elsewhere("on_nan", "skip", kPlain,
                "tests/unit/train/trainer_test.cpp: a step whose loss is no number is skipped where that is asked for"),
      seen("epochs", "8", rates_of, cosine),
      elsewhere("precision", "bf16", kPlain, "tests/e2e/same_bits_test.py: test_bfloat16_with_batch_normalisation"),
      elsewhere("device", "cuda", kPlain, gpu),
      elsewhere("deterministic", "false", kPlain,
                "tests/gpu/gpu_graph_test.cpp: a recorded step on the GPU has the bits"),
      elsewhere("cuda_graphs", "true", kPlain, "tests/gpu/gpu_graph_test.cpp: a recorded step on the GPU has the bits"),
      elsewhere(
          "model.name", "resnet50", kPlain,
          "tests/unit/model/network_test.cpp: the layer list has the network's parameters, shapes and multiply-adds"),
      elsewhere("model.outputs", "14", kPlain,
                "tests/unit/config/conflicts_test.cpp: what a format needs must be there, and the task must fit"),
      elsewhere("model.weights", "w.safetensors", kPlain,
                "tests/unit/model/weights_test.cpp: weights that fit are loaded whole, statistics and counters too"),
      seen("model.base_width", "4", network_of, {"model={name: unet, base_width: 2}", "data.image.size=[32, 32]"},
           {kPlain, with(kMask, {"model.encoder=resnet18"})}),
      seen("model.levels", "3", network_of,
           {"model={name: unet, base_width: 2, levels: 2}", "data.image.size=[32, 32]"},
           {kPlain, with(kMask, {"model.encoder=resnet18"})}),
      seen("model.encoder", "resnet34", network_of,
           {"model={name: unet, encoder: resnet18}", "data.image.size=[32, 32]"}, {kPlain}),
      seen("model.dropout", "0.25", network_of, {}, {kPlain}),
      seen("model.fused", "false", network_of, {"model.name=densenet121", "data.image.size=[64, 64]"}),
      elsewhere("loss.name", "bce", kPlain,
                "tests/unit/model/loss_test.cpp: a loss that does not fit its task is a configuration error"),
      seen("loss.pos_weight", "[1, 2, 3]", loss_of, {}, {kMulticlass}),
      elsewhere("loss.l2_kernels", "0.1", kPlain,
                "tests/unit/train/trainer_test.cpp: another V, another batch or a penalty gives other bits"),
      seen("loss.class_weight", "[1, 2, 3]", loss_of, {"task=multiclass"}, {kPlain}),
      seen("loss.gamma", "5", loss_of, {"loss.name=focal"}, {kPlain, kMulticlass}),
      elsewhere("loss.dice", "per_rank",
                {"data.format=synthetic", "model.name=unet", "data.image.size=[32, 32]", "loss.name=dice"},
                "tests/unit/train/batch_loss_test.cpp: V cuts nothing of a batch loss", {kPlain}),
      seen("loss.deep_supervision", "true", network_of,
           {"model={name: unet, base_width: 2, levels: 3}", "data.image.size=[32, 32]"},
           {kPlain, with(kMask, {"model.levels=2"})}),
      seen("loss.label_smoothing", "0.1", loss_of, {"task=multiclass"}, {kPlain}),
      elsewhere("data.format", "synthetic", {}, "tests/unit/data/dataset_test.cpp: a task that the format cannot give"),
      elsewhere("data.root", "/e", {"data.format=image_folder"},
                "tests/unit/data/dataset_test.cpp: a root that is not there, or is a file, names data.root", {kPlain}),
      elsewhere("data.labels", "/m.csv", {"data.format=nih_cxr14", "data.root=/d"},
                "tests/unit/data/label_file_test.cpp: a label file that is not there names data.labels",
                {kPlain, kFolder}),
      elsewhere(
          "data.on_missing", "skip", kNih,
          "tests/unit/data/label_file_test.cpp: every picture that the table names but the folder lacks is listed",
          {kPlain, kFolder}),
      seen("data.classes", "[pattern_0, pattern_2]", data_of, {}, {kMask}),
      elsewhere("data.allow_links", "true", kFolder,
                "tests/unit/data/dataset_test.cpp: links are followed beneath the root, beyond it only when allowed",
                {kPlain}),
      seen("data.sampling", "balanced", order_of, {}, {kMask}),
      seen("data.distribute", "batches", order_of, two_ranks),
      elsewhere("data.loader.threads", "3", kFolder,
                "tests/unit/data/loader_test.cpp: the number of threads is as asked", {sequential}),
      elsewhere("data.loader.prefetch", "4", kFolder,
                "tests/unit/data/loader_test.cpp: no more batches than asked for are made ahead", {sequential}),
      elsewhere("data.loader.interleave", "4", kTfrecord,
                "tests/e2e/loader_test.py: test_the_records_asked_for_at_once_do_not_show", {kFolder, kPlain}),
      elsewhere("data.loader.decompressed_mb", "4", kWebdataset,
                "tests/unit/data/records_test.cpp: compressed record files are held up to data.loader.decompressed_mb",
                {kFolder, kPlain}),
      elsewhere("data.loader.cache", "ram", kFolder,
                "tests/e2e/loader_test.py: test_the_result_is_the_same_with_a_cache_in_shared_memory"),
      elsewhere("data.loader.on_bad_sample", "replace", kFolder,
                "tests/unit/data/bad_samples_test.cpp: a bad sample is replaced by the picture and label of another",
                {kPlain}),
      elsewhere("data.loader.max_bad", "3", with(kFolder, {"data.loader.on_bad_sample=replace"}),
                "tests/e2e/loader_test.py: test_bad_samples_end_the_run_where_they_are_not_replaced_or_too_many",
                {kFolder}),
      elsewhere("data.loader.pipeline", "sequential", kPlain,
                "tests/e2e/loader_test.py: test_the_old_pipeline_takes_the_same_file_and_gives_the_same_result"),
      elsewhere("data.chexpert.uncertain", "ones", kChexpert, uncertain, {kPlain}),
      elsewhere("data.chexpert.uncertain_labels", "{Edema: ones}", kChexpert, uncertain, {kNih}),
      elsewhere("data.chexpert.unmentioned", "ignore", kChexpert, uncertain, {kNih}),
      elsewhere("data.csv.path", "file", kCsv, columns, {kPlain}),
      elsewhere("data.csv.labels", "[a, b]", with(kCsv, {"data.csv.label="}),
                "tests/unit/data/label_file_test.cpp: label columns are 1, 0 or empty for unknown", {kNih}),
      elsewhere("data.csv.label", "b", kCsv, columns, {kNih}),
      elsewhere("data.csv.separator", "';'", kCsv, columns, {kNih}),
      elsewhere(
          "data.csv.split", "set", kCsv,
          "tests/unit/data/layouts_test.cpp: a column names the parts; one without validation rows leaves a share of "
          "what trains, patients whole",
          {kNih, with(kCsv, {"data.split.files.train=a"})}),
      elsewhere("data.csv.group", "patient", kCsv,
                "tests/unit/data/label_file_test.cpp: label columns are 1, 0 or empty", {kNih}),
      elsewhere("data.image_mask.images", "i", kMask, masks, {kFolder}),
      elsewhere("data.image_mask.masks", "m", kMask, masks, {kFolder}),
      elsewhere("data.image_mask.mask_suffix", "_mask", kMask,
                "tests/unit/data/dataset_test.cpp: masks may have a suffix after their pictures' names", {kFolder}),
      elsewhere("data.image_mask.mask_values", "{1: 1}", kMask,
                "tests/unit/data/dataset_test.cpp: pixels of a mask are counted by class, and its raw values told",
                {kFolder}),
      seen("data.synthetic.samples", "13", data_of, {}, {kFolder}),
      seen("data.synthetic.classes", "4", data_of, {}, {kFolder}),
      elsewhere("data.tfrecord.image", "i", kTfrecord, records, {kWebdataset}),
      elsewhere("data.tfrecord.label", "l", kTfrecord, records,
                {kWebdataset, with(kTfrecord, {"data.tfrecord.mask=m", "model.name=unet"})}),
      elsewhere("data.tfrecord.names", "[a, b]", kTfrecord, records, {kPlain}),
      elsewhere("data.tfrecord.group", "p", kTfrecord, patients, {kPlain}),
      elsewhere("data.tfrecord.mask", "m", with(kTfrecord, {"model.name=unet"}), masks_in_records, {kPlain}),
      elsewhere("data.webdataset.image", "[png]", kWebdataset, members, {kTfrecord}),
      elsewhere("data.webdataset.label", "json:l", kWebdataset, members,
                {kTfrecord, with(kWebdataset, {"data.webdataset.mask=m", "model.name=unet"})}),
      elsewhere("data.webdataset.names", "[a, b]", kWebdataset, members, {kPlain}),
      elsewhere("data.webdataset.group", "p", kWebdataset, patients, {kPlain}),
      elsewhere("data.webdataset.mask", "m", with(kWebdataset, {"model.name=unet"}), masks_in_records, {kPlain}),
      seen("data.split.valid", "0.3", split_of, {}, {lists, with(kFolder, {"data.split.fold=1 of 3"})}),
      seen("data.split.test", "0.3", split_of, {}, {lists}),
      seen("data.split.by", "order", split_of, {"data.split.valid=0.3"}, {lists, no_shares}),
      seen("data.split.seed", "9", split_of, {"data.split.valid=0.3"}, {lists, by_order, no_shares}),
      seen("data.split.fold", "2 of 3", split_of, {}, {lists}),
      elsewhere("data.split.stratify", "true", kFolder,
                "tests/unit/data/split_test.cpp: a stratified split gives every class its share",
                {lists, by_order, no_shares, kPlain}),
      elsewhere("data.split.files.train", "a", kFolder, list_files, {kPlain}),
      elsewhere("data.split.files.valid", "a", kFolder, list_files, {kPlain}),
      elsewhere("data.split.files.test", "a", kFolder, list_files, {kPlain}),
      elsewhere("data.split.folders.train", "a", kFolder, folders, {kPlain}),
      elsewhere("data.split.folders.valid", "a", kFolder, folders, {kPlain}),
      elsewhere("data.split.folders.test", "a", kFolder, folders, {kPlain}),
      seen("data.image.size", "[24, 24]", batch_of),
      seen("data.image.window", "[16, 16]", batch_of),
      seen("data.image.channels", "1", batch_of),
      elsewhere("data.image.files", "[_0000, _0001]", kFolder,
                "tests/unit/data/picture_channels_test.cpp: the files of a picture are its channels",
                {kPlain, kTfrecord}),
      elsewhere("data.image.slices", "3", kFolder,
                "tests/unit/data/picture_channels_test.cpp: a page is seen between its neighbours",
                {kPlain, kTfrecord}),
      elsewhere("data.image.resize", "pad", kFolder,
                "tests/unit/data/transform_test.cpp: pad keeps the aspect, centred on black", {kPlain}),
      seen("data.image.range", "[10, 200]", batch_of),
      seen("data.image.mean", "[0.1, 0.2, 0.3]", batch_of),
      seen("data.image.std", "[0.1, 0.2, 0.3]", batch_of),
      seen("data.augment.hflip", "1", batch_of),
      seen("data.augment.vflip", "1", batch_of),
      seen("data.augment.rot90", "1", batch_of),
      seen("data.augment.random_window", "true", batch_of, window, {kPlain}),
      seen("data.augment.random_crop", "[0.2, 0.5]", batch_of),
      seen("data.augment.random_crop_aspect", "[2, 3]", batch_of, {"data.augment.random_crop=[0.2, 0.5]"}, {kPlain}),
      seen("data.augment.rotate", "40", batch_of),
      seen("data.augment.scale", "0.4", batch_of),
      seen("data.augment.translate", "0.4", batch_of),
      seen("data.augment.elastic", "4", batch_of),
      seen("data.augment.elastic_grid", "6", batch_of, {"data.augment.elastic=4"}, {kPlain}),
      seen("data.augment.blur", "3", batch_of),
      seen("data.augment.brightness", "0.5", batch_of),
      seen("data.augment.contrast", "0.5", batch_of),
      seen("data.augment.gamma", "2", batch_of),
      seen("data.augment.noise", "0.2", batch_of),
      seen("data.augment.cutout", "0.5", batch_of),
      seen("data.augment.trivial_augment", "true", batch_of),
      elsewhere("data.augment.mixup", "0.4", kPlain, mixed),
      elsewhere("data.augment.cutmix", "1", kPlain, mixed),
      seen("batch.per_rank", "3", order_of),
      seen("batch.global", "5", order_of, {"batch.per_rank="}),
      seen("batch.accumulate", "2", order_of),
      seen("batch.last", "drop", order_of, {"batch.per_rank=5"}),
      seen("optimizer.name", "adagrad", update_of),
      seen("optimizer.learning_rate", "0.3", rates_of),
      seen("optimizer.weight_decay", "0.1", update_of),
      elsewhere("optimizer.decay_norms", "false", with(kPlain, {"optimizer.weight_decay=0.1"}),
                "tests/unit/train/replica_test.cpp: weight decay leaves biases and norms alone where that is asked for",
                {kPlain}),
      elsewhere("optimizer.groups", "[{match: \"features.*\", rate: 0.1}]", kPlain,
                "tests/unit/train/replica_test.cpp: a frozen parameter needs no gradient, and neither gradients nor"),
      elsewhere("optimizer.freeze_until", "1 epochs",
                with(kPlain, {"epochs=9", "optimizer.groups=[{match: \"*.bias\", freeze: true}]"}),
                "tests/unit/train/trainer_test.cpp: frozen parameters thaw when it is time", {kPlain}),
      elsewhere("optimizer.clip_norm", "0.5", kPlain,
                "tests/unit/train/trainer_test.cpp: accumulation, clipping and momentum keep the bits on any number of "
                "ranks"),
      seen("optimizer.momentum", "0.9", update_of, sgd, {kPlain}),
      seen("optimizer.nesterov", "true", update_of, {"optimizer={name: sgd, momentum: 0.9}"}, {kPlain}),
      seen("optimizer.betas", "[0.5, 0.6]", update_of, {"optimizer.name=adam"}, {with(kPlain, sgd)}),
      seen("optimizer.eps", "0.01", update_of, {"optimizer.name=adam"}, {with(kPlain, sgd)}),
      elsewhere("optimizer.trust_coefficient", "0.02", with(kPlain, {"optimizer.name=lars"}),
                "tests/unit/optim/optimizer_test.cpp: an optimizer reads the keys of its row and no others", {kPlain}),
      seen("optimizer.rho", "0.5", update_of, {"optimizer.name=adadelta"}, {kPlain}),
      seen("schedule.scale_with_ranks", "sqrt", rates_of, two_ranks),
      seen("schedule.warmup", "2 epochs", rates_of, two_ranks,
           {with(kPlain, flat), with(kPlain, {"batch.global=8", "epochs=4"})}),
      seen("schedule.decay.name", "cosine", rates_of),
      seen("schedule.decay.factor", "0.4", rates_of, {"schedule.decay={name: step, every: 1 epochs}"},
           {kPlain, with(kPlain, cosine)}),
      seen("schedule.decay.every", "2 epochs", rates_of, {"schedule.decay.name=step"}, {kPlain}),
      seen("schedule.decay.at", "[3 steps]", rates_of, {"schedule.decay={name: multistep, at: [2 epochs]}"}, {kPlain}),
      seen("schedule.decay.final", "0.5", rates_of, cosine, {kPlain}),
      seen("schedule.decay.stretch", "2", rates_of, {"schedule.decay={name: cosine_restarts, every: 1 epochs}"},
           {kPlain, with(kPlain, cosine)}),
      seen("schedule.decay.power", "2", rates_of, {"schedule.decay.name=poly"}, {kPlain, with(kPlain, cosine)}),
      elsewhere("early_stop.patience", "3", with(kPlain, {"epochs=9"}), early),
      elsewhere("early_stop.monitor", "train.loss", with(kPlain, {"epochs=9", "early_stop.patience=3"}), early,
                {kPlain}),
      elsewhere("early_stop.min_delta", "100", with(kPlain, {"epochs=9", "early_stop.patience=3"}), early, {kPlain}),
      elsewhere(
          "ema.decay", "0.99", kPlain,
          "tests/unit/train/trainer_test.cpp: the average of the weights has the same bits on any ranks, through"),
      seen("schedule.decay.patience", "1", rates_of, plateau, {kPlain, with(kPlain, cosine)}),
      seen("schedule.decay.monitor", "valid.auroc", rates_of, plateau, {kPlain}),
      seen("distributed.logical_ranks", "2", order_of),
      elsewhere("distributed.threads", "2", kPlain,
                "tests/unit/data/loader_test.cpp: the number of threads is as asked, or what the process may use less "
                "those that"),
      elsewhere("distributed.backend", "nccl", kPlain, "tests/e2e/device_test.py: test_nccl_needs_gpus"),
      elsewhere("distributed.share_device", "true", with(kPlain, {"distributed.backend=mpi"}),
                "tests/e2e/device_test.py: test_sharing_needs_mpi"),
      elsewhere("distributed.reduction", "ring", kPlain, other_ranks),
      elsewhere("distributed.intra_host", "network", kPlain,
                "tests/e2e/bad_input_test.py: distributed.intra_host=network"),
      elsewhere("distributed.bucket_mb", "3", kPlain,
                "tests/unit/dist/reducer_test.cpp: reduced gradients have the tree's bits"),
      elsewhere("distributed.check_every", "7", kPlain,
                "tests/unit/train/replica_check_test.cpp: an interval that is given is kept"),
      elsewhere("distributed.watchdog.warn", "20 s", kPlain,
                "tests/e2e/watchdog_test.py: test_a_slow_rank_is_warned_of_and_the_job_goes_on",
                {with(kPlain, {"distributed.watchdog.abort=10 s"})}),
      elsewhere("distributed.watchdog.abort", "100 s", kPlain, limits),
      elsewhere("checkpoint.every", "5 steps", kPlain, "tests/e2e/stop_test.py: test_time_between_checkpoints"),
      elsewhere(
          "checkpoint.keep", "1", kPlain,
          "tests/unit/checkpoint/checkpoint_test.cpp: the newest valid checkpoint is found, damaged ones are named"),
      elsewhere("checkpoint.max_failed", "1", kPlain,
                "tests/e2e/stop_test.py: test_saves_that_fail_are_told_and_do_not_end_training_before_max_failed"),
      elsewhere("checkpoint.best.monitor", "valid.loss", kPlain,
                "tests/e2e/commands_test.py: test_a_lower_loss_can_decide_what_is_best"),
      elsewhere("checkpoint.best.mode", "min", with(kPlain, {"checkpoint.best.monitor=valid.loss"}),
                "tests/unit/config/conflicts_test.cpp: the best is the smallest of a loss and the largest of all else"),
      elsewhere("output.dir", "/elsewhere", kPlain, "tests/e2e/commands_test.py: output.dir="),
      elsewhere("output.tensorboard", "true", kPlain, "tests/e2e/resume_test.py: output.tensorboard"),
  };
}

std::string value_of(const Config& config, const std::string& key) {
  const auto found = config.values.find(key);
  return found == config.values.end() ? "" : found->second.text;
}

std::string refusal_of(const Lines& lines) {
  try {
    from_overrides(lines);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every key of the schema is walked here, once, and those that may be without effect say beside what") {
  std::map<std::string, const Row*> rows;
  const std::vector<Row> all = all_rows();
  for (const Row& row : all) {
    INFO(row.key);
    CHECK(rows.emplace(row.key, &row).second);
  }
  Experiment any;
  for (const Key& key : describe(any)) {
    INFO(key.name);
    const auto row = rows.find(key.name);
    REQUIRE(row != rows.end());
    const bool conditional = !key.only_when.empty() || !key.idle_unless.empty();
    if (key.name != "batch.per_rank") CHECK(row->second->idle.empty() != conditional);  // its conflict has its own test
    rows.erase(row);
  }
  for (const auto& [key, row] : rows) FAIL_CHECK(key + " is not a key of the schema");
}

TEST_CASE("every key changes what it says it changes", "[long]") {
  const std::set<std::string> needed = {"data.format",     "data.root",          "data.labels",
                                        "data.csv.labels", "data.tfrecord.mask", "data.webdataset.mask"};
  at::set_num_threads(1);
  for (const Row& row : all_rows()) {
    INFO(row.key << "=" << row.value);
    if (!needed.contains(row.key)) CHECK(refusal_of(row.base).empty());
    const Lines lines = with(row.base, {row.key + "=" + row.value});
    CHECK(refusal_of(lines).empty());
    if (row.witness == nullptr) continue;
    const Config before = from_overrides(row.base);
    const Config after = from_overrides(lines);
    CHECK(value_of(after, row.key) != value_of(before, row.key));
    const std::string found = row.witness(after.experiment);
    CHECK(found != row.witness(before.experiment));
    CHECK(found == row.witness(from_overrides(lines).experiment));
  }
}

TEST_CASE("every key is refused where it has no effect; the default of one that was always printed is accepted there") {
  std::map<std::string, std::string> defaults;
  std::map<std::string, bool> always_printed;
  Experiment any;
  for (const Key& key : describe(any)) {
    defaults[key.name] = key.codec.print();
    always_printed[key.name] = key.only_when.empty();
  }
  for (const Row& row : all_rows())
    for (const Lines& beside : row.idle) {
      std::string shown_lines;
      for (const std::string& line : beside) shown_lines += line + "  ";
      INFO(shown_lines << row.key << "=" << row.value);
      CHECK(refusal_of(beside).empty());
      const std::string refusal = refusal_of(with(beside, {row.key + "=" + row.value}));
      INFO(refusal);
      CHECK(holds(refusal, row.key + " has no effect here: only when "));
      CHECK(refusal.find('\n') == std::string::npos);
      if (always_printed[row.key]) CHECK(refusal_of(with(beside, {row.key + "=" + defaults[row.key]})).empty());
    }
}

TEST_CASE("the test that shows what a key does is there") {
  if (!std::filesystem::exists(source_folder() + "/tests/unit")) return;  // a bundle has no sources
  for (const Row& row : all_rows()) {
    INFO(row.key << ": " << row.shown_by);
    if (row.witness != nullptr) {
      CHECK(row.shown_by.empty());
      continue;
    }
    const size_t colon = row.shown_by.find(": ");
    REQUIRE(colon != std::string::npos);
    const std::string path = source_folder() + "/" + row.shown_by.substr(0, colon);
    REQUIRE(std::filesystem::exists(path));
    CHECK(holds(read_text(path, 1 << 20), row.shown_by.substr(colon + 2)));
  }
}
