#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "dtrain/io/files/safetensors.hpp"

namespace dtrain {

/// A tensor under the name that a file gives it.
struct FileTensor {
  std::string name;
  at::Tensor tensor;
};

/// A snapshot of some tensors for a file: their row-major bytes in host memory, whatever device, layout and strides
/// they have, and the checksums of those bytes. Any later change of the copy is noticed: the file is compared with
/// these checksums when it is read back.
class HostCopy {
 public:
  explicit HostCopy(const std::vector<FileTensor>& tensors);

  /// Valid as long as this object.
  const std::vector<TensorBytes>& entries() const { return entries_; }

 private:
  std::vector<at::Tensor> host_;
  std::vector<TensorBytes> entries_;
};

/// write_safetensors(), then reads the file back. Throws likewise, and IoError when it does not read back as written:
/// it is removed then.
void save_tensors(const std::string& path, const HostCopy& tensors, const std::map<std::string, std::string>& metadata,
                  FileSystem& files = real_file_system());

/// Fills `tensors` in place from the entries of the same name; extra entries in the file are ignored.
/// Throws DataError naming file and tensor when one is absent or has another shape or type; nothing is filled then.
void fill_tensors(const SafetensorsFile& file, const std::string& path, const std::vector<FileTensor>& tensors);

/// result_sha256 of the contract: over the tensors by name in byte order: name, NUL, dtype, NUL, shape as `a,b`, NUL,
/// row-major little-endian bytes, whatever the layout in memory.
std::string result_sha256(std::vector<FileTensor> tensors);

/// The same over the tensors, in a completely read file, whose names begin with `prefix`, which is cut off: the result
/// of the run that a checkpoint ("model.") or best.safetensors ("") belongs to.
std::string result_sha256(const SafetensorsFile& file, const std::string& prefix);

/// F32, I64 … of a tensor's type; throws InternalError for types that no network here uses.
std::string dtype_name(const at::Tensor& tensor);

}  // namespace dtrain
