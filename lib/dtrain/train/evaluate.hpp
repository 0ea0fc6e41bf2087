#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dtrain/data/batch_source.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/watchdog.hpp"
#include "dtrain/metrics/figures.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/train/replica.hpp"

namespace dtrain {

/// Runs the network in evaluation mode, in the replica's precision, over `samples` (indices into the data set), each
/// exactly once over all ranks, and gives every rank the whole set's predictions in the order of `samples`. The set is
/// cut into batches of `batch` whatever the number of ranks, because a convolution's bits may depend on the batch:
/// batch j goes to rank j mod n.
///
/// stop   asked before each batch, on every rank for itself; nothing comes back, on all ranks, when it was true on one
/// Throws DivergedError, on all ranks, when the loss is not finite.
std::optional<Predictions> evaluate(
    Replica& replica, const Loss& loss, Task task, BatchSource& loader, const std::vector<int64_t>& samples,
    int64_t batch, Communicator& comm, Watchdog& watchdog, int64_t step,
    const std::function<bool()>& stop = [] { return false; });

/// The labels of the set that was judged. pixels: of a picture, for segmentation.
LabelCounts label_counts(const Predictions& predictions, int64_t pixels);

/// Segmentation: true where no pixel of the whole set was called any class, though masks hold some.
bool nothing_predicted(const Predictions& predictions);

}  // namespace dtrain
