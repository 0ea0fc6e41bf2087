// The options of each command. What they mean to the program is described beside their fields (command_line.hpp).
#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "line/command_table.hpp"
#include "line/help_page.hpp"

namespace dtrain {

// CLI11's own PositiveNumber prints the largest double as the limit.
static const CLI::Validator kCount(
    [](std::string& word) {
      const bool good = word.size() < 19 && word.find_first_not_of("0123456789") == std::string::npos &&
                        word.find_first_not_of('0') != std::string::npos;
      return good ? std::string() : "'" + word + "' is not a whole number above 0";
    },
    "");

CLI::Option* add_count(CLI::App& app, const std::string& name, int64_t& field, const std::string& doc) {
  return app.add_option(name, field, doc)->check(kCount)->type_name("N");
}

CLI::Option* add_counts(CLI::App& app, const std::string& name, std::vector<int64_t>& field, const std::string& doc) {
  const auto take = [&field, name](const CLI::results_t& typed) {  // CLI11's own delimiter leaves out what is empty
    field.clear();
    for (std::string word : split_text(typed.back(), ',')) {
      if (const std::string wrong = kCount(word); !wrong.empty())
        throw UsageError(name + ": '" + typed.back() + "' is not a list of whole numbers: " + wrong +
                         "; write them as 1,2,4");
      field.push_back(std::stoll(word));
    }
    return true;
  };
  return app.add_option(name, take, doc)->expected(1)->allow_extra_args(false)->type_name("N,N…");
}

// From pictures to a network that is used; each line can be typed as it is, after those above it. The other pages go
// on from there.
static HelpPage::Examples first_examples() {
  return {{"dtrain sample --kind chips --output sample/chips", "a small generated data set; or take your own"},
          {"dtrain init sample/chips --output chips.yaml", "a configuration for it"},
          {"dtrain check chips.yaml", "all that can be known before training"},
          {"dtrain --config chips.yaml epochs=4", "train; a key on the command line wins"},
          {"mpirun -np 2 --bind-to none dtrain --config chips.yaml epochs=4 name=two", "by two processes"},
          {"dtrain eval --checkpoint runs/chips", "metrics of the best weights of a run"},
          {"dtrain predict --checkpoint runs/chips --input sample/chips/good --output scores",
           "scores of pictures without labels"},
          {"dtrain export --checkpoint runs/chips --output chips.onnx", "the network for other programs"},
          {"dtrain report runs/chips", "curves, times and metrics as a page"},
          {"dtrain eval --checkpoint runs/two && dtrain compare runs/chips runs/two",
           "what differs, and whether one is better"}};
}

void CommandTable::add_train() {
  CLI::App& app = app_;
  app.formatter(std::make_shared<HelpPage>("--config FILE [KEY=VALUE …] [options]\n       dtrain COMMAND [options]",
                                           first_examples(), true));
  add_common(app);
  add_config(app, train_.config);
  app.add_option("--run-dir", train_.run_dir,
                 "the run's folder (default: output.dir/name, in the working directory runs/NAME)")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--resume", [this](const std::string& text) { train_.resume = ResumeFrom::of(text); },
         "auto: resume from the newest valid checkpoint in the run's folder; never: move a used folder aside; or a "
         "checkpoint, or a run's folder for its newest one")
      ->default_str(train_.resume.text())
      ->type_name("auto|never|PATH");
  app.add_option("--resume-with", train_.resume_with,
                 "a key that may differ from the checkpoint's configuration; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("KEY");
  app.add_flag("--dry-run", train_.dry_run,
               "build everything, take one step (with --limit-steps so many, and some validation), write nothing");
  add_count(app, "--limit-steps", train_.limit_steps,
            "end after N updates of this start, with a checkpoint (default: no limit)");
  app.add_option_function<std::string>(
         "--max-time",
         [this](const std::string& text) {
           const std::optional<Duration> time = parse_duration(text);
           if (!time || time->unit != Duration::Unit::seconds || time->amount <= 0)
             throw CLI::ValidationError("--max-time",
                                        "'" + text + "' is not a time; write it like 3h55m or 90 minutes");
           train_.max_time_s = time->amount;
         },
         "stop in time to be done after this long, such as 3h55m, with a checkpoint and exit code 75 (default: no "
         "limit)")
      ->type_name("TIME");
  app.add_option(
         "--trace", train_.trace,
         "write a timeline of steps, buckets and loader threads of all ranks, for ui.perfetto.dev (default: none)")
      ->type_name("FILE");
  app.add_flag("--log-all-ranks", train_.log_all_ranks,
               "give each rank a log of its own in the run's folder, log.rank-N.txt, with its times in each epoch");
  add_progress(app);
  filled_.emplace_back(&app, [this] {
    train_.words = typed_.all;
    train_.progress = progress();
    train_.config = with_words(train_.config, true);
    if (train_.dry_run && !train_.trace.empty())
      throw UsageError(
          "--dry-run writes nothing, so it has no --trace; --limit-steps 10 --trace FILE makes a short one");
    return train_;
  });
}

void CommandTable::add_check() {
  CLI::App& app =
      command(app_, "check",
              "everything that can be known before queueing: configuration, files, labels, leaks, network, steps",
              "--config FILE [KEY=VALUE …] [options]",
              {{"dtrain check chips.yaml", "the whole data set, every picture decoded"},
               {"dtrain check chips.yaml batch.per_rank=16 --world-size 8", "as the job of 8 processes will see it"},
               {"dtrain check chips.yaml --quick", "in seconds: only the pictures' headers"},
               {"dtrain check chips.yaml --preview sheet.png", "what the network will see, as a picture"},
               {"dtrain bench step -c chips.yaml --json > step.json", "measure a few steps"},
               {"dtrain check chips.yaml --from step.json", "and how long training will take, by that measurement"}},
              [this] {
                check_.progress = typed_.quiet ? ProgressMode::none : ProgressMode::automatic;
                check_.config = with_words(check_.config, true);
                return check_;
              });
  add_config(app, check_.config);
  add_count(app, "--world-size", check_.world_size, "processes that the job will have")->capture_default_str();
  app.add_option(
         "--from", check_.from,
         "for the time it will take: a run's folder, or what dtrain bench step, input or comm wrote with --json, "
         "as for dtrain simulate; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("PATH");
  app.add_option(
         "--cluster", check_.cluster,
         "description of the machine that it will run on, as for dtrain simulate (default: one machine with a core "
         "for every process)")
      ->type_name("FILE");
  app.add_flag(
      "--quick", check_.quick,
      "read only the pictures' headers: no damaged or equal pictures, blank ones or values of masks are found");
  app.add_option("--preview", check_.preview,
                 "write a contact sheet of what the network will see: training pictures after augmentation, with "
                 "labels and masks (PNG; default: none)")
      ->type_name("FILE");
  app.add_option("--output", check_.output, "file for what was found, as JSON, with every bad sample and duplicate")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_flag("--json", check_.json, kJson);
}

static ThresholdFrom threshold_from(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string part = text.substr(0, colon);
  const auto rule = colon == std::string::npos ? std::nullopt : ThresholdRule::of(text.substr(colon + 1));
  if (!rule || (part != "train" && part != "valid" && part != "test"))
    throw CLI::ValidationError("--threshold-from", "'" + text +
                                                       "' is not a part and a rule: write train, valid or test, a "
                                                       "colon, and " +
                                                       ThresholdRule::forms());
  return {part, *rule, text};
}

void CommandTable::add_eval() {
  CLI::App& app = command(
      app_, "eval",
      "metrics of a checkpoint or weights file over a whole part, with 95 % intervals; writes tables of "
      "predictions, figures and curves",
      "--checkpoint PATH [--config FILE] [KEY=VALUE …] [options]",
      {{"dtrain eval --checkpoint runs/chips", "the best weights of a run, on its validation part"},
       {"dtrain eval --checkpoint runs/chips --split test", "on its test part"},
       {"dtrain eval --checkpoint runs/chips --calibrate", "fit a temperature on the validation part and keep it"},
       {"dtrain eval --checkpoint runs/xray --threshold-from valid:youden",
        "labels: with thresholds chosen on the validation part"},
       {"dtrain eval --checkpoint runs/cells --masks", "segmentation: with the predicted masks"},
       {"dtrain eval -c chips.yaml --checkpoint runs/chips/best.safetensors --split test --output elsewhere",
        "on the data of a configuration, predictions into another folder"}},
      [this] {
        eval_.config = with_words(eval_.config, false);
        const bool prints = eval_.config.print_config && !eval_.config.sources.files.empty();
        if (eval_.checkpoint.empty() && !prints && !eval_.config.print_schema)
          throw UsageError("dtrain eval needs --checkpoint PATH, such as runs/NAME or runs/NAME/best.safetensors");
        return eval_;
      });
  add_config(app, eval_.config);
  app.add_option("--checkpoint", eval_.checkpoint,
                 "checkpoint, best.safetensors, or a run's folder for its best.safetensors; without --config its own "
                 "configuration holds")
      ->type_name("PATH");
  add_choice(app, "--split", eval_.split, {"train", "valid", "test"}, "the part to evaluate");
  app.add_flag("--allow-trained", eval_.allow_trained,
               "evaluate even if the part holds patients or pictures that the weights file lists as trained on; "
               "--split train never needs it");
  app.add_flag(
      "--calibrate", eval_.calibrate,
      "fit a temperature on this part, by which the logits are divided from then on; it is kept in the weights "
      "file");
  app.add_option_function<std::string>(
         "--threshold-from", [this](const std::string& text) { eval_.threshold_from = threshold_from(text); },
         "labels: choose on one part from which probability on each is called positive: " + ThresholdRule::forms() +
             "; kept in the weights file too (default: 0.5)")
      ->type_name("PART:RULE");
  app.add_flag("--masks", eval_.masks,
               "segmentation: also write the predicted masks, of each picture's own size, into masks_SPLIT/, and "
               "cases_SPLIT.png, a sheet of the best, median and worst pictures with outlines");
  app.add_option("--output", eval_.output,
                 "folder of predictions_SPLIT.csv, metrics_SPLIT.json, curves_SPLIT.csv, confusion_SPLIT.csv, and of "
                 "masks_SPLIT/ and cases_SPLIT.png with --masks (default: the run's folder)")
      ->type_name("DIR");
  app.add_flag("--json", eval_.json, kJson);
}

void CommandTable::add_pack() {
  CLI::App& app = command(
      app_, "pack", "decode and resize a data set once, into shards that any number of ranks can read at any offset",
      "--config FILE --output DIR [KEY=VALUE …] [options]",
      {{"dtrain pack -c chips.yaml --output packed", "then train with the lines that it prints"},
       {"mpirun -np 2 --bind-to none dtrain pack -c chips.yaml --output packed2", "by 2 processes, the same bytes"},
       {"dtrain pack -c cells.yaml --output more --expand hflip,vflip", "with two more copies of each training sample"},
       {"dtrain pack -c chips.yaml --output tars --to webdataset", "for other programs"}},
      nullptr);
  filled_.emplace_back(&app, [this, &app] { return packed_as_typed(app); });
  add_config(app, pack_.config);
  app.add_option("--output", pack_.output, "folder of the shards: new, empty, or begun by the same job")
      ->type_name("DIR");
  add_choice(app, "--to", pack_.options.to,
             "packed: dtrain's own shards; tfrecord, webdataset: PNG or JPEG pictures for other programs");
  add_count(app, "--samples-per-shard", pack_.options.samples_per_shard, "records per shard; the last has the rest")
      ->capture_default_str();
  app.add_option("--expand", typed_.expand,
                 "copies of each training sample: vflip, hflip, rot180; for square pictures also rot90, rot270, "
                 "counter-clockwise (default: none)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("T,T…");
  add_choice(app, "--codec", pack_.options.codec,
             "packed: raw, pixels as they are, fastest; jpeg: smaller, not exact; deflate: smaller, exact, slower; "
             "others: PNG, or jpeg. Masks are "
             "always exact");
  app.add_option("--quality", pack_.options.jpeg_quality, "JPEG quality")
      ->check(unnamed(CLI::Range(1, 100)))
      ->capture_default_str()
      ->type_name("1…100");
  add_progress(app);
}

PackCommand CommandTable::packed_as_typed(const CLI::App& app) {
  PackCommand pack = pack_;
  pack.config = with_words(pack.config, true);
  pack.progress = progress();
  for (const std::string& name : typed_.expand) {
    const PackTurn turn = turn_named(name);
    if (std::count(pack.options.expand.begin(), pack.options.expand.end(), turn) > 0)
      throw UsageError("--expand names " + name + " twice");
    pack.options.expand.push_back(turn);
  }
  const bool jpeg = pack.options.codec == PackedCodec::jpeg;
  if (app.count("--codec") > 0 && !jpeg && pack.options.to != PackTo::packed)
    throw UsageError("--codec raw and deflate are for packed shards; others hold PNG, or JPEG with --codec jpeg");
  if (app.count("--quality") > 0 && !jpeg) throw UsageError("--quality has no effect without --codec jpeg");
  if (pack.output.empty() && !pack.config.print_config && !pack.config.print_schema)
    throw UsageError("dtrain pack needs --output DIR, the folder of the shards");
  return pack;
}

void CommandTable::add_sample() {
  CLI::App& app = command(
      app_, "sample", "write a small generated data set with known answers", "--kind KIND --output DIR [options]",
      {{"dtrain sample --kind chips --output sample/chips", "400 pictures of two classes, a folder each"},
       {"dtrain sample --kind xray --output sample/xray", "256 pictures of patients with 14 labels"},
       {"dtrain sample --kind cells --output sample/cells", "48 pictures with their masks"}},
      [this] {
        if (sample_.kind.empty() || sample_.output.empty())
          throw UsageError("dtrain sample needs --kind xray|chips|cells and --output DIR");
        if (!sample_.size.empty() && sample_.size.size() != 2) throw UsageError("--size wants height,width: 512,512");
        return sample_;
      });
  add_choice(app, "--kind", sample_.kind, {"xray", "chips", "cells"},
             "xray: 14 labels, patients; chips: folders of two classes; cells: pictures and masks");
  app.add_option("--output", sample_.output, "folder to write: new or empty")->type_name("DIR");
  add_count(app, "--count", sample_.count, "number of pictures (default: 256 xray, 400 chips, 48 cells)");
  add_counts(app, "--size", sample_.size,
             "height and width of the pictures, in pixels (default: 256,256 xray, 128,128 chips, 128,160 cells)")
      ->type_name("H,W");
  app.add_option("--seed", sample_.seed, "another seed gives other pictures")->capture_default_str()->type_name("N");
}

void CommandTable::add_info() {
  CLI::App& app = command(app_, "info", "build, library versions, devices, MPI, cores", "[options]",
                          {{"dtrain info", "what this machine has, and what dtrain uses of it"},
                           {"dtrain info --json | tail -1", "the same for a script"}},
                          [this] { return info_; });
  app.add_flag("--json", info_.json, kJson);
}

void CommandTable::add_verify() {
  CLI::App& app = command(
      app_, "verify", "check a checkpoint, a weights file, a run folder or packed data byte by byte; changes nothing",
      "PATH [options]",
      {{"dtrain verify runs/chips", "everything that a run wrote"},
       {"dtrain verify packed", "every record of packed data"}},
      [this] {
        if (verify_.path.empty())
          throw UsageError(
              "dtrain verify needs a PATH: a checkpoint, best.safetensors or a run folder, such as runs/NAME");
        return verify_;
      });
  app.add_option("path", verify_.path,
                 "checkpoint, best.safetensors, run folder or its checkpoints/, folder of packed shards or one of them")
      ->type_name("PATH");
  app.add_flag("--json", verify_.json, kJson);
}

void CommandTable::add_bench() {
  CLI::App& bench = command(app_, "bench", "how fast training steps, the loader and all-reduces are on these ranks",
                            "COMMAND [options]",
                            {{"dtrain bench step model.name=resnet50 batch.per_rank=8", "images/s of training only"},
                             {"dtrain bench input chips.yaml", "images/s of the loader only"},
                             {"mpirun -np 2 --bind-to none dtrain bench comm", "all-reduce, by algorithm and size"}},
                            nullptr);
  bench.require_subcommand(1);
  add_bench_step(bench);
  add_bench_input(bench);
  add_bench_comm(bench);
}

void CommandTable::add_bench_step(CLI::App& bench) {
  CLI::App& app = command(
      bench, "step",
      "training steps of the configured network on pictures in memory: images/s, share of the matrix peak",
      "[--config FILE] [KEY=VALUE …] [options]",
      {{"dtrain bench step model.name=resnet50 batch.per_rank=8", "without a configuration: pictures in memory"},
       {"mpirun -np 2 --bind-to none dtrain bench step -c chips.yaml --limit-steps 50",
        "the network and batch of a configuration"},
       {"dtrain bench step -c chips.yaml --json > step.json", "for dtrain check and dtrain simulate --from step.json"}},
      [this] {
        bench_step_.config = with_words(bench_step_.config, false);
        return bench_step_;
      });
  add_config(app, bench_step_.config);
  add_count(app, "--limit-steps", bench_step_.steps, "steps to measure; warm-up steps come on top")
      ->capture_default_str();
  app.add_flag("--json", bench_step_.json, kJson);
}

void CommandTable::add_bench_input(CLI::App& bench) {
  CLI::App& app = command(
      bench, "input",
      "the loader without a network: read, decode, transform and batch one by one, then batches in an epoch's order "
      "through the sequential and the parallel pipeline, and the latter up to the bytes that a GPU is given",
      "--config FILE [KEY=VALUE …] [options]",
      {{"dtrain bench input chips.yaml", "images/s of each stage and of both pipelines"},
       {"dtrain bench input chips.yaml --train-ms 180", "with training in between: which waits for which?"},
       {"dtrain bench input chips.yaml --json > input.json", "for dtrain check and dtrain simulate --from"},
       {"mpirun -np 2 --bind-to none dtrain bench input chips.yaml --load-ms 50 --train-ms 50 "
        "data.loader.threads=1",
        "only the pipelines, however fast the cores are"}},
      [this] {
        bench_input_.config = with_words(bench_input_.config, true);
        return bench_input_;
      });
  add_config(app, bench_input_.config);
  add_count(app, "--limit-steps", bench_input_.steps, "steps to measure; warm-up steps come on top")
      ->capture_default_str();
  app.add_option(
         "--load-ms", bench_input_.load_ms,
         "sleep instead of reading and decoding: milliseconds that one thread takes for a full batch (default: read)")
      ->check(number_within(0.0, 60'000.0))
      ->type_name("MS");
  app.add_option(
         "--train-ms", bench_input_.train_ms,
         "sleep after each batch for the milliseconds that forward and backward of it take, as dtrain bench step "
         "measures them (default: 0)")
      ->check(number_within(0.0, 60'000.0))
      ->type_name("MS");
  app.add_flag("--json", bench_input_.json, kJson);
}

void CommandTable::add_bench_comm(CLI::App& bench) {
  CLI::App& app = command(bench, "comm", "all-reduce of float32 by every algorithm, over sizes",
                          "[--config FILE] [KEY=VALUE …] [options]",
                          {{"mpirun -np 2 --bind-to none dtrain bench comm", "4 B to 256 MB"},
                           {"mpirun -np 2 --bind-to none dtrain bench comm --bytes 4,1000000 --json > comm.json",
                            "two sizes, for a script, dtrain check or dtrain simulate"}},
                          [this] {
                            bench_comm_.config = with_words(bench_comm_.config, false);
                            return bench_comm_;
                          });
  add_config(app, bench_comm_.config);
  add_counts(app, "--bytes", bench_comm_.bytes, "sizes in bytes, such as 4,1000000 (default: 4 B to 256 MB)");
  add_count(app, "--limit-steps", bench_comm_.repeat,
            "calls per size and algorithm (default: 1000 up to 4 KB, else 30 or 10)");
  app.add_flag("--json", bench_comm_.json, kJson);
}

}  // namespace dtrain
