#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"
#include "unit/line/typed.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr size_t kLongestSentence = 400;  // bytes

struct Mistake {
  std::vector<std::string> words;  // behind "dtrain"
  std::vector<std::string> sentence_has;
};

// The sentence of the UsageError, "" if the words were taken.
std::string refusal(const std::vector<std::string>& words) {
  try {
    typed(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

void refused(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    std::string line = "dtrain";
    for (const std::string& word : mistake.words) line += " " + word;
    const std::string sentence = refusal(mistake.words);
    CAPTURE(line, sentence);
    CHECK(!sentence.empty());
    CHECK(sentence.size() < kLongestSentence);
    CHECK_FALSE(holds(sentence, "\n"));
    for (const std::string& part : mistake.sentence_has) CHECK(holds(sentence, part));
  }
}

}  // namespace

TEST_CASE("words that the command line does not know or take are refused by one sentence that says what to type") {
  refused({
      {{}, {"no configuration"}},
      {{"chekc", "--config", "small.yaml"}, {"chekc", "'check'"}},
      {{"--cofnig", "small.yaml"}, {"--cofnig", "'--config'"}},
      {{"--config"}, {"--config"}},
      {{"--config", "small.yaml", "--limit-steps", "0"}, {"--limit-steps", "'0'"}},
      {{"--config", "small.yaml", "--limit-steps", "many"}, {"--limit-steps", "'many'"}},
      {{"--config", "small.yaml", "--limit-steps", "2.5"}, {"--limit-steps", "'2.5'"}},
      {{"sample", "--kind", "chips", "--output", "x", "--count", "-3"}, {"--count", "'-3'"}},
      {{"--config", "small.yaml", "--progress", "loud"}, {"loud"}},
      {{"--config", "small.yaml", "--log-level", "all"}, {"all"}},
      {{"sample", "--kind", "cats", "--output", "x"}, {"cats"}},
      {{"sample", "--kind", "chips"}, {"--output"}},
      {{"eval", "--config", "small.yaml"}, {"--checkpoint"}},
      {{"--config", "small.yaml", "eval"}, {"comes before the command", "dtrain eval --config"}},
      {{"--config", "small.yaml", "--print-config=tiny"}, {"--print-config", "tiny"}},
      {{"check", "--config", "small.yaml", "--world-size", "0"}, {"--world-size"}},
  });
}

TEST_CASE("what users of other programs type is answered with what it is called here") {
  refused({
      {{"--config", "small.yaml", "--epochs", "5"}, {"unknown option --epochs", "epochs=5"}},
      {{"--config", "small.yaml", "--lr=0.1"}, {"optimizer.learning_rate=0.1"}},
      {{"-c", "small.yaml", "-lr", "0.1"}, {"unknown option -lr", "optimizer.learning_rate=0.1"}},
      {{"--config", "small.yaml", "--batch-size", "64"}, {"batch.per_rank=64"}},
      {{"--config", "small.yaml", "--early-stopping"}, {"early_stop.patience=VALUE"}},
      {{"-config", "small.yaml"}, {"'--config'"}},
      {{"fit", "--config", "small.yaml"}, {"'fit'", "dtrain --config FILE"}},
      {{"infer", "small.yaml"}, {"'infer'", "dtrain predict --checkpoint"}},
      {{"evaluate", "--checkpoint", "runs/x"}, {"'evaluate'", "did you mean 'eval'?"}},
      {{"evla", "--checkpoint", "runs/x"}, {"'evla'", "'eval'"}},
      {{"help", "fit"}, {"'fit' is no command", "dtrain --config FILE"}},
      {{"check", "eval", "small.yaml"}, {"'eval' is a second command"}},
      {{"--config", "small.yaml", "--split", "test"}, {"--split", "dtrain eval"}},
      {{"--config", "small.yaml", "--img-size", "64"}, {"'data.image.size=[64, 64]'"}},
      {{"--config", "small.yaml", "--patience", "3"}, {"early_stop.patience=3"}},
      {{"predict", "--checkpoint", "runs/x", "--input", "chips"}, {"--output"}},
      {{"check", "small.yaml", "xray.yaml"}, {"'xray.yaml'", "--config A --config B"}},
      {{"check", "small.yaml", "epochs", "5"}, {"'epochs'", "'epochs=VALUE'"}},
      {{"check", "small.yaml", "--output", "--quick"}, {"--output", "lacks its value", "--quick"}},
      {{"small.yaml", "--run-dir="}, {"--run-dir", "lacks its value"}},
      {{"--run-dir", "x", "check", "small.yaml"}, {"--run-dir", "comes before the command"}},
      {{"epochs=3", "check", "small.yaml"}, {"epochs=3", "comes before the command"}},
      {{"bench", "stpe"}, {"'stpe'", "'step'"}},
      {{"help", "chekc"}, {"'chekc'", "'check'"}},
      {{"completion"}, {"bash, zsh or fish"}},
      {{"completion", "tcsh"}, {"tcsh"}},
      {{"sample", "--epochs", "3"}, {"unknown option --epochs", "dtrain sample --help"}},
  });
}

TEST_CASE("what editors, shells and haste make of words is told as that") {
  refused({
      {{"small.yaml", "−−quiet"}, {"'−−quiet'", "no hyphen", "'--quiet'"}},
      {{"small.yaml", "—dry-run"}, {"no hyphen", "'--dry-run'"}},
      {{"small.yaml", "epochs", "=", "3"}, {"spaces around '='", "epochs=3"}},
      {{"small.yaml", "epochs=", "3"}, {"spaces around '='", "epochs=3"}},
      {{"small.yaml", "optimizer.learning_rate:0.1"}, {"'optimizer.learning_rate=0.1'"}},
      {{"small.yaml", ""}, {"an empty word", "a variable that is not set"}},
      {{"trian", "small.yaml"}, {"'trian'", "dtrain --config FILE"}},
      {{"small.yaml", "--run-dir", "a", "--run-dir", "b"}, {"--run-dir is given more than once"}},
      {{"info", "small.yaml"}, {"'small.yaml' is one word too many for dtrain info"}},
      {{"sweep", "small.yaml", "--ranks", "1-8"}, {"--ranks: '1-8'", "1,2,4"}},
  });
}

TEST_CASE("a folder of data is taken for what the configuration lacks") {
  const TemporaryFolder folder;
  refused({{{"check", "small.yaml", folder.path()}, {"'" + folder.path() + "'", "'data.root=" + folder.path() + "'"}}});
}

TEST_CASE("a control character in a word is refused, but for those that lay out a value") {
  refused({{{"--config", "a\x1b[2Jb.yaml"}, {"a word of the command line holds a control character"}},
           {{"--config", "small.yaml", "name=a\x7f"}, {"a word of the command line holds a control character"}}});
  const auto train = std::get<TrainCommand>(typed({"--config", "small.yaml", "data.root=a\n\tb"}).command);
  CHECK(train.config.sources.overrides == std::vector<std::string>{"data.root=a\n\tb"});
}
