#pragma once

namespace dtrain {

/// What a network is asked: several labels at once, one class of several, or a class per pixel.
/// `from_format` stands in a configuration until the data's format has decided; data, losses and metrics never see it.
enum class Task { from_format, multilabel, multiclass, segmentation };

/// As in configurations and manifests; not of from_format.
constexpr const char* task_name(Task task) {
  return task == Task::multilabel ? "multilabel" : task == Task::multiclass ? "multiclass" : "segmentation";
}

}  // namespace dtrain
