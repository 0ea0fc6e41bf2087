#pragma once
#include "dtrain/base/words.hpp"

namespace dtrain {

/// What a network predicts: several labels at once, one class of several, or a class per pixel. `from_format` is in a
/// configuration until the data's format has decided; data, losses and metrics never see it, and it has no word.
enum class Task { from_format, multilabel, multiclass, segmentation };

template <>
inline constexpr auto kWordsOf<Task> = std::to_array<Word<Task>>({{Task::multilabel, "multilabel"},
                                                                  {Task::multiclass, "multiclass"},
                                                                  {Task::segmentation, "segmentation"}});

}  // namespace dtrain
