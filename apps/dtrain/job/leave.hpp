#pragma once

namespace dtrain {

/// Ends the process with `code` once everything that dtrain owns is gone and its output is written. LibTorch's tables
/// of operators are not taken down first: that is a quarter of a short command's processor time, for memory that the
/// kernel takes back anyway. Builds with sanitizers or coverage do take them down, since these report at the end
/// (leave_in_order.cpp).
[[noreturn]] void leave(int code);

}  // namespace dtrain
