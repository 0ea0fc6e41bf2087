#include "dtrain/train/mirrored_views.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

namespace dtrain {

std::vector<std::vector<int64_t>> mirrored_views(Task task) {
  constexpr int64_t kRows = 2, kColumns = 3;
  if (task == Task::segmentation) return {{}, {kColumns}, {kRows}, {kRows, kColumns}};
  return {{}, {kColumns}};
}

std::vector<at::Tensor> mean_over_views(const at::Tensor& images, const std::vector<std::vector<int64_t>>& views,
                                        const SayOfPictures& say) {
  const at::MemoryFormat format = images.suggest_memory_format();
  std::vector<at::Tensor> sums;
  for (const std::vector<int64_t>& axes : views) {
    const std::vector<at::Tensor> said = say(axes.empty() ? images : images.flip(axes).contiguous(format));
    for (size_t i = 0; i < said.size(); ++i) {
      const at::Tensor back = axes.empty() || said[i].dim() != 4 ? said[i] : said[i].flip(axes);
      if (sums.size() == i)
        sums.push_back(back);
      else
        sums[i] = sums[i] + back;
    }
  }
  if (views.size() > 1)
    for (at::Tensor& sum : sums) sum = sum / static_cast<double>(views.size());
  return sums;
}

}  // namespace dtrain
