#include "dtrain/checkpoint/tensors.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

std::string dtype_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return "F32";
    case at::kDouble:
      return "F64";
    case at::kLong:
      return "I64";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    default:
      check(false, "a stored tensor has a type that the format knows");
  }
  return "";
}

static std::span<const std::byte> bytes_of(const at::Tensor& row_major) {
  return {static_cast<const std::byte*>(row_major.const_data_ptr()), static_cast<size_t>(row_major.nbytes())};
}

static std::string shape_text(at::IntArrayRef sizes) {
  std::vector<std::string> parts;
  for (int64_t size : sizes) parts.push_back(std::to_string(size));
  return join(parts, ",");
}

HostCopy::HostCopy(const std::vector<FileTensor>& tensors) {
  for (const FileTensor& tensor : tensors) {
    const at::Tensor copy = at::empty(tensor.tensor.sizes(), at::TensorOptions(tensor.tensor.scalar_type()));
    copy.copy_(tensor.tensor.detach());
    entries_.push_back({tensor.name, dtype_name(copy), copy.sizes().vec(), bytes_of(copy), crc32c(bytes_of(copy))});
    host_.push_back(copy);
  }
}

void save_tensors(const std::string& path, const HostCopy& tensors, const std::map<std::string, std::string>& metadata,
                  FileSystem& files) {
  write_safetensors(path, tensors.entries(), metadata, files);
  try {
    SafetensorsFile::verify(path, files);
  } catch (const DataError& damage) {
    files.unlink(path);
    throw IoError(std::string("what was read back is not what was written, so the file was removed: ") + damage.what());
  }
}

void fill_tensors(const SafetensorsFile& file, const std::string& path, const std::vector<FileTensor>& tensors) {
  for (const FileTensor& wanted : tensors) {
    const TensorEntry* entry = file.find(wanted.name);
    if (entry == nullptr)
      throw DataError(path + ": tensor " + wanted.name + " is missing; the file belongs to another model or optimizer");
    if (entry->dtype != dtype_name(wanted.tensor) || at::IntArrayRef(entry->shape) != wanted.tensor.sizes())
      throw DataError(path + ": tensor " + wanted.name + " is " + entry->dtype + " [" + shape_text(entry->shape) +
                      "], but this run needs " + dtype_name(wanted.tensor) + " [" + shape_text(wanted.tensor.sizes()) +
                      "]");
  }
  const at::NoGradGuard no_grad;
  for (const FileTensor& wanted : tensors) {
    const auto bytes = file.bytes(*file.find(wanted.name));
    const at::Tensor row_major = at::empty(
        wanted.tensor.sizes(),
        wanted.tensor.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous).requires_grad(false));
    if (!bytes.empty()) std::memcpy(row_major.data_ptr(), bytes.data(), bytes.size());
    at::Tensor(wanted.tensor).copy_(row_major);
  }
}

static void add_to_result(Sha256& hash, const std::string& name, const std::string& dtype, at::IntArrayRef shape,
                          std::span<const std::byte> bytes) {
  const std::string_view nul("\0", 1);
  hash.update(name).update(nul).update(dtype).update(nul).update(shape_text(shape)).update(nul).update(bytes);
}

std::string result_sha256(std::vector<FileTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const FileTensor& a, const FileTensor& b) { return a.name < b.name; });
  Sha256 hash;
  for (const FileTensor& tensor : tensors) {
    const at::Tensor row_major = tensor.tensor.detach().cpu().contiguous();
    add_to_result(hash, tensor.name, dtype_name(row_major), row_major.sizes(), bytes_of(row_major));
  }
  return hash.hex_digest();
}

std::string result_sha256(const SafetensorsFile& file, const std::string& prefix) {
  std::vector<const TensorEntry*> entries;
  for (const TensorEntry& entry : file.entries())
    if (entry.name.starts_with(prefix)) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
  Sha256 hash;
  for (const TensorEntry* entry : entries)
    add_to_result(hash, entry->name.substr(prefix.size()), entry->dtype, entry->shape, file.bytes(*entry));
  return hash.hex_digest();
}

}  // namespace dtrain
