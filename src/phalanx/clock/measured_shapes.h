#pragma once
// Products and attention at the shapes that were measured on a device: formulas know no kernels,
// and where a shape was measured, or one like it, the measurement counts.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/clock/quantity.h"

namespace phalanx {

// What a matrix product multiplies. f32 is without tensor cores' shorter mantissas, tf32 with them.
enum class ProductType : std::uint8_t { kF32, kTF32, kF16, kBF16, kFP8 };
inline constexpr std::array kProductTypes = {ProductType::kF32, ProductType::kTF32,
                                             ProductType::kF16, ProductType::kBF16,
                                             ProductType::kFP8};
inline constexpr std::string_view kProductTypeNames = "f32 tf32 f16 bf16 fp8";
// One of these names.
std::string_view name_of(ProductType type);
// Bytes of an operand's element in memory.
std::int64_t size_of(ProductType type);
// The product of tensors of this type; f64 counts as f32, integers are no products (InternalError).
ProductType product_type(DType dtype);

// C [m, n] = A [m, k] B [k, n], `batch` times.
struct MatrixProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  ProductType type = ProductType::kBF16;

  // 2 m n k batch.
  double flops() const;
  // Both operands and the result once, in the type; of fp8 the result is in 16 bits.
  double bytes() const;
};

// Fused attention that sees so many keys of a sample at most.
struct AttentionPass {
  ProductType type = ProductType::kBF16;
  bool is_backward = false;
  std::int64_t head_size = 0;
  std::int64_t keys = 0;
};

// Of a product: its time as a multiple of what the formula says. Of attention: the share of the
// peak that its useful FLOPs reach.
struct MeasuredProduct {
  MatrixProduct product;
  Quantity factor;
};
struct MeasuredAttention {
  AttentionPass pass;
  Quantity share;
};

// From a product to the nearest that was measured in its type: doublings of m, n, k and batch, the
// root of the sum of their squares. Infinite where there is none.
double doublings_to_measured(const std::vector<MeasuredProduct>& measured,
                             const MatrixProduct& product);
// By how much the formula's time of a product is multiplied: the mean of the measured factors, on a
// logarithmic scale, each by its distance d in doublings of m, n, k and batch with the weight
// 1 / d^4; the formula itself, a factor of 1, is in it as if it were two doublings away.
double product_factor(const std::vector<MeasuredProduct>& measured, const MatrixProduct& product);
// In the same way, by doublings of head size and keys; `otherwise` is the share of unlike passes.
double attention_share(const std::vector<MeasuredAttention>& measured, const AttentionPass& pass,
                       double otherwise);

// Keys of a description: "bf16_8192x768x3072", and "forward_bf16_64x1024" of 64 columns a head and
// 1,024 keys. DataError names `file` and the key where it is read as none.
std::map<std::string, Quantity> named(const std::vector<MeasuredProduct>& measured);
std::map<std::string, Quantity> named(const std::vector<MeasuredAttention>& measured);
void set_named(const std::map<std::string, Quantity>& quantities, std::string_view file,
               std::vector<MeasuredProduct>& measured);
void set_named(const std::map<std::string, Quantity>& quantities, std::string_view file,
               std::vector<MeasuredAttention>& measured);

}  // namespace phalanx
