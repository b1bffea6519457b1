#include "phalanx/tensor/tensor.h"

namespace phalanx {

bool Tensor::contiguous() const {
  std::int64_t expected = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    if (shape[dim] != 1 && strides[dim] != expected) return false;
    expected *= shape[dim];
  }
  return true;
}

Tensor Tensor::reshape(const Shape& new_shape) const {
  PHALANX_CHECK(contiguous() && new_shape.count() == count(), "{} cannot be seen as {}",
                shape.to_string(), new_shape.to_string());
  return dense_tensor(*arena, offset, dtype, new_shape);
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t extent) const {
  PHALANX_CHECK(begin >= 0 && extent >= 0 && begin + extent <= shape[dim],
                "slice [{}, {}) of dimension {} of {}", begin, begin + extent, dim,
                shape.to_string());
  Tensor view = *this;
  view.offset += begin * strides[dim] * size_of(dtype);
  view.shape[dim] = extent;
  return view;
}

Tensor Tensor::select(int dim, std::int64_t index) const {
  const Tensor sliced = slice(dim, index, 1);
  Tensor view = sliced;
  view.shape = {};
  view.strides = {};
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == dim) continue;
    view.shape.push_back(shape[i]);
    view.strides.push_back(strides[i]);
  }
  return view;
}

Tensor Tensor::rows() const {
  const std::int64_t columns = shape.back();
  return reshape({columns == 0 ? 0 : count() / columns, columns});
}

Tensor dense_tensor(Arena& arena, std::int64_t offset, DType dtype, const Shape& shape) {
  Tensor tensor{.arena = &arena,
                .offset = offset,
                .space = arena.space(),
                .dtype = dtype,
                .shape = shape,
                .strides = shape};
  std::int64_t stride = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    tensor.strides[dim] = stride;
    stride *= shape[dim];
  }
  return tensor;
}

}  // namespace phalanx
