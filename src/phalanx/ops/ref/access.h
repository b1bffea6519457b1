#pragma once
// How the reference sees tensors: whole operands as dense arrays of doubles (or 64-bit integers),
// for any type and strides. Every op reads all operands, computes, then writes its results, so
// operands may alias.

#include <cstdint>
#include <utility>
#include <vector>

#include "phalanx/ops/rows.h"

namespace phalanx::ref {

// One floating-point element of memory. Narrowing rounds to float, then to nearest even.
double load(const std::byte* at, DType dtype);
void store(std::byte* at, DType dtype, double value);

// The value after storage in this type; f64 changes nothing.
double round_to(DType dtype, double value);

// Calls visit(address, index) for every element in row-major order.
template <typename Visit>
void for_each_element(const Tensor& tensor, const Visit& visit) {
  const std::int64_t count = tensor.count();
  const std::int64_t size = size_of(tensor.dtype);
  Shape index = tensor.shape;
  for (int dim = 0; dim < index.rank(); ++dim) index[dim] = 0;
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(tensor.data() + offset * size, static_cast<std::size_t>(i));
    for (int dim = index.rank() - 1; dim >= 0; --dim) {
      offset += tensor.strides[dim];
      if (++index[dim] < tensor.shape[dim]) break;
      offset -= tensor.strides[dim] * tensor.shape[dim];
      index[dim] = 0;
    }
  }
}

// A dense row-major copy.
template <typename T>
struct Dense {
  Shape shape;
  std::vector<T> values;

  explicit Dense(const Shape& extents)
      : shape(extents), values(static_cast<std::size_t>(extents.count())) {}

  template <typename... Index>
  T& operator()(Index... index) {
    return values[offset(index...)];
  }
  template <typename... Index>
  const T& operator()(Index... index) const {
    return values[offset(index...)];
  }

  // The row of the last dimension at these leading indices.
  template <typename... Index>
  T* row(Index... index) {
    return values.data() + offset(index..., 0);
  }
  template <typename... Index>
  const T* row(Index... index) const {
    return values.data() + offset(index..., 0);
  }

 private:
  template <typename... Index>
  std::size_t offset(Index... index) const {
    std::int64_t position = 0;
    int dim = 0;
    ((position = position * shape[dim++] + static_cast<std::int64_t>(index)), ...);
    return static_cast<std::size_t>(position);
  }
};
using Array = Dense<double>;
using Integers = Dense<std::int64_t>;

// An absent tensor reads as an array without elements.
Array read(const Tensor& tensor);
Integers read_integers(const Tensor& tensor);
// The factors of a norm; a zero-centred weight is stored minus 1.
Array read_norm_weight(const Tensor& tensor, bool zero_centred);

// Rounds to the tensor's type.
void write(const Tensor& tensor, const Array& array);
void write_integers(const Tensor& tensor, const Integers& array);

// One element of a one-element tensor.
double read_scalar(const Tensor& tensor);
void write_scalar(const Tensor& tensor, double value);

// The coordinates of rows (s, b); absent ones read as empty.
struct Coordinates {
  Integers sample, position, document;
  explicit Coordinates(const RowCoordinates& rows)
      : sample(read_integers(rows.sample)),
        position(read_integers(rows.position)),
        document(read_integers(rows.document)) {}
};

// The multiplier of dropout: 0, or float(1 / (1 - p)), or 1 if the probability is 0.
// dropout_counter (base/philox.h) explains `outer` and `inner`.
double dropout_multiplier(const Dropout& dropout, std::uint32_t site, std::int64_t sample,
                          std::int64_t outer, std::int64_t inner);

}  // namespace phalanx::ref
