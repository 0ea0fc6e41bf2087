#include "dtrain/dist/checked_communicator.hpp"

namespace dtrain {

std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> comm) { return comm; }

}  // namespace dtrain
