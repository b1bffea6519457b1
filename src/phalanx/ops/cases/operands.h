#pragma once
// Builds the operands of a case in an arena: inputs with deterministic pseudo-random contents,
// outputs full of garbage, and garbage between them. The same sequence of calls gives the same
// bytes in any arena, so two backends get the same case. In an arena that the host does not write,
// tensors have their places and no contents: all bytes of a host's arena are uploaded instead.

#include <cstdint>
#include <span>

#include "phalanx/ops/backend.h"

namespace phalanx::ops {

class Operands {
 public:
  // A case computes those inputs that other ops produce with `preparation`, whose backend computes
  // nothing where the tensors have no contents.
  Operands(Arena& arena, DType storage, Context& preparation)
      : arena_(arena), storage_(storage), preparation_(preparation) {}

  DType storage() const { return storage_; }
  // Of statistics and main gradients: f32, or f64 when the whole case is f64.
  DType full() const { return storage_ == DType::kF64 ? DType::kF64 : DType::kF32; }
  // Of the residual stream: f32 whatever the storage type, or as it.
  DType stream(bool fp32_residual) const { return fp32_residual ? full() : storage_; }
  Context& preparation() { return preparation_; }
  // Whether tensors have contents, which a case may then read and change.
  bool has_contents() const { return is_host(arena_.space()); }

  // Uniform in [low, high); without a dtype, of the storage type.
  Tensor uniform(DType dtype, const Shape& shape, double low = -1.0, double high = 1.0);
  Tensor uniform(const Shape& shape) { return uniform(storage_, shape); }
  // Integers in [low, high).
  Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high);
  Tensor filled(DType dtype, const Shape& shape, double value);
  Tensor values(DType dtype, const Shape& shape, std::span<const double> contents);
  // Garbage: every byte is 0xff, which is NaN in every floating type.
  Tensor output(DType dtype, const Shape& shape);
  Tensor output(const Shape& shape) { return output(storage_, shape); }

  // From here on the tensor of this number, from 0, claims another type of its size, an integer for
  // a float and the other way round, if there is such a type; disguised() says whether that
  // happened.
  void disguise(int number) { left_ = number; }
  bool disguised() const { return disguised_; }

  // Makes garbage of the elements of a view.
  void poison(const Tensor& view) const;

  // Rows of consecutive positions in samples whose numbers need more than 32 bits.
  RowCoordinates rows(std::int64_t s, std::int64_t b, std::int64_t first_position = 0);
  // 0 for about one row in four, 1 for the others.
  Tensor loss_mask(std::int64_t rows);

 private:
  double random();
  Tensor given(Tensor tensor);
  // An operand, and garbage behind it.
  Tensor allocate(DType dtype, const Shape& shape);
  template <typename Value>
  Tensor fill_each(const Tensor& tensor, const Value& value);

  Arena& arena_;
  DType storage_;
  Context& preparation_;
  std::uint64_t state_ = 0;
  int left_ = -1;
  bool disguised_ = false;
};

// Dropout under a fixed key at a site whose head bits are free.
Dropout case_dropout(double probability);

}  // namespace phalanx::ops
