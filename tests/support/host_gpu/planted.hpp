#pragma once
#include <memory>
#include <string>

#include "dtrain/device/gpu_module.hpp"

namespace dtrain::test {

/// `sound` with one mistake planted in it, so that a check of a whole machine can show that it finds such a one:
///   add          a sum of two gradients is off in its last bit
///   pictures     so is the first pixel of a batch
///   frozen       updates change no weight
///   drift        one update in two, by chance, is off in its last bit
///   ranks        sums are off where there are several processes
///   forgets      the optimizer's first update in a process finds its momentum gone
///   sticky       after the second update what is issued fails, and memory that is freed
///   crash        the gradients' norm ends the process by SIGABRT
///   replay       a graph's replay does nothing
///   record       a step cannot be recorded
///   memory       the device cannot say how much memory it holds
///   boundless    it has as much memory as the host
///   unavailable  the device cannot be used
/// "" plants none. Throws std::invalid_argument for any other name.
std::unique_ptr<GpuModule> with_planted(GpuModule& sound, const std::string& mistake);

}  // namespace dtrain::test
