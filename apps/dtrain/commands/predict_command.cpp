// dtrain predict: what a trained network says of pictures without labels.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "commands/commands.hpp"
#include "commands/predict_member.hpp"
#include "commands/predict_output.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/data/pixels/original_mask.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/files/csv.hpp"
#include "job/agreement.hpp"
#include "job/named_checkpoint.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

constexpr double kUsualThreshold = 0.5;

/// What is the same for every batch of the job.
struct Predicted {
  Task task = Task::multilabel;
  std::vector<std::string> classes;
  std::vector<int64_t> values;  // segmentation: PredictMember::pixel_values()
  double threshold = kUsualThreshold;
  int64_t batch = 1;
  int64_t batches = 0;
};

std::string head_of(const Predicted& job) {
  std::string head = "path";
  for (const std::string& name : job.classes) head += "," + csv_field("score_" + name);
  return head + (job.task == Task::multiclass ? ",class\n" : "\n");
}

std::string row_of(const Predicted& job, const std::string& path, const std::vector<double>& scores) {
  std::string row = csv_field(path);
  for (size_t k = 0; k < job.classes.size(); ++k) row += scores.empty() ? "," : "," + shortest(scores[k]);
  if (job.task != Task::multiclass) return row + "\n";
  const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
  return row + "," + (scores.empty() ? "" : csv_field(job.classes[static_cast<size_t>(best)])) + "\n";
}

/// What this rank has to tell of one batch.
struct Told {
  std::string rows;
  std::string unread;  // a line for each picture that could not be read
};

/// Turns what the network says into rows and masks.
class Writer {
 public:
  Writer(const Predicted& predicted, const PredictMember& member, PredictOutput& output, size_t threads)
      : predicted_(predicted), member_(member), output_(output), threads_(threads) {}

  Told write(const PredictMember::Said& said) const {
    std::vector<std::vector<double>> scores(said.samples.size());
    const auto judge = [&](size_t i) {
      if (said.found[i].bad.empty()) scores[i] = predicted_.values.empty() ? numbers(said, i) : mask(said, i);
    };
    run_in_parallel(scores.size(), predicted_.values.empty() ? 1 : threads_, judge);
    Told told;
    for (size_t i = 0; i < said.samples.size(); ++i) {
      const std::string& path = sample(said, i).path;
      told.rows += row_of(predicted_, path, scores[i]);
      if (!said.found[i].bad.empty()) told.unread += printable(said.found[i].bad) + "\n";
    }
    return told;
  }

 private:
  const Sample& sample(const PredictMember::Said& said, size_t i) const {
    return member_.dataset().samples[static_cast<size_t>(said.samples[i])];
  }

  std::vector<double> numbers(const PredictMember::Said& said, size_t i) const {
    const size_t count = predicted_.classes.size();
    const double* first = said.probabilities.const_data_ptr<double>() + i * count;
    return {first, first + count};
  }

  // Writes the mask; a class's score is the mean of its probability over the picture.
  std::vector<double> mask(const PredictMember::Said& said, size_t i) const {
    const ListedPictures::Found& found = said.found[i];
    const ImageOptions& image = member_.experiment().data.image;
    const auto plane = static_cast<size_t>(image.seen_height() * image.seen_width());
    const size_t count = predicted_.classes.size();
    std::vector<std::vector<float>> planes;
    std::vector<double> scores;
    for (size_t k = 0; k < count; ++k) {
      const float* first = said.probabilities.const_data_ptr<float>() + (i * count + k) * plane;
      planes.push_back(at_picture_size({first, plane}, found.height, found.width, image));
      scores.push_back(std::accumulate(planes[k].begin(), planes[k].end(), 0.0) /
                       static_cast<double>(planes[k].size()));
    }
    output_.write_mask(output_stem(sample(said, i).path),
                       called_mask(planes, found.height, found.width, predicted_.threshold, predicted_.values));
    return scores;
  }

  const Predicted& predicted_;
  const PredictMember& member_;
  PredictOutput& output_;
  size_t threads_;
};

/// Lines about how far it is, for people.
class PredictTelling {
 public:
  PredictTelling(const PredictCommand& command, Job& job, int64_t before, int64_t all)
      : line_(job.is_root() ? command.progress : ProgressMode::none, job.launched(), job.log()),
        before_(before),
        all_(all) {}

  // So many pictures are done, of all ranks as far as this one knows.
  void show(int64_t done) {
    const double rate = static_cast<double>(done - before_) / std::max(watch_.seconds(), 1e-3);
    line_.show(done, all_, [&] {
      return ProgressFields{{"predicting  " + with_commas(done) + "/" + with_commas(all_) + " pictures", 3},
                            {fixed(rate, rate < 10 ? 1 : 0) + " pictures/s", 1},
                            {"eta " + (rate > 0 ? clock_text(static_cast<double>(all_ - done) / rate) : "?"), 2}};
    });
  }

 private:
  ProgressLine line_;
  int64_t before_;
  int64_t all_;
  Stopwatch watch_;
};

// All that decides about the bytes that are written.
PredictOutput::Facts output_facts(const Predicted& predicted, const PredictMember& member, const std::string& sha256,
                                  const Config& config, const Job& job) {
  PredictOutput::Facts facts = {{"the hash of the weights", sha256},
                                {"the hash of the list of pictures and their sizes", member.dataset().manifest_sha256},
                                {"the number of pictures", std::to_string(member.dataset().samples.size())},
                                {"--batch", std::to_string(predicted.batch)}};
  if (!predicted.values.empty()) {
    facts.emplace_back("--threshold", shortest(predicted.threshold));
    std::vector<std::string> values;
    for (const int64_t value : predicted.values) values.push_back(std::to_string(value));
    facts.emplace_back("the pixel values of masks", join(values, ", "));
  }
  for (const auto& [key, value] : fingerprint_values(config))
    if (key.starts_with("data.image.") || key == "precision" || key == "distributed.threads")
      facts.emplace_back(key, value);
  for (const auto& [name, value] : job.device_facts()) facts.emplace_back("device: " + name, value);
  for (const auto& [name, version] : library_versions()) facts.emplace_back("build: " + name, version);
  return facts;
}

// On rank 0: the rows of a round, batch by batch in the order in which they were dealt.
void gather_round(const std::vector<std::vector<std::string>>& ranks, int64_t batches, PredictOutput& output,
                  const Log& log) {
  std::string rows;
  int64_t unread = 0;
  for (int64_t j = 0; j < batches; ++j) {
    const auto& texts = ranks[static_cast<size_t>(j) % ranks.size()];
    const size_t place = 2 * (static_cast<size_t>(j) / ranks.size());
    rows += texts.at(place);
    for (const std::string& line : split_text(texts.at(place + 1), '\n')) {
      if (line.empty()) continue;
      log.warning("left out: " + line);
      ++unread;
    }
  }
  output.add(rows, batches, unread);
}

// All ranks together: every batch that is not written yet. A round is a few batches of each rank, so that no rank
// holds more rows than those; then rank 0 writes them. False: stopped.
bool predict_batches(const PredictCommand& command, const Predicted& predicted, PredictMember& member,
                     PredictOutput& output, int64_t done, Job& job) {
  constexpr int64_t kEach = 8;
  const auto all = static_cast<int64_t>(member.dataset().samples.size());
  std::vector<int64_t> samples;
  for (int64_t i = done * predicted.batch; i < all; ++i) samples.push_back(i);
  member.start(dealt_requests(samples, predicted.batch, job.rank(), job.size()));
  const Writer writer(predicted, member, output, static_cast<size_t>(job.cores()));
  PredictTelling telling(command, job, std::min(all, done * predicted.batch), all);
  for (int64_t begin = done; begin < predicted.batches; begin += kEach * job.size()) {
    const int64_t batches = std::min(kEach * job.size(), predicted.batches - begin);
    std::string texts;
    bool stopped = false;
    for (int64_t j = job.rank(); j < batches && !(stopped = stop_is_pending()); j += job.size()) {
      job.watchdog().enter(Section::evaluate, begin + j);
      const auto said = member.next();
      check(said.has_value(), "the loader makes every batch that it was asked for");
      const Told told = writer.write(*said);
      if (command.on_bad == BadPicture::fail && !told.unread.empty())
        throw DataError(told.unread.substr(0, told.unread.find('\n')) +
                        "; repair or remove it, or leave it out with --on-bad skip");
      texts += told.rows + '\0' + told.unread + '\0';
      telling.show(std::min(all, (begin + j + job.size()) * predicted.batch));
    }
    output.settle();
    if (any(job.comm(), stopped)) return false;
    const std::vector<std::string> gathered = gather_text(job.comm(), texts);
    if (!job.is_root()) continue;
    std::vector<std::vector<std::string>> ranks;
    for (const std::string& text : gathered) ranks.push_back(split_text(text, '\0'));
    gather_round(ranks, batches, output, job.log());
  }
  return true;
}

// "so-and-so many pictures: predictions.csv has …"
std::string what_was_written(const Predicted& predicted, const std::string& folder) {
  const std::string table = printable(folder) + "/predictions.csv";
  if (predicted.values.empty())
    return table + " has a row for each, with " +
           (predicted.task == Task::multiclass ? "the probability of each class and the most probable class"
                                               : "the probability of each label");
  std::vector<std::string> values;
  for (size_t k = 1; k < predicted.values.size(); ++k)
    values.push_back(std::to_string(predicted.values[k]) + " " + printable(predicted.classes[k - 1]));
  return printable(folder) + "/masks/ has a mask for each, of the picture's size, with the pixel values " +
         std::to_string(predicted.values[0]) + " background, " + join(values, ", ") + "; " + table +
         " has the mean probability of each class";
}

// On rank 0, at the end.
void tell_end(const PredictCommand& command, const Predicted& predicted, int64_t pictures, int64_t bad,
              int64_t computed, double seconds, const Job& job) {
  const double rate = seconds > 0 ? static_cast<double>(computed) / seconds : 0;
  const std::string how =
      computed == 0 ? "nothing was left to do"
                    : with_commas(computed) + " in " + fixed(seconds, 1) + " s, " + fixed(rate, 1) + " pictures/s";
  job.log().info(
      "done: " + count_of(pictures, "picture") + " (" + how + "); " + what_was_written(predicted, command.output) +
      (predicted.values.empty() ? "; next: open the table in a spreadsheet, or, if labels are known, evaluate: "
                                : "; next: look at the masks beside the pictures, or, if masks are known, evaluate: ") +
      "dtrain eval --checkpoint " + shell_word(command.checkpoint));
  if (!command.json) return;
  const nlohmann::ordered_json json = {{"output", command.output}, {"pictures", pictures}, {"unread", bad},
                                       {"batch", predicted.batch}, {"computed", computed}, {"ranks", job.size()},
                                       {"seconds", seconds},       {"images_per_s", rate}};
  std::printf("%s\n", printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).c_str());
  std::fflush(stdout);  // an error may follow
}

// Rank 0's words on every rank.
PredictOutput::Standing shared(const PredictOutput::Standing& standing, Job& job) {
  const nlohmann::json mine = {standing.batches, standing.bad, standing.complete};
  const auto json = nlohmann::json::parse(broadcast_text(job.comm(), mine.dump()));
  return {json.at(0), 0, json.at(1), json.at(2)};
}

Predicted predicted_by(const PredictCommand& command, const PredictMember& member) {
  Predicted predicted;
  predicted.task = member.experiment().task;
  predicted.classes = member.classes();
  if (predicted.task == Task::segmentation) {
    predicted.values = member.pixel_values();
    require_own_stems(member.dataset());
  } else if (command.threshold) {
    throw UsageError("--threshold is for masks, and " + command.checkpoint +
                     " predicts none; the table has the probabilities themselves");
  }
  predicted.threshold = command.threshold.value_or(kUsualThreshold);
  predicted.batch = command.batch > 0 ? command.batch : member.usual_batch();
  const auto all = static_cast<int64_t>(member.dataset().samples.size());
  predicted.batches = (all + predicted.batch - 1) / predicted.batch;
  return predicted;
}

}  // namespace

int run_predict(const PredictCommand& command, const Config& config, Job& job) {
  const Experiment& e = config.experiment;
  const NamedWeights named = weights_at(command.checkpoint);
  if (job.is_root() && !named.note.empty()) job.log().warning(named.note);
  require_apart(command.input, command.output);
  PictureInput input = open_pictures(command.input, command.column, command.output, e.data);
  if (job.is_root()) {
    for (const std::string& note : input.notes) job.log().info(note);
    for (const std::string& note : input.left_out) job.log().warning(note);
  }
  PredictMember member(e, named.path, std::move(input), job);
  const Predicted predicted = predicted_by(command, member);
  const auto all = static_cast<int64_t>(member.dataset().samples.size());
  const std::string sha256 = member.sha256();
  require_agreement(job, {{"list of pictures", member.dataset().manifest_sha256, "see the same files"},
                          {"tensors of --checkpoint", sha256, "see the same files"}});
  PredictOutput output({.folder = command.output,
                        .facts = output_facts(predicted, member, sha256, config, job),
                        .head = head_of(predicted),
                        .batches = predicted.batches});
  if (job.is_root()) output.take();
  if (job.is_root() && !output.locked())
    job.log().warning("the file system of " + command.output +
                      " has no locks: make sure that nothing else writes there");
  const PredictOutput::Standing before = shared(output.standing(), job);
  if (job.is_root() && before.batches > 0 && !before.complete)
    job.log().info("continuing after " + count_of(before.batches, "batch", "batches") + " of " +
                   with_commas(predicted.batches) + " that an earlier start has written");
  const Stopwatch watch;
  if (!predict_batches(command, predicted, member, output, before.batches, job)) {
    if (job.is_root()) job.log().info("stopped; finished batches are kept, and the same command continues from there");
    return exit_code::kStopped;
  }
  const double seconds = watch.seconds();
  job.watchdog().enter(Section::finish, 0);
  if (job.is_root() && !before.complete) output.finish();
  const int64_t bad = shared(output.standing(), job).bad;
  if (job.is_root())
    tell_end(command, predicted, all, bad, all - std::min(all, before.batches * predicted.batch), seconds, job);
  if (bad > 0)
    throw DataError(count_of(bad, "picture") + " of " + with_commas(all) + " could not be read and " +
                    (bad == 1 ? "has" : "have") + " no scores in '" + command.output +
                    "/predictions.csv'; all others are done");
  return exit_code::kDone;
}

}  // namespace dtrain
