#pragma once
#include <string>
#include <vector>

// What people write who come from other programs (PyTorch's scripts, Lightning, Keras, timm, Hugging Face, nnU-Net,
// Ultralytics): other names for keys that are here, and names of what this version has not.

namespace dtrain {

/// One such name. `name` is in lower case, with `_` for `-`, and may have dots.
struct Habit {
  const char* name;
  const char* key;      ///< the key here; "" where there is none
  const char* instead;  ///< then: what this version has not, and what it has
};
const std::vector<Habit>& habits();

/// The habit that an unknown key comes from, by the whole key ("scheduler.gamma") or one of its words ("lr",
/// "early_stopping.patience", "trainer.max_epochs"); null where none is known.
const Habit* habit_behind(const std::string& key);

/// The key that `group=value` most likely means ("model.name" for "model"); "" where none does. Of a value that is no
/// group of keys.
std::string key_of_group(const std::string& group);

/// What a value of another program is called here, where that is among `offers`: "gpu" is cuda. "" where none is.
std::string value_here(const std::string& value, const std::vector<std::string>& offers);

/// What to write instead of an option that is no option, as for ("--lr", "0.1"): "optimizer.learning_rate=0.1".
/// `value`: what stood behind it, "" where nothing did. "" where the option is no key; a sentence that begins with
/// "this version" where this version has no such thing. `misspelt`: a key that is near will do.
std::string option_as_key(const std::string& option, const std::string& value, bool misspelt = false);

}  // namespace dtrain
