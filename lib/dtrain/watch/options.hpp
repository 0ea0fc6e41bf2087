#pragma once

namespace dtrain {

/// `distributed.watchdog`, in seconds without progress; infinity = off.
struct WatchLimits {
  double warn_s = 30;    ///< one warning names the rank that is behind; above abort_s there is none
  double abort_s = 600;  ///< the job ends with 76
};

}  // namespace dtrain
