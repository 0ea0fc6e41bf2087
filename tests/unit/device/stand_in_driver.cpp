// The functions of libcuda.so.1 that dtrain calls before it chooses a GPU. STAND_IN_GPUS: how many there are (default
// 2); STAND_IN_INIT: what cuInit returns (default 0), STAND_IN_CUDA: the newest CUDA (default 13010), STAND_IN_MAJOR:
// of the compute capability (default 9), STAND_IN_MULTIPROCESSORS: of each GPU (default 132), STAND_IN_NAME: of each
// GPU, in place of a name with its number, STAND_IN_PCI: the place of each on the PCI bus (default: none is told).
#include <cstdio>
#include <cstdlib>
#include <cstring>

static int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

extern "C" {
int cuInit(unsigned) { return number("STAND_IN_INIT", 0); }
int cuGetErrorString(int code, const char** text) {
  *text = code == 803 ? "system has unsupported display driver / cuda driver combination" : nullptr;
  return *text == nullptr ? 1 : 0;
}
int cuDriverGetVersion(int* version) {
  *version = number("STAND_IN_CUDA", 13010);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("STAND_IN_GPUS", 2);
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 100 + ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  const char* given = std::getenv("STAND_IN_NAME");
  if (given != nullptr)
    std::snprintf(name, static_cast<size_t>(size), "%s", given);
  else
    std::snprintf(name, static_cast<size_t>(size), "Stand-in GPU %d", device - 100);
  return 0;
}
int cuDeviceGetPCIBusId(char* place, int size, int) {
  const char* given = std::getenv("STAND_IN_PCI");
  if (given == nullptr) return 1;
  std::snprintf(place, static_cast<size_t>(size), "%s", given);
  return 0;
}
int cuDeviceGetUuid(void* uuid, int device) {
  std::memset(uuid, 0xA0 + device - 100, 16);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = 0;
  if (attribute == 75) *value = number("STAND_IN_MAJOR", 9);
  if (attribute == 16) *value = number("STAND_IN_MULTIPROCESSORS", 132);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{80} * 1000 * 1000 * 1000;
  return 0;
}
}
