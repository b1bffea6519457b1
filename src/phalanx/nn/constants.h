#pragma once
// Tables that passes read and training does not change. Layers request them when they are built; a
// rank computes each table once.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/tensor/tensor.h"

namespace phalanx {
struct Context;
}

namespace phalanx::nn {

using ConstantId = int;

// Constants with the same name are the same.
struct ConstantSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::function<void(Context& context, const Tensor& constant)> fill;
};

// The constants of a table of parameters (nn/param_table.h), in memory.
class Constants {
 public:
  Constants() = default;
  Constants(std::span<const ConstantSpec> specs, Context& context, Arena& arena);
  // By id.
  Tensors tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace phalanx::nn
