#pragma once
#include <optional>

namespace dtrain {

/// What a signal has asked for, in rising order; the larger of two requests counts.
enum class StopRequest : int {
  none = 0,
  save = 1,  ///< USR2: write a checkpoint, continue
  stop = 2,  ///< USR1, TERM, HUP, first INT: write a checkpoint, leave with 75
};

/// Installs handlers for USR1, USR2, TERM, HUP and INT that do nothing but set a flag; a second INT ends the process at
/// once, and removes a progress bar first (base/terminal.hpp). HUP stays ignored where it was at the start, as nohup
/// leaves it. For training and packing, which go on where they stopped: other commands end at the first signal, as
/// programs do. Signals reach ranks at different steps, or only some of them: agree over ranks before acting. The flags
/// are statics, because a signal handler can reach nothing else.
void install_stop_handlers();

/// Ignores SIGXFSZ and SIGPIPE, so that writes past a limit report an error instead of killing the process.
void ignore_write_signals();

/// The request pending in this process. A pending `save` is cleared by reading it with take_stop_request().
StopRequest pending_stop_request();
inline bool stop_is_pending() { return pending_stop_request() == StopRequest::stop; }

/// Seconds since the first TERM, HUP or INT, on the monotonic clock; nothing if there was none. mpirun sends TERM to
/// its ranks and KILL a second later.
std::optional<double> seconds_since_term();

/// Reads the request and clears a `save`; `stop` stays pending.
StopRequest take_stop_request();

}  // namespace dtrain
