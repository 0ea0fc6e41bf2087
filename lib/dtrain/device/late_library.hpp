#pragma once
#include <dlfcn.h>

#include <string>

namespace dtrain {

/// A library of C functions that is looked for at run time, NVIDIA's driver or what comes with it: a machine without it
/// pays for a failed dlopen. Never closed: such libraries keep threads and handlers of their own.
class LateLibrary {
 public:
  enum class Open {
    always,
    if_in_use,  ///< only if this process has loaded it already
  };
  explicit LateLibrary(const std::string& file, Open open = Open::always)
      : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | (open == Open::if_in_use ? RTLD_NOLOAD : 0))) {}

  bool loaded() const { return handle_ != nullptr; }

  /// The result of a call; -1 if the library is too old to have the function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? -1 : function(arguments...);
  }

 private:
  void* handle_;
};

}  // namespace dtrain
