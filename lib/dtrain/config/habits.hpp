#pragma once
#include <string>
#include <vector>

// What people write who come from other programs (PyTorch's scripts, Lightning, Keras, timm, Hugging Face, nnU-Net,
// Ultralytics): other names for existing keys, and names of things that this version does not have.

namespace dtrain {

/// One such name. `name` is in lower case, with `_` for `-`, and may have dots.
struct Habit {
  const char* name;
  const char* key;      ///< the key here; "" if there is none
  const char* instead;  ///< in that case: what this version lacks, and what it has
};
const std::vector<Habit>& habits();

/// The habit that an unknown key comes from, by the whole key ("scheduler.gamma") or one of its words ("lr",
/// "early_stopping.patience", "trainer.max_epochs"); null if none is known.
const Habit* habit_behind(const std::string& key);

/// The key that `group=value` most likely means ("model.name" for "model"); "" if none does. For a value that is not a
/// group of keys.
std::string key_of_group(const std::string& group);

/// What another program's value is called here, if that is among `offers`: "gpu" is cuda. Otherwise "".
std::string value_here(const std::string& value, const std::vector<std::string>& offers);

/// What to write instead of an unknown option, e.g. for ("--lr", "0.1"): "optimizer.learning_rate=0.1". `value`: what
/// followed it, or "". "" if the option is not a key; a sentence that begins with "this version" if this version has no
/// such thing. `misspelt`: accept a similar key.
std::string option_as_key(const std::string& option, const std::string& value, bool misspelt = false);

}  // namespace dtrain
