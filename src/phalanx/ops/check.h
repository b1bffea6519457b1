#pragma once
// Shape checks shared by the op families: programmer errors, so InternalError with the op's name.
// And what their costs share.

#include <string_view>

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

inline void expect_shape(std::string_view op, std::string_view operand, const Tensor& tensor,
                         const Shape& shape) {
  PHALANX_CHECK(tensor.defined() && tensor.shape == shape, "{}: {} is {}, expected {}", op, operand,
                tensor.defined() ? tensor.shape.to_string() : "absent", shape.to_string());
}

inline void expect_dtype(std::string_view op, std::string_view operand, const Tensor& tensor,
                         DType dtype) {
  PHALANX_CHECK(tensor.dtype == dtype, "{}: {} holds {}, expected {}", op, operand,
                name_of(tensor.dtype), name_of(dtype));
}

inline void expect_shape(std::string_view op, std::string_view operand, const Tensor& tensor,
                         const Shape& shape, DType dtype) {
  expect_shape(op, operand, tensor, shape);
  expect_dtype(op, operand, tensor, dtype);
}

// Operands of a storage type; f64 where the reference is differentiated numerically.
inline void expect_floating(std::string_view op, std::string_view operand, const Tensor& tensor) {
  PHALANX_CHECK(is_floating(tensor.dtype), "{}: {} holds {}, expected f32, bf16 or f16", op,
                operand, name_of(tensor.dtype));
}

// Main gradients and statistics: f32, or f64 where the reference is differentiated numerically.
inline void expect_full_precision(std::string_view op, std::string_view operand,
                                  const Tensor& tensor) {
  PHALANX_CHECK(tensor.dtype == DType::kF32 || tensor.dtype == DType::kF64,
                "{}: {} holds {}, expected f32", op, operand, name_of(tensor.dtype));
}

inline void expect_full_precision(std::string_view op, std::string_view operand,
                                  const Tensor& tensor, const Shape& shape) {
  expect_shape(op, operand, tensor, shape);
  expect_full_precision(op, operand, tensor);
}

// The residual stream, and results that other ops add up, have the storage type of the other
// operands, or f32.
inline void expect_stream(std::string_view op, std::string_view operand, const Tensor& tensor,
                          DType storage) {
  PHALANX_CHECK(tensor.dtype == storage || tensor.dtype == DType::kF32,
                "{}: {} holds {}, expected {} or f32", op, operand, name_of(tensor.dtype),
                name_of(storage));
}

// How operands lie in memory, which kernels rely on; an absent operand passes.
// All elements follow each other in row-major order.
template <typename... Operands>
void expect_contiguous(std::string_view op, const Operands&... tensors) {
  const auto expect = [op](const Tensor& tensor) {
    PHALANX_CHECK(tensor.contiguous(), "{}: operand {} with strides {} must be dense", op,
                  tensor.shape.to_string(), tensor.strides.to_string());
  };
  (expect(tensors), ...);
}
// The elements along the last dimension follow each other.
template <typename... Operands>
void expect_dense_last(std::string_view op, const Operands&... tensors) {
  const auto expect = [op](const Tensor& tensor) {
    PHALANX_CHECK(!tensor || tensor.shape.back() == 1 || tensor.strides.back() == 1,
                  "{}: the last dimension of operand {} with strides {} must be dense", op,
                  tensor.shape.to_string(), tensor.strides.to_string());
  };
  (expect(tensors), ...);
}
// The rows of a matrix may be apart, but each is dense; a tensor of another rank is dense.
template <typename... Operands>
void expect_dense_rows(std::string_view op, const Operands&... tensors) {
  const auto expect = [op](const Tensor& tensor) {
    if (tensor.shape.rank() == 2) {
      expect_dense_last(op, tensor);
    } else {
      expect_contiguous(op, tensor);
    }
  };
  (expect(tensors), ...);
}

// Positions and documents of rows whose samples do not matter.
inline void expect_places(std::string_view op, const RowCoordinates& rows, std::int64_t s,
                          std::int64_t b) {
  expect_shape(op, "rows.position", rows.position, {s, b}, DType::kI32);
  expect_shape(op, "rows.document", rows.document, {s, b}, DType::kI32);
}

inline void expect_rows(std::string_view op, const RowCoordinates& rows, std::int64_t s,
                        std::int64_t b) {
  expect_shape(op, "rows.sample", rows.sample, {s, b}, DType::kI64);
  expect_places(op, rows, s, b);
}

// Of an op with dropout over [s, b, h].
inline void expect_dropout(std::string_view op, const Dropout& dropout, const RowCoordinates& rows,
                           std::int64_t s, std::int64_t b) {
  expect_rows(op, rows, s, b);
  if (dropout.probability > 0.0) expect_contiguous(op, rows.sample, rows.position);
}

// Bytes of the operands that are present.
template <typename... Operands>
std::int64_t bytes_of(const Operands&... tensors) {
  return ((tensors.defined() ? tensors.bytes() : 0) + ...);
}

inline OpCost product_cost(std::string_view name, DType dtype, const ProductShape& product,
                           std::int64_t bytes_read, std::int64_t bytes_written) {
  return {.name = name,
          .flops = product.flops(),
          .bytes_read = bytes_read,
          .bytes_written = bytes_written,
          .dtype = dtype,
          .product = product};
}

}  // namespace phalanx::ops
