#include "dtrain/io/pictures/tiff_input.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

namespace dtrain {

namespace {

/// The most that libtiff may allocate at once for itself, for lists of strips and tables of its decoders.
constexpr tmsize_t kLibraryMemory = tmsize_t{64} << 20;

TiffInput& input_of(thandle_t handle) { return *static_cast<TiffInput*>(handle); }

tmsize_t on_read(thandle_t handle, void* out, tmsize_t count) {
  TiffInput& input = input_of(handle);
  const uint64_t rest = input.at < input.file.size() ? input.file.size() - input.at : 0;
  const uint64_t got = std::min(rest, static_cast<uint64_t>(std::max<tmsize_t>(count, 0)));
  std::memcpy(out, input.file.data() + (got > 0 ? input.at : 0), got);
  input.at += got;
  return static_cast<tmsize_t>(got);
}

tmsize_t on_write(thandle_t, void*, tmsize_t) { return 0; }

toff_t on_seek(thandle_t handle, toff_t offset, int from) {
  TiffInput& input = input_of(handle);
  if (from == SEEK_CUR) offset += input.at;
  if (from == SEEK_END) offset += input.file.size();
  input.at = offset;
  return offset;
}

int on_close(thandle_t) { return 0; }
toff_t on_size(thandle_t handle) { return input_of(handle).file.size(); }

int on_map(thandle_t handle, void** base, toff_t* size) {
  const TiffInput& input = input_of(handle);
  *base = const_cast<std::byte*>(input.file.data());
  *size = input.file.size();
  return 1;
}

void on_unmap(thandle_t, void*, toff_t) {}

int on_error(TIFF*, void* user, const char*, const char* format, va_list values) {
  TiffInput& input = input_of(user);
  char text[256] = "";
  std::vsnprintf(text, sizeof text, format, values);
  for (char& c : text) c = c == '\n' ? ' ' : c;  // on one line
  if (input.error.empty()) input.error = text;
  return 1;  // handled: libtiff must not print it
}

int on_warning(TIFF* tiff, void* user, const char* module, const char* format, va_list values) {
  return input_of(user).strict ? on_error(tiff, user, module, format, values) : 1;
}

}  // namespace

TiffInput::~TiffInput() {
  if (tiff != nullptr) TIFFClose(tiff);
}

bool TiffInput::open(const std::string& name, uint64_t directory) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kLibraryMemory);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
  // c: do not split large strips; h: read only the header, since the page may not be the first
  tiff = TIFFClientOpenExt(name.c_str(), "rch", this, on_read, on_write, on_seek, on_close, on_size, on_map, on_unmap,
                           options.get());
  return tiff != nullptr && TIFFSetSubDirectory(tiff, directory) == 1;
}

}  // namespace dtrain
