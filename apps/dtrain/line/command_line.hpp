#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dtrain/base/log.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/data/pack/pack.hpp"
#include "dtrain/metrics/threshold_rule.hpp"
#include "dtrain/runlog/progress.hpp"
#include "dtrain/study/points.hpp"
#include "dtrain/study/sweep_launch.hpp"

namespace dtrain {

/// Options of every command.
struct CommonOptions {
  LogLevel log_level = LogLevel::info;
};

/// Options of the commands that take a configuration.
struct ConfigOptions {
  ConfigSources sources;
  std::optional<std::string> print_config;  ///< "full" or "minimal"
  std::optional<std::string> print_schema;  ///< "json" or "markdown"
};

/// A help page, the version, a completion: printed, and that is all.
struct PrintCommand {
  std::string text;
};

/// --resume: what a start resumes from.
struct ResumeFrom {
  enum class Kind { newest, nothing, path };
  Kind kind = Kind::newest;  ///< newest: the newest valid checkpoint of the run folder, if it has one
  std::string path;          ///< Kind::path: of a checkpoint or a run folder

  /// auto | never | PATH
  static ResumeFrom of(const std::string& text);
  /// As it was typed.
  std::string text() const;
};

struct TrainCommand {
  std::vector<std::string> words;  ///< the command line as typed
  ConfigOptions config;
  std::string run_dir;  ///< "" = output.dir/name
  ResumeFrom resume;
  std::vector<std::string> resume_with;
  bool dry_run = false;
  int64_t limit_steps = 0;  ///< 0 = no limit
  double max_time_s = 0;    ///< of this start; 0 = no limit
  std::string trace;        ///< file for a timeline; "" = none
  bool log_all_ranks = false;
  ProgressMode progress = ProgressMode::automatic;
};
struct CheckCommand {
  ConfigOptions config;
  int64_t world_size = 1;
  std::vector<std::string> from;  ///< measurements for the time it will take, as in SimulateCommand
  std::string cluster;            ///< YAML; "" = one machine
  bool quick = false;
  bool json = false;
  std::string output = "check.json";  ///< what was found, for programs
  std::string preview;                ///< PNG file for a contact sheet; "" = none
  ProgressMode progress = ProgressMode::automatic;
};
/// --threshold-from PART:RULE, such as valid:youden.
struct ThresholdFrom {
  std::string part;
  ThresholdRule rule;
  std::string text;  ///< as it was typed
};
struct EvalCommand {
  ConfigOptions config;
  std::string checkpoint;  ///< a file, or a run folder
  std::string split = "valid";
  std::string output;          ///< "" = the run folder
  bool allow_trained = false;  ///< evaluate samples that the weights file lists as trained on
  bool calibrate = false;
  std::optional<ThresholdFrom> threshold_from;
  bool masks = false;  ///< write what was predicted, and a sheet of cases
  bool json = false;
};
/// What becomes of a picture that cannot be read.
enum class BadPicture {
  skip,  ///< it is named, and the others are done
  fail,
};
template <>
inline constexpr auto kWordsOf<BadPicture> = std::to_array<Word<BadPicture>>({{BadPicture::skip, "skip"},
                                                                              {BadPicture::fail, "fail"}});

/// --cam without a class: that with the highest score.
inline constexpr const char* kHighestScore = "highest";

struct PredictCommand {
  ConfigOptions config;
  std::vector<std::string> checkpoints;  ///< files or run folders, at least one
  std::string input;                     ///< a folder, a picture, a list, a table, a record file
  std::string column;                    ///< of a table; "" = path
  std::string output;
  int64_t batch = 0;                   ///< 0 = as evaluation has it
  std::optional<double> threshold;     ///< of masks, 0…1
  bool mirror = false;                 ///< the mean over mirrored views
  std::optional<double> tile_overlap;  ///< of a tile's side, [0, 1)
  bool overlay = false;                ///< outlines of masks over the pictures
  bool scores = false;                 ///< probabilities of masks as pictures
  std::optional<std::string> cam;      ///< class activation maps: of this class, or kHighestScore
  BadPicture on_bad = BadPicture::skip;
  bool json = false;
  ProgressMode progress = ProgressMode::automatic;
};
/// What an exported network takes.
enum class OnnxInput {
  normalised,  ///< what the network itself sees
  raw,         ///< pixel values as files hold them
};
template <>
inline constexpr auto kWordsOf<OnnxInput> = std::to_array<Word<OnnxInput>>({{OnnxInput::normalised, "normalised"},
                                                                            {OnnxInput::raw, "raw"}});

struct ExportCommand {
  ConfigOptions config;
  std::string checkpoint;  ///< a file, or a run folder
  std::string output;
  OnnxInput input = OnnxInput::normalised;
  bool force = false;  ///< replace an existing file
};
struct PackCommand {
  ConfigOptions config;
  std::string output;
  PackOptions options;
  ProgressMode progress = ProgressMode::automatic;
};
struct SweepCommand {
  ConfigOptions config;
  SweepPlan plan;
  std::vector<std::string> typed;  ///< which of --ranks, --over, --repeat, --folds stood on the line
  bool advise = false;             ///< short runs tell which rate rule suits a number of logical ranks
  bool tiny = false;               ///< the tiny variant of a study file
  int64_t jobs = 1;                ///< points side by side; 0, under Slurm alone: as many as Slurm likes
  std::string output;              ///< "" = studies/NAME
  bool retry_failed = false;       ///< run points again that an earlier start saw fail
  bool dry_run = false;
  SweepLaunch launch = SweepLaunch::local;
  int64_t ranks_per_node = 0;  ///< under Slurm; 0 = all ranks of a point on one node
  std::string site_template;   ///< what a site puts before the line that trains; "" = nothing
  bool write_only = false;     ///< write the jobs, submit none
  ProgressMode progress = ProgressMode::automatic;
};
struct SimulateCommand {
  std::vector<std::string> from;  ///< run folders, files of dtrain bench
  std::vector<int64_t> ranks;     ///< empty: 1, 2, 4 … 64
  int64_t logical_ranks = 0;      ///< 0 = one for each rank
  std::string cluster;            ///< YAML; "" = one machine
  bool validate = false;
  bool json = false;
};
struct SampleCommand {
  std::string kind;
  std::string output;
  int64_t count = 0;  ///< 0 = the kind's default
  uint64_t seed = 1;
  std::vector<int64_t> size;  ///< height and width; empty = the kind's own
};
struct InitCommand {
  std::string folder;  ///< or a record file
  std::string output;  ///< "" = standard output
  bool force = false;  ///< replace an existing file
  ProgressMode progress = ProgressMode::automatic;
};
struct InfoCommand {
  bool json = false;
};

struct VerifyCommand {
  std::string path;  ///< a checkpoint, a weights file, a run folder, a folder of checkpoints, packed data
  bool json = false;
};

struct ReportCommand {
  std::vector<std::string> paths;  ///< folders of runs and studies, CSV files of other tools
  std::string output;              ///< folder; "" = the run's or the study's
  std::vector<std::string> maps;   ///< YAML files: the columns of these CSV files
  bool text = false;
};

struct CompareCommand {
  std::vector<std::string> runs;  ///< folders: A, B
  std::string split = "valid";    ///< whose predictions are compared
  int64_t draws = 2000;           ///< of the bootstrap
  bool json = false;
  ProgressMode progress = ProgressMode::automatic;
};

struct BenchStepCommand {
  ConfigOptions config;
  int64_t steps = 10;  ///< measured, beside the warm-up
  bool json = false;
};
struct BenchInputCommand {
  ConfigOptions config;
  int64_t steps = 20;   ///< measured, beside the warm-up
  double load_ms = 0;   ///< above 0: sleep instead of reading and decoding, per full batch on one thread
  double train_ms = 0;  ///< of forward and backward of a batch, assumed
  bool json = false;
};
struct BenchCommCommand {
  ConfigOptions config;
  std::vector<int64_t> bytes;  ///< empty: 4 B to 256 MB
  int64_t repeat = 0;          ///< calls per size and algorithm; 0: by size
  bool json = false;
};

using Command =
    std::variant<PrintCommand, TrainCommand, CheckCommand, EvalCommand, PredictCommand, ExportCommand, PackCommand,
                 SweepCommand, SimulateCommand, SampleCommand, InitCommand, InfoCommand, VerifyCommand, CompareCommand,
                 ReportCommand, BenchStepCommand, BenchInputCommand, BenchCommCommand>;

/// What the user typed.
struct CommandLine {
  CommonOptions common;
  Command command;
};

/// Reads the command line. Throws UsageError with a suggestion for a misspelt command or option.
CommandLine read_command_line(int argc, const char* const* argv);

}  // namespace dtrain
