#include "dtrain/metrics/options.hpp"

namespace dtrain {

// Each in the file of its name, and called from here alone.
Metric accuracy_metric();
Metric auroc_metric();
Metric iou_metric();
Metric iou_image_metric();
Metric dice_metric();
Metric average_precision_metric();

const Metrics& all_metrics() {
  static const Metrics kAll = {accuracy_metric(),  auroc_metric(), iou_metric(),
                               iou_image_metric(), dice_metric(),  average_precision_metric()};
  return kAll;
}

}  // namespace dtrain
