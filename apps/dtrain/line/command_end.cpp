#include "line/command_end.hpp"

#include <algorithm>
#include <array>

#include "dtrain/base/error.hpp"

namespace dtrain {
namespace {

constexpr const char* kMeasured =
    "Nothing; what was measured is printed on stdout, notes on stderr. Keep it with --json > FILE, for dtrain check "
    "and dtrain simulate --from.";
constexpr const char* kMeasuredCodes =
    "0 measured, 66 something that was named is missing, 71 out of memory, 78 wrong configuration.";

constexpr std::array kEnds = {
    CommandEnd{"dtrain",
               "Training, the run's folder: epochs.csv (a row per epoch), best.safetensors (the best weights), "
               "checkpoints/, config.yaml (every setting), ranks.csv, metrics.jsonl, run.json, log.txt, and at the end "
               "DONE. Messages go to stderr.",
               "0 done, 64 wrong command line, 65 wrong data, 66 something that was named is missing, 69 a rank or the "
               "network failed, 70 a bug, 71 out of memory, 74 reading or writing failed, 75 stopped and saved: the "
               "same command goes on, 76 stalled, 77 permission refused, 78 wrong configuration, 79 diverged, 80 ranks "
               "hold different weights. docs/errors.md says what to do about each."},
    CommandEnd{"dtrain init",
               "The configuration: to --output, else on stdout. Notes, and what is left to do, go to stderr.",
               "0 written, 64 the file exists, 65 the folder holds nothing to train on, 66 there is no such folder."},
    CommandEnd{
        "dtrain check", "What was found: on stdout, and as JSON to --output; --preview FILE. Progress goes to stderr.",
        "0 the job can start; what is worth a look does not change that. 65 damaged pictures, wrong labels, leaks, "
        "66 something that was named is missing, 78 wrong configuration."},
    CommandEnd{"dtrain eval",
               "Metrics on stdout; predictions_SPLIT.csv, metrics_SPLIT.json, of labels and classes also "
               "curves_SPLIT.csv, of classes confusion_SPLIT.csv; with --masks masks_SPLIT/ and cases_SPLIT.png.",
               "0 evaluated, 65 the part holds what the weights were trained on, or something is damaged, 66 something "
               "that was named is missing, 78 the data do not fit the weights, or tables of others would be replaced."},
    CommandEnd{"dtrain predict",
               "--output DIR: predictions.csv and predict.json, for segmentation masks/; overlays/, scores/ and cams/ "
               "with their options.",
               "0 all pictures predicted, 64 the folder holds other files, 65 some pictures could not be read: they "
               "are named, the others are done; 66 something "
               "that was named is missing, 75 stopped: the same command goes on, 78 the folder holds another "
               "prediction."},
    CommandEnd{"dtrain export", "--output FILE.onnx. What goes in and comes out is printed on stdout.",
               "0 written, 64 the file exists, 65 damaged weights, 66 something that was named is missing."},
    CommandEnd{"dtrain pack",
               "--output DIR: the shards and what they hold. On stdout: the configuration lines that train from them.",
               "0 packed, 64 the folder holds other files or shards, 65 damaged pictures or wrong labels, 66 something "
               "that was named is missing, 75 stopped: the "
               "same command goes on, 78 wrong configuration."},
    CommandEnd{"dtrain sweep",
               "The study's folder: study.yaml, runs/ (a run's folder for each point), points.csv, scaling.csv, "
               "report.html. Tables on stdout.",
               "0 every point is done (with --launch slurm: also queued or running), 75 stopped: the same command goes "
               "on; else the code of the first point that failed, 69 if that is none of dtrain's."},
    CommandEnd{"dtrain simulate", "Nothing; the prediction is printed on stdout.",
               "0 predicted, 65 what --from names is no measurement, 66 something that was named is missing, 78 a "
               "wrong description of the cluster."},
    CommandEnd{
        "dtrain sample",
        "--output DIR: the pictures with their classes, labels or masks. On stdout: the command that comes next.",
        "0 written, 64 the folder is not empty, 74 no room, 77 permission refused."},
    CommandEnd{"dtrain info", "Nothing; on stdout.", "0 always, 74 if it cannot be printed."},
    CommandEnd{"dtrain verify", "Nothing; a line per file on stdout.",
               "0 all intact, 65 something is damaged, 66 there is no such file or folder."},
    CommandEnd{"dtrain compare", "Nothing; on stdout.",
               "0 compared, whichever is better; 65 they cannot be compared, 66 no run there, or no predictions of the "
               "part (dtrain eval writes them)."},
    CommandEnd{"dtrain report",
               "report.html and, where there are several numbers of ranks, scaling.csv; with --text nothing.",
               "0 written, 65 something cannot be read as a run, a study or a table, 66 it is missing."},
    CommandEnd{"dtrain bench", "", ""},
    CommandEnd{"dtrain bench step", kMeasured, kMeasuredCodes},
    CommandEnd{"dtrain bench input", kMeasured, kMeasuredCodes},
    CommandEnd{"dtrain bench comm", kMeasured, kMeasuredCodes},
    CommandEnd{"dtrain completion", "The script, on stdout.", "0 printed, 64 no such shell."},
    CommandEnd{"dtrain help", "The page, on stdout.", "0 printed, 64 there is no such command."},
};

}  // namespace

const CommandEnd& end_of(const std::string& command) {
  const auto* found =
      std::find_if(kEnds.begin(), kEnds.end(), [&](const CommandEnd& end) { return end.command == command; });
  check(found != kEnds.end(), "every command says what it writes");
  return *found;
}

}  // namespace dtrain
