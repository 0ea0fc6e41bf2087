#include "dtrain/base/error.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "dtrain/base/printable.hpp"

namespace dtrain {

void check(bool holds, std::string_view promise, std::source_location where) {
  if (holds) return;
  throw InternalError(fmt::format("{} ({}:{}); this is a bug in dtrain, please report it with the command and the log",
                                  promise, where.file_name(), where.line()));
}

static const char* out_of_room(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT ? "; free some there, or choose another place" : "";
}

void throw_errno(const std::string& doing, const std::string& path, int error_number) {
  const std::string why = error_number == ELOOP ? "a symbolic link on the way is not followed, or links form a loop"
                                                : std::strerror(error_number) + std::string(out_of_room(error_number));
  const std::string sentence = "cannot " + doing + " " + path + ": " + why;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      throw MissingError(sentence);
    case EACCES:
    case EPERM:
    case EROFS:
      throw PermissionError(sentence);
    case ENOMEM:
      throw Error(exit_code::kOutOfMemory, sentence);
    default:
      throw IoError(sentence);
  }
}

Error merge_errors(const std::vector<Error>& errors) {
  std::vector<std::string> sentences;
  int code = 0;
  for (const Error& error : errors) sentences.emplace_back(error.what());
  for (int candidate :
       {exit_code::kUsage, exit_code::kConfig, exit_code::kMissingInput, exit_code::kPermission, exit_code::kBadData})
    for (const Error& error : errors)
      if (code == 0 && error.code() == candidate) code = candidate;
  return Error(code == 0 ? errors.front().code() : code, one_below_another(sentences));
}

}  // namespace dtrain
