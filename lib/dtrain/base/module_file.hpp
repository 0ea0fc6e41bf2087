#pragma once
#include <string>

namespace dtrain {

/// Modules are our shared libraries that the program loads when it needs them. One is looked for in two places:
/// beside the program, and in lib/ of its prefix, which is the folder above bin/ (a build) or above libexec/dtrain/ and
/// share/dtrain/tests/ (a bundle). A program in a folder of any other name has only the first place.

/// Path of the module that load_module() would take, "" if there is none.
std::string module_path(const std::string& name, const std::string& program = "/proc/self/exe");

/// Loads it for the life of the process and returns dlopen's handle. None of its code runs before these are checked:
/// - the file and its folders up to the prefix are not links and belong to root, to this user, or to the owner of the
///   program, which runs already; nobody else may write to them (in a folder with the sticky bit others may not replace
///   what is there). A group may if it may also replace the program;
/// - the module is of this build: its ModuleStamp says `stamp`.
/// The file that was checked is the one that is loaded, even if another file takes its name meanwhile: it stays open.
/// Throws MissingError (there is none, it is of another build, the loader's message), PermissionError (naming the file
/// or folder and what is wrong with it).
void* load_module(const std::string& name, const std::string& stamp, const std::string& program = "/proc/self/exe");

/// The text of the ModuleStamp in an ELF file that is open for reading; "" where there is none or the file was cut
/// short, whatever its bytes are.
std::string stamp_of_module(int file);

}  // namespace dtrain
