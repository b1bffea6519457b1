#include "phalanx/ops/cuda/linear.h"

#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

void check_types(std::string_view op, DType type, DType other) {
  PHALANX_CHECK(type == other, "{}: {} beside {}", op, name_of(other), name_of(type));
}

void multiply(const CudaContext& context, std::string_view op, const LtProduct& product,
              const LtOperands& operands) {
  PHALANX_CHECK(context.lt != nullptr, "{}: the context has no library of products", op);
  std::byte* workspace = take_scratch(context, op, context.lt->workspace_bytes());
  context.lt->multiply(context.queue, product, context.lt->choose(product), operands, workspace);
}

}  // namespace

LtProduct forward_product(const LinearShape& shape, DType operands, DType y, bool bias) {
  LtProduct product;
  product.m = shape.n;
  product.n = shape.rows;
  product.k = shape.k;
  product.transpose_a = true;
  product.type_ab = operands;
  product.type_d = y;
  product.lda = shape.k;
  product.ldb = shape.k;
  product.ldd = shape.n;
  product.bias = bias;
  product.tf32 = shape.tf32 && operands == DType::kF32;
  return product;
}

LtProduct input_gradient_product(const LinearShape& shape, DType operands) {
  LtProduct product;
  product.m = shape.k;
  product.n = shape.rows;
  product.k = shape.n;
  product.type_ab = operands;
  product.type_d = operands;
  product.lda = shape.k;
  product.ldb = shape.n;
  product.ldd = shape.k;
  product.tf32 = shape.tf32 && operands == DType::kF32;
  return product;
}

LtProduct weight_gradient_product(const LinearShape& shape, DType operands, bool accumulate) {
  LtProduct product;
  product.m = shape.k;
  product.n = shape.n;
  product.k = shape.rows;
  product.transpose_b = true;
  product.type_ab = operands;
  product.type_d = DType::kF32;
  product.lda = shape.k;
  product.ldb = shape.n;
  product.ldd = shape.k;
  product.accumulate = accumulate;
  product.tf32 = shape.tf32 && operands == DType::kF32;
  return product;
}

void linear_forward(const CudaContext& context, const LinearShape& shape, TypedAddress y,
                    TypedAddress x, TypedAddress weight, TypedAddress bias) {
  check_types("linear_forward", x.type, weight.type);
  if (shape.rows == 0 || shape.n == 0) return;
  if (shape.k == 0 && !bias) return fill(context, y, shape.rows * shape.n, 0.0);
  if (shape.k == 0)
    return copy_strided(context, y, bias, {2, {shape.rows, shape.n}, {shape.n, 1}, {0, 1}});
  if (bias && bias.type != y.type) {
    // The library adds a bias of y's type; it is rounded to no fewer digits.
    check_types("linear_forward", y.type, DType::kF32);
    PHALANX_CHECK(context.lt != nullptr, "linear_forward: the context has no library of products");
    const std::int64_t workspace = context.lt->workspace_bytes();
    std::byte* scratch =
        take_scratch(context, "linear_forward", forward_scratch(workspace, shape.n, true));
    const TypedAddress wide{scratch + workspace, DType::kF32};
    convert(context, wide, bias, shape.n);
    bias = wide;
  }
  multiply(context, "linear_forward",
           forward_product(shape, x.type, y.type, static_cast<bool>(bias)),
           {weight.at, x.at, y.at, bias.at});
}

void linear_input_gradient(const CudaContext& context, const LinearShape& shape, TypedAddress dx,
                           TypedAddress dy, TypedAddress weight) {
  check_types("linear_input_gradient", dy.type, weight.type);
  check_types("linear_input_gradient", dy.type, dx.type);
  if (shape.rows == 0 || shape.k == 0) return;
  if (shape.n == 0) return fill(context, dx, shape.rows * shape.k, 0.0);
  multiply(context, "linear_input_gradient", input_gradient_product(shape, dy.type),
           {weight.at, dy.at, dx.at, nullptr});
}

void linear_weight_gradient(const CudaContext& context, const LinearShape& shape, float* dweight,
                            TypedAddress dy, TypedAddress x, bool accumulate) {
  check_types("linear_weight_gradient", dy.type, x.type);
  if (shape.n == 0 || shape.k == 0) return;
  const TypedAddress d{reinterpret_cast<std::byte*>(dweight), DType::kF32};
  if (shape.rows == 0) {
    if (!accumulate) fill(context, d, shape.n * shape.k, 0.0);
    return;
  }
  multiply(context, "linear_weight_gradient", weight_gradient_product(shape, dy.type, accumulate),
           {x.at, dy.at, dweight, nullptr});
}

}  // namespace phalanx::cuda
