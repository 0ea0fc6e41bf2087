#pragma once

namespace dtrain {

/// What a network is asked: several labels at once, one class of several, or a class per pixel.
/// `from_format` stands in a configuration until the data's format has decided; data, losses and metrics never see it.
enum class Task { from_format, multilabel, multiclass, segmentation };

}  // namespace dtrain
