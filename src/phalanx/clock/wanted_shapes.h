#pragma once
// The products and the attention of a step, by their shapes: `phalanx plan` writes them to a file,
// and a device is measured at them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/ops/cases/case.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

// y [rows, n] = x [rows, k] W^T, or one of its gradients.
struct WantedProduct {
  std::string op;  // "linear_forward", "linear_input_gradient" or "linear_weight_gradient"
  std::int64_t rows = 0, n = 0, k = 0;

  friend bool operator==(const WantedProduct&, const WantedProduct&) = default;
};
struct WantedAttention {
  std::string op;  // "attention_forward" or "attention_backward"
  ops::AttentionSize size = {};
};

struct WantedShapes {
  std::vector<WantedProduct> products = {};
  std::vector<WantedAttention> attention = {};

  // If the op is one of these, and new. What is left out is priced by what is near.
  void add(const OpCost& cost);
};

// One JSON document: {"products": [{"op", "rows", "n", "k"}], "attention": [{"op", "rows", "batch",
// "heads", "head_size"}]}.
std::string to_json(const WantedShapes& shapes);
// DataError that names `file` and the field.
WantedShapes wanted_shapes_from_json(std::string_view text, std::string_view file);

}  // namespace phalanx
