#include "phalanx/checkpoint/tensor_source.h"

#include <algorithm>

namespace phalanx {

std::string state_prefix(std::string_view state) {
  return std::string(kOptimizerPrefix) + std::string(state) + ".";
}

LocalTensorSource::LocalTensorSource(std::span<const GlobalTensor> tensors) {
  for (const auto& tensor : tensors) {
    check_boxes(tensor, Coverage::kWhole);
    tensors_.push_back(&tensor);
  }
  std::stable_partition(tensors_.begin(), tensors_.end(), [](const GlobalTensor* tensor) {
    return !tensor->name.starts_with(kOptimizerPrefix);
  });
  for (const auto* tensor : tensors_) {
    infos_.push_back({tensor->name, tensor->local.dtype, tensor->global_shape});
  }
}

void LocalTensorSource::visit(int index, const Visitor& visitor) {
  visit_global_bytes(*tensors_[static_cast<std::size_t>(index)], visitor);
}

}  // namespace phalanx
