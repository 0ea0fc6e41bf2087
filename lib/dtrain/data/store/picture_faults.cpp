#include "dtrain/data/store/picture_faults.hpp"

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

bool is_of_the_file(const Error& error) {
  if (dynamic_cast<const NoReaderError*>(&error) != nullptr) return false;
  switch (error.code()) {
    case exit_code::kBadData:
    case exit_code::kMissingInput:
    case exit_code::kPermission:
      return true;
    default:
      return false;
  }
}

void throw_of_the_machine(const Error& error) {
  if (error.code() == exit_code::kBadData) throw ConfigError(error.what());
  throw;
}

}  // namespace dtrain
