#pragma once
// The peer of a matrix product: oneDNN's matmul of the same shape, types and layouts.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "phalanx/base/dtype.h"

namespace phalanx::bench {

enum class LinearPass { kForward, kInputGradient, kWeightGradient };

// Of a linear layer y[rows, n] = x[rows, k] w[n, k]'; the weight gradient is added to fp32.
struct LinearProduct {
  LinearPass pass = LinearPass::kForward;
  std::int64_t rows = 0, n = 0, k = 0;
};

// What a row of the case table is by its op and its description, "1024x768x256, bias".
std::optional<LinearProduct> linear_product(const std::string& op, const std::string& description);

// On operands of its own, on the instructions that PHALANX_CPU_TARGET allows.
class OnednnProduct {
 public:
  // Null where oneDNN has no such product.
  static std::unique_ptr<OnednnProduct> make(const LinearProduct& product, DType dtype,
                                             int threads);
  ~OnednnProduct();
  OnednnProduct(const OnednnProduct&) = delete;
  OnednnProduct& operator=(const OnednnProduct&) = delete;

  void run();

 private:
  struct State;
  explicit OnednnProduct(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace phalanx::bench
