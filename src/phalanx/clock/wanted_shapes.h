#pragma once
// The products and the attention of a step, by their shapes: `phalanx plan` writes them to a file,
// and a device is measured at them.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/ops/cases/case.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

inline constexpr std::array<std::string_view, 3> kWantedProducts = {
    "linear_forward", "linear_input_gradient", "linear_weight_gradient"};
inline constexpr std::array<std::string_view, 2> kWantedAttention = {"attention_forward",
                                                                     "attention_backward"};

// y [rows, n] = x [rows, k] W^T, or one of its gradients.
struct WantedProduct {
  std::string op;  // one of kWantedProducts
  std::int64_t rows = 0, n = 0, k = 0;

  friend bool operator==(const WantedProduct&, const WantedProduct&) = default;
};
struct WantedAttention {
  std::string op;  // one of kWantedAttention
  ops::AttentionSize size = {};
};

struct WantedShapes {
  std::vector<WantedProduct> products = {};
  std::vector<WantedAttention> attention = {};

  // If the op is one of these, and new. What is left out is priced by what is near.
  void add(const OpCost& cost);
};

}  // namespace phalanx
