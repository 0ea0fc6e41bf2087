#pragma once
#include <memory>

#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// `comm`, but every call first tells the ranks involved what it is going to do: its number among the calls between the
/// two, its kind, and the types and sizes of its messages. If two ranks are not about to do the same, both throw
/// InternalError ("rank 1 is at exchange 17 (sends 8 bytes) where rank 0 is at exchange 16 (…): a collective was called
/// out of order") instead of hanging or mixing data. Ranks that wait for each other without hearing anything for
/// `limit_s` throw CommError. Its duplicates are checked too.
///
/// Stricter than Communicator: what two ranks exchange in one call on one side is one call on the other side as well.
/// Costs two more messages between each two ranks and call.
std::unique_ptr<Communicator> with_order_checked(std::unique_ptr<Communicator> comm, double limit_s = 60);

/// with_order_checked() in builds with assertions (order_checked.cpp), `comm` itself in others (order_trusted.cpp).
std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> comm);

}  // namespace dtrain
