// The three products of a linear layer.

#include "phalanx/ops/linear.h"

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/kernel_type.h"
#include "phalanx/ops/cpu/matrix_product.h"

namespace phalanx::cpu {
namespace {

Matrix matrix(const Tensor& tensor) {
  PHALANX_CHECK(tensor.shape.rank() == 2 && (tensor.strides[1] == 1 || tensor.shape[1] == 1),
                "a product's operand must be a matrix of dense rows, not {}",
                tensor.shape.to_string());
  const std::int64_t stride = tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0];
  return {.data = tensor.data(), .dtype = tensor.dtype, .stride = stride};
}

Matrix transposed(const Tensor& tensor) {
  Matrix result = matrix(tensor);
  result.transposed = true;
  return result;
}

MatrixProduct product_of(const ops::LinearForward& op) {
  MatrixProduct product{.m = op.y.shape[0],
                        .n = op.y.shape[1],
                        .k = op.x.shape[1],
                        .a = matrix(op.x),
                        .b = transposed(op.weight),
                        .c = matrix(op.y)};
  if (op.bias) {
    PHALANX_CHECK(op.bias.contiguous(), "the bias of a product must be dense");
    product.biased = true;
    product.bias = op.bias.data();
    product.bias_dtype = op.bias.dtype;
  }
  return product;
}

MatrixProduct product_of(const ops::LinearInputGradient& op) {
  return {.m = op.dx.shape[0],
          .n = op.dx.shape[1],
          .k = op.dy.shape[1],
          .a = matrix(op.dy),
          .b = matrix(op.weight),
          .c = matrix(op.dx)};
}

MatrixProduct product_of(const ops::LinearWeightGradient& op) {
  return {.m = op.dweight.shape[0],
          .n = op.dweight.shape[1],
          .k = op.x.shape[0],
          .a = transposed(op.dy),
          .b = matrix(op.x),
          .c = matrix(op.dweight),
          .accumulate = op.accumulate};
}

// A plan may ask for the workspace of a product in f64; no kernel computes it.
void compute(CpuDevice& device, const MatrixProduct& product, const Tensor& scratch) {
  for (const Matrix& matrix : {product.a, product.b, product.c}) expect_kernel_type(matrix.dtype);
  multiply(device, product, scratch.data());
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearForward& op) {
  return workspace_bytes_of(device, product_of(op));
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearInputGradient& op) {
  return workspace_bytes_of(device, product_of(op));
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearWeightGradient& op) {
  return workspace_bytes_of(device, product_of(op));
}

void execute(CpuDevice& device, const ops::LinearForward& op, const Tensor& scratch) {
  compute(device, product_of(op), scratch);
}
void execute(CpuDevice& device, const ops::LinearInputGradient& op, const Tensor& scratch) {
  compute(device, product_of(op), scratch);
}
void execute(CpuDevice& device, const ops::LinearWeightGradient& op, const Tensor& scratch) {
  compute(device, product_of(op), scratch);
}

}  // namespace phalanx::cpu
