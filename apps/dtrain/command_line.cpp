#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

constexpr const char* kFooter =
    "\nExamples:\n"
    "  dtrain sample --kind chips --output sample/chips            a small generated data set\n"
    "  dtrain check --config chexnet.yaml                          what can be known before queueing\n"
    "  mpirun -np 8 dtrain --config chexnet.yaml                   train on 8 processes\n"
    "  dtrain --config a.yaml --config site.yaml epochs=3          later files and key=value win\n"
    "  dtrain eval --config chexnet.yaml --checkpoint runs/chexnet/best.safetensors\n"
    "  dtrain pack --config chexnet.yaml --output packed           decode and resize once, then train from there\n"
    "  dtrain verify runs/chexnet                                  is everything that a run wrote whole?\n"
    "Every key: docs/configuration.md. Exit codes: docs/errors.md.";

// CLI11's own PositiveNumber prints the largest double as the limit.
const CLI::Validator kCount(
    [](std::string& word) {
      const bool good = word.size() < 19 && word.find_first_not_of("0123456789") == std::string::npos &&
                        word.find_first_not_of('0') != std::string::npos;
      return good ? std::string() : "'" + word + "' is no whole number above 0";
    },
    "");

// As typed, before it is checked.
struct Typed {
  std::string log_level = "info";
  bool quiet = false;
  std::string progress = "auto";
  std::string to = "packed";
  std::string codec = "raw";
  std::vector<std::string> expand;
  std::vector<std::string> words;  // overrides, and what was meant as a command
};

void add_common(CLI::App& app, Typed& typed) {
  app.add_option("--log-level", typed.log_level, "debug | info | warning | error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.add_flag("--quiet", typed.quiet, "errors alone");
  app.set_version_flag("--version", version_text());
}

void add_config(CLI::App& app, ConfigOptions& options, Typed& typed) {
  app.add_option("--config", options.sources.files, "YAML file; may be repeated, later ones win")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("FILE");
  app.add_option("overrides", typed.words, "key=value, as in optimizer.learning_rate=0.0005; wins over the files")
      ->type_name("KEY=VALUE");
  app.add_flag("--print-config{full}", options.print_config,
               "print the resolved configuration, each line with where it came from, and end; =minimal: only what "
               "differs from the defaults")
      ->check(CLI::IsMember({"full", "minimal"}));
  app.add_flag("--print-schema{json}", options.print_schema,
               "print the configuration's JSON Schema, for editors, and end; =markdown: as docs/configuration.md")
      ->check(CLI::IsMember({"json", "markdown"}));
}

void add_train(CLI::App& app, TrainCommand& train, Typed& typed) {
  add_config(app, train.config, typed);
  app.add_option("--run-dir", train.run_dir, "the run's folder (default: output.dir/name)")->type_name("DIR");
  app.add_option("--resume", train.resume,
                 "auto: go on from the newest valid checkpoint; never: move a used folder aside; or a checkpoint file")
      ->capture_default_str()
      ->type_name("auto|never|PATH");
  app.add_option("--resume-with", train.resume_with,
                 "a key that may differ from the checkpoint's configuration; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("KEY");
  app.add_flag("--dry-run", train.dry_run, "build everything, take one step, write nothing");
  app.add_option("--limit-steps", train.limit_steps, "end after N updates of this start, with a checkpoint")
      ->check(kCount)
      ->type_name("N");
  app.add_option_function<std::string>(
         "--max-time",
         [&train](const std::string& text) {
           const std::optional<Duration> time = parse_duration(text);
           if (!time || time->unit != Duration::Unit::seconds || time->amount <= 0)
             throw CLI::ValidationError("--max-time", "'" + text + "' is no time; write it as 3h55m or 90 minutes");
           train.max_time_s = time->amount;
         },
         "stop in time to be done after this long, with a checkpoint and exit code 75, as 3h55m")
      ->type_name("TIME");
  app.add_option("--trace", train.trace,
                 "write a timeline of steps, buckets and loader threads of all ranks (for ui.perfetto.dev)")
      ->type_name("FILE");
  app.add_option("--progress", typed.progress, "auto | bar | plain | none")
      ->check(CLI::IsMember({"auto", "bar", "plain", "none"}))
      ->capture_default_str();
}

void add_steps(CLI::App& app, int64_t& steps) {
  app.add_option("--limit-steps", steps, "steps to measure; warm-up steps come on top")
      ->check(kCount)
      ->capture_default_str()
      ->type_name("N");
}

CLI::App* add_bench_step(CLI::App& bench, BenchStepCommand& command, Typed& typed) {
  CLI::App* app = bench.add_subcommand(
      "step", "training steps of the configured network on pictures in memory: images/s, share of the matrix peak");
  add_common(*app, typed);
  add_config(*app, command.config, typed);
  add_steps(*app, command.steps);
  app->add_flag("--json", command.json, "the last line on stdout is one JSON object");
  return app;
}

CLI::App* add_bench_input(CLI::App& bench, BenchInputCommand& command, Typed& typed) {
  CLI::App* app = bench.add_subcommand(
      "input",
      "the loader without a network: read, decode, transform and batch one by one, then whole epochs' order by "
      "the old pipeline (sequential) and the new one (parallel), and the new one up to the bytes that a GPU is given");
  add_common(*app, typed);
  add_config(*app, command.config, typed);
  add_steps(*app, command.steps);
  app->add_option("--load-ms", command.load_ms,
                  "sleep instead of reading and decoding: what one thread takes for a full batch")
      ->check(CLI::Range(0.0, 60'000.0))
      ->type_name("MS");
  app->add_option(
         "--train-ms", command.train_ms,
         "sleep after each batch, as long as forward and backward of it take (dtrain bench step measures that)")
      ->check(CLI::Range(0.0, 60'000.0))
      ->type_name("MS");
  app->add_flag("--json", command.json, "the last line on stdout is one JSON object");
  app->footer(
      "\nExamples:\n"
      "  dtrain bench input --config chexnet.yaml                       images/s of each stage and of both pipelines\n"
      "  dtrain bench input --config chexnet.yaml --train-ms 180        with training in between: who waits for whom?\n"
      "  mpirun -np 4 dtrain bench input --config chexnet.yaml --load-ms 50 --train-ms 50 data.loader.threads=1\n"
      "                                                                 the pipelines alone, whatever the cores can "
      "do");
  return app;
}

CLI::App* add_bench_comm(CLI::App& bench, BenchCommCommand& command, Typed& typed) {
  CLI::App* app = bench.add_subcommand("comm", "all-reduce of float32 by every algorithm, over sizes");
  add_common(*app, typed);
  add_config(*app, command.config, typed);
  app->add_option("--bytes", command.bytes, "sizes in bytes, as in 4,1000000 (default: 4 B to 256 MB)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(kCount)
      ->type_name("N,N…");
  app->add_option("--limit-steps", command.repeat,
                  "calls per size and algorithm (default: 1000 to 4 KB, else 30 or 10)")
      ->check(kCount)
      ->type_name("N");
  app->add_flag("--json", command.json, "the last line on stdout is one JSON object");
  return app;
}

CLI::App* add_pack(CLI::App& app, PackCommand& pack, Typed& typed) {
  CLI::App* packer = app.add_subcommand(
      "pack", "decode and resize a data set once, into shards that any number of ranks reads at any place");
  add_common(*packer, typed);
  add_config(*packer, pack.config, typed);
  packer->add_option("--output", pack.output, "folder of the shards: new, empty, or begun by the same job")
      ->type_name("DIR");
  packer
      ->add_option("--to", typed.to,
                   "packed: dtrain's own shards; tfrecord, webdataset: PNG or JPEG pictures for other programs")
      ->check(CLI::IsMember({"packed", "tfrecord", "webdataset"}))
      ->capture_default_str();
  packer->add_option("--samples-per-shard", pack.options.samples_per_shard, "records of a shard; the last has the rest")
      ->check(kCount)
      ->capture_default_str()
      ->type_name("N");
  packer
      ->add_option("--expand", typed.expand,
                   "copies of each training sample: vflip, hflip, rot90, rot180, rot270 (counter-clockwise)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("T,T…");
  packer
      ->add_option(
          "--codec", typed.codec,
          "raw: samples as they are, fastest; jpeg: smaller, not exact; deflate: smaller, exact, slower. Masks "
          "are always exact")
      ->check(CLI::IsMember({"raw", "jpeg", "deflate"}))
      ->capture_default_str();
  packer->add_option("--quality", pack.options.jpeg_quality, "of JPEG")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->type_name("Q");
  packer->add_option("--progress", typed.progress, "auto | bar | plain | none")
      ->check(CLI::IsMember({"auto", "bar", "plain", "none"}))
      ->capture_default_str();
  return packer;
}

// Every option and command of an app, for suggestions.
std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string with_suggestion(const std::string& sentence, const std::string& word, const CLI::App& app) {
  const std::string near = nearest_word(word.substr(0, word.find('=')), names_of(app));
  return sentence + (near.empty() ? "; see dtrain --help" : " (did you mean '" + near + "'?)");
}

LogLevel level_of(const Typed& typed) {
  if (typed.quiet) return LogLevel::error;
  if (typed.log_level == "debug") return LogLevel::debug;
  if (typed.log_level == "warning") return LogLevel::warning;
  return typed.log_level == "error" ? LogLevel::error : LogLevel::info;
}

ProgressMode progress_of(const std::string& word) {
  if (word == "bar") return ProgressMode::bar;
  if (word == "plain") return ProgressMode::plain;
  return word == "none" ? ProgressMode::none : ProgressMode::automatic;
}

PackCommand packed_as_typed(PackCommand pack, const CLI::App& app, const Typed& typed) {
  pack.progress = progress_of(typed.progress);
  for (const std::string& name : typed.expand) {
    const PackTurn turn = turn_named(name);
    if (std::count(pack.options.expand.begin(), pack.options.expand.end(), turn) > 0)
      throw UsageError("--expand names " + name + " twice");
    pack.options.expand.push_back(turn);
  }
  const bool jpeg = typed.codec == "jpeg";
  if (typed.codec != "raw") pack.options.codec = jpeg ? PackedCodec::jpeg : PackedCodec::deflate;
  if (typed.to != "packed") pack.options.to = typed.to == "tfrecord" ? PackTo::tfrecord : PackTo::webdataset;
  if (app.count("--codec") > 0 && !jpeg && pack.options.to != PackTo::packed)
    throw UsageError("--codec raw and deflate are for packed shards; others hold PNG, or JPEG with --codec jpeg");
  if (app.count("--quality") > 0 && !jpeg) throw UsageError("--quality has no effect without --codec jpeg");
  const ConfigOptions& asked = pack.config;
  if (pack.output.empty() && !asked.print_config && !asked.print_schema)
    throw UsageError("dtrain pack needs --output DIR, the folder of the shards");
  return pack;
}

// Words that begin with '-' and belong to no option; CLI11's own message hides them behind the first missing argument.
void refuse_unknown_options(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* active = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    for (const CLI::App* command : active->get_subcommands({}))
      if (command->get_name() == word) {
        active = command;
        break;
      }
    if (!word.starts_with("--") || word == "--help") continue;
    const std::vector<std::string> known = names_of(*active);
    if (std::find(known.begin(), known.end(), word.substr(0, word.find('='))) == known.end())
      throw UsageError(with_suggestion("unknown option " + word.substr(0, word.find('=')), word, *active));
  }
}

}  // namespace

// Line breaks and tabs may lay out a value.
static bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }

CommandLine read_command_line(int argc, const char* const* argv) {
  for (const char* const* word = argv; word != argv + argc; ++word)
    if (std::any_of(*word, *word + std::strlen(*word), is_control))
      throw UsageError("a word of the command line holds a control character: '" + std::string(*word) + "'");
  CommandLine line;
  Typed typed;
  TrainCommand train;
  CheckCommand check;
  EvalCommand eval;
  PackCommand pack;
  SampleCommand sample;
  InfoCommand info;
  VerifyCommand verify;
  BenchStepCommand bench_step;
  BenchInputCommand bench_input;
  BenchCommCommand bench_comm;

  CLI::App app{"dtrain trains image networks on any number of processes, with the same bits on 1 or 8.", "dtrain"};
  app.footer(kFooter);
  add_common(app, typed);
  add_train(app, train, typed);

  CLI::App* check_app = app.add_subcommand(
      "check", "everything that can be known before queueing: configuration, files, labels, leaks, network, steps");
  add_common(*check_app, typed);
  add_config(*check_app, check.config, typed);
  check_app->add_option("--world-size", check.world_size, "processes that the job will have")
      ->check(kCount)
      ->capture_default_str();
  check_app->add_flag("--quick", check.quick, "read the pictures' headers alone");
  check_app
      ->add_option("--preview", check.preview,
                   "write a contact sheet of what the network will see: training pictures after augmentation, with "
                   "labels and masks (PNG)")
      ->type_name("FILE");
  check_app->add_option("--output", check.output, "what was found, as JSON, every bad sample and duplicate in it")
      ->capture_default_str()
      ->type_name("FILE");
  check_app->add_flag("--json", check.json, "the last line on stdout is one JSON object");

  CLI::App* eval_app = app.add_subcommand(
      "eval",
      "metrics of a checkpoint or weights file over a whole set, with 95 % intervals; writes predictions_SPLIT.csv");
  add_common(*eval_app, typed);
  add_config(*eval_app, eval.config, typed);
  eval_app->add_option("--checkpoint", eval.checkpoint, "checkpoint or best.safetensors")->type_name("FILE");
  eval_app->add_option("--split", eval.split, "train | valid | test")
      ->check(CLI::IsMember({"train", "valid", "test"}))
      ->capture_default_str();
  eval_app->add_flag("--allow-trained", eval.allow_trained,
                     "evaluate patients and pictures that the weights were trained on, as far as the file tells");
  eval_app->add_option("--output", eval.output, "folder of predictions_SPLIT.csv (default: the run's folder)")
      ->type_name("DIR");
  eval_app->add_flag("--json", eval.json, "the last line on stdout is one JSON object");

  CLI::App* pack_app = add_pack(app, pack, typed);

  CLI::App* sample_app = app.add_subcommand("sample", "write a small generated data set with known answers");
  add_common(*sample_app, typed);
  sample_app
      ->add_option("--kind", sample.kind,
                   "xray: 14 labels, patients; chips: folders of two classes; cells: pictures and masks")
      ->check(CLI::IsMember({"xray", "chips", "cells"}));
  sample_app->add_option("--output", sample.output, "folder to write; must not exist or be empty")->type_name("DIR");
  sample_app->add_option("--count", sample.count, "number of pictures (default: 256 xray, 400 chips, 48 cells)")
      ->check(kCount)
      ->type_name("N");
  sample_app->add_option("--seed", sample.seed, "another seed gives other pictures")->capture_default_str();

  CLI::App* info_app = app.add_subcommand("info", "build, library versions, devices, MPI, cores");
  add_common(*info_app, typed);
  info_app->add_flag("--json", info.json, "the last line on stdout is one JSON object");

  CLI::App* verify_app = app.add_subcommand(
      "verify", "check a checkpoint, a weights file, a run folder or packed data byte by byte; changes nothing");
  add_common(*verify_app, typed);
  verify_app
      ->add_option(
          "path", verify.path,
          "checkpoint, best.safetensors, run folder or its checkpoints/, folder of packed shards or one of them")
      ->type_name("PATH");
  verify_app->add_flag("--json", verify.json, "the last line on stdout is one JSON object");

  CLI::App* bench_app =
      app.add_subcommand("bench", "how fast training steps, the loader and all-reduces are on these ranks");
  bench_app->require_subcommand(1);
  CLI::App* step_app = add_bench_step(*bench_app, bench_step, typed);
  CLI::App* input_app = add_bench_input(*bench_app, bench_input, typed);
  CLI::App* comm_app = add_bench_comm(*bench_app, bench_comm, typed);

  refuse_unknown_options(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.help = app.help();
    for (CLI::App* command : app.get_subcommands()) line.help = command->help();
    for (CLI::App* command : bench_app->get_subcommands()) line.help = command->help();
    return line;
  } catch (const CLI::CallForVersion& version) {
    line.help = std::string(version.what()) + "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see dtrain --help");
  }

  for (const std::string& word : typed.words)
    if (word.find('=') == std::string::npos)
      throw UsageError(with_suggestion("'" + word + "' is neither a command nor key=value", word, app));
  line.common.log_level = level_of(typed);
  const auto with_words = [&](auto command, bool needs_file = true) {
    command.config.sources.overrides = typed.words;
    if (!app.get_subcommands().empty() && !train.config.sources.files.empty())
      throw UsageError("options go after the command, as in dtrain " + app.get_subcommands().front()->get_name() +
                       " --config FILE");
    if (needs_file && command.config.sources.files.empty() && !command.config.print_schema)
      throw UsageError("no configuration given: add --config FILE; see dtrain --help");
    return command;
  };
  if (typed.quiet) check.progress = ProgressMode::none;
  if (check_app->parsed())
    line.check = with_words(check);
  else if (eval_app->parsed())
    line.eval = with_words(eval);
  else if (pack_app->parsed())
    line.pack = packed_as_typed(with_words(pack), *pack_app, typed);
  else if (sample_app->parsed())
    line.sample = sample;
  else if (info_app->parsed())
    line.info = info;
  else if (verify_app->parsed())
    line.verify = verify;
  else if (step_app->parsed())
    line.bench_step = with_words(bench_step, false);
  else if (input_app->parsed())
    line.bench_input = with_words(bench_input);
  else if (comm_app->parsed())
    line.bench_comm = with_words(bench_comm, false);
  else {
    train.words.assign(argv, argv + argc);
    train.progress = progress_of(typed.progress);
    line.train = with_words(train);
  }
  if (line.train && line.train->dry_run && !line.train->trace.empty())
    throw UsageError("--dry-run writes nothing, so it has no --trace; --limit-steps 10 --trace FILE makes a short one");
  if (line.eval && line.eval->checkpoint.empty() && !line.eval->config.print_config && !line.eval->config.print_schema)
    throw UsageError("dtrain eval needs --checkpoint FILE, as in runs/NAME/best.safetensors");
  if (line.sample && (line.sample->kind.empty() || line.sample->output.empty()))
    throw UsageError("dtrain sample needs --kind xray|chips|cells and --output DIR");
  if (line.verify && line.verify->path.empty())
    throw UsageError("dtrain verify needs a PATH: a checkpoint, best.safetensors or a run folder, as in runs/NAME");
  return line;
}

}  // namespace dtrain
