// The three products of a linear layer, and the gradient of its bias.

#include "phalanx/ops/linear.h"

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/kernel_type.h"
#include "phalanx/ops/cpu/line_sums.h"
#include "phalanx/ops/cpu/linear_products.h"

namespace phalanx::cpu {
namespace {

Matrix matrix(const Tensor& tensor) {
  const std::int64_t stride = tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0];
  return {.data = tensor.data(), .dtype = tensor.dtype, .stride = stride};
}

Matrix transposed(const Tensor& tensor) {
  Matrix result = matrix(tensor);
  result.transposed = true;
  return result;
}

EpilogueRows rows(const Tensor& tensor) {
  const Matrix dense = matrix(tensor);
  return {dense.data, dense.dtype, dense.stride};
}

// A plan may ask for the workspace of gradients in f64; no kernel computes them.
void expect_sums(const Tensor& dbias) {
  PHALANX_CHECK(!dbias || dbias.dtype == DType::kF32, "the gradient of a bias is f32");
}

void set_activation(Epilogue& epilogue, const Tensor& bias, ops::ActivationKind kind) {
  epilogue.activation = kind;
  if (!bias) return;
  epilogue.activation_bias = bias.data();
}

void compute(CpuDevice& device, const MatrixProduct& product, const Tensor& scratch) {
  expect_kernel_types(product);
  multiply(device, product, scratch.data());
}

LineSums sums_of(const ops::BiasGradient& op) {
  const Matrix dy = matrix(op.dy);
  return {.from = {dy.data, dy.dtype, dy.stride, false},
          .lines = op.dy.shape[1],
          .depth = op.dy.shape[0],
          .to = reinterpret_cast<float*>(op.dbias.data()),
          .accumulate = op.accumulate};
}

// The blocks of the weight gradient beside it.
std::int64_t depth_block_of(const CpuDevice& device, const ops::BiasGradient& op) {
  const Matrix dy = matrix(op.dy);
  return row_sums_block_of(device, {.k = op.dy.shape[0], .a = dy, .b = {.dtype = dy.dtype}});
}

}  // namespace

MatrixProduct product_of(const ops::LinearForward& op) {
  MatrixProduct product{.m = op.y.shape[0],
                        .n = op.y.shape[1],
                        .k = op.x.shape[1],
                        .a = matrix(op.x),
                        .b = transposed(op.weight),
                        .epilogue = {.c = rows(op.y)}};
  if (op.bias) {
    product.epilogue.has_bias = true;
    product.epilogue.bias = op.bias.data();
    product.epilogue.bias_dtype = op.bias.dtype;
  }
  if (op.activation.activated) {
    product.epilogue.kind = Epilogue::Kind::kActivation;
    product.epilogue.other = rows(op.activation.activated);
    set_activation(product.epilogue, op.activation.bias, op.activation.kind);
  }
  return product;
}

MatrixProduct product_of(const ops::LinearInputGradient& op) {
  MatrixProduct product{.m = op.dx.shape[0],
                        .n = op.dx.shape[1],
                        .k = op.dy.shape[1],
                        .a = matrix(op.dy),
                        .b = matrix(op.weight),
                        .epilogue = {.c = rows(op.dx)}};
  if (op.activation.x) {
    product.epilogue.kind = Epilogue::Kind::kActivationGradient;
    product.epilogue.other = rows(op.activation.x);
    set_activation(product.epilogue, op.activation.bias, op.activation.kind);
  }
  return product;
}

MatrixProduct product_of(const ops::LinearWeightGradient& op) {
  MatrixProduct product{.m = op.dweight.shape[0],
                        .n = op.dweight.shape[1],
                        .k = op.x.shape[0],
                        .a = transposed(op.dy),
                        .b = matrix(op.x),
                        .epilogue = {.c = rows(op.dweight), .accumulate = op.accumulate}};
  if (op.dbias) {
    product.sums_rows = true;
    product.row_sums = reinterpret_cast<float*>(op.dbias.data());
    product.accumulate_row_sums = op.accumulate;
  }
  return product;
}

void expect_kernel_types(const MatrixProduct& product) {
  const Epilogue& epilogue = product.epilogue;
  for (const DType dtype : {product.a.dtype, product.b.dtype, epilogue.c.dtype}) {
    expect_kernel_type(dtype);
  }
  PHALANX_CHECK(epilogue.other.data == nullptr || epilogue.other.dtype == epilogue.c.dtype,
                "an activation of {} beside {}", name_of(epilogue.other.dtype),
                name_of(epilogue.c.dtype));
}

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearForward& op) {
  return workspace_bytes_of(device, product_of(op));
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearInputGradient& op) {
  return workspace_bytes_of(device, product_of(op));
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearWeightGradient& op) {
  return workspace_bytes_of(device, product_of(op));
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::BiasGradient& op) {
  return line_sums_bytes(sums_of(op), depth_block_of(device, op));
}

void execute(CpuDevice& device, const ops::LinearForward& op, const Tensor& scratch) {
  compute(device, product_of(op), scratch);
}
void execute(CpuDevice& device, const ops::LinearInputGradient& op, const Tensor& scratch) {
  compute(device, product_of(op), scratch);
}
void execute(CpuDevice& device, const ops::LinearWeightGradient& op, const Tensor& scratch) {
  expect_sums(op.dbias);
  compute(device, product_of(op), scratch);
}
void execute(CpuDevice& device, const ops::BiasGradient& op, const Tensor& scratch) {
  expect_kernel_type(op.dy.dtype);
  expect_sums(op.dbias);
  add_up_lines(device.threads, sums_of(op), depth_block_of(device, op), scratch.data());
}

}  // namespace phalanx::cpu
