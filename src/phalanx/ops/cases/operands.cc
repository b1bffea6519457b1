#include "phalanx/ops/cases/operands.h"

#include <cmath>
#include <cstring>

#include "phalanx/ops/ref/access.h"

namespace phalanx::ops {
namespace {

constexpr std::int64_t kFirstSample = (std::int64_t{3} << 32) + 7;

// A kernel that runs on behind an operand is seen.
constexpr std::int64_t kGapBytes = 256;

}  // namespace

// SplitMix64 (Steele, Lea and Flood, 2014).
double Operands::random() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

Tensor Operands::allocate(DType dtype, const Shape& shape) {
  const Tensor tensor = arena_.allocate(dtype, shape);
  const Tensor gap = arena_.allocate(DType::kU8, {kGapBytes});
  if (has_contents()) std::memset(gap.data(), 0xff, kGapBytes);
  return tensor;
}

// Calls value(i) for every element of a dense tensor.
template <typename Value>
Tensor Operands::fill_each(const Tensor& tensor, const Value& value) {
  if (!has_contents()) return tensor;
  const std::int64_t size = size_of(tensor.dtype);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    ref::store(tensor.data() + i * size, tensor.dtype, value(i));
  }
  return tensor;
}

Tensor Operands::given(Tensor tensor) {
  if (left_-- != 0) return tensor;
  disguised_ = true;
  switch (tensor.dtype) {
    case DType::kF32:
      tensor.dtype = DType::kI32;
      break;
    case DType::kI32:
      tensor.dtype = DType::kF32;
      break;
    case DType::kF64:
      tensor.dtype = DType::kI64;
      break;
    case DType::kI64:
      tensor.dtype = DType::kF64;
      break;
    case DType::kBF16:
    case DType::kF16:
    case DType::kU8:
      break;
  }
  return tensor;
}

Tensor Operands::uniform(DType dtype, const Shape& shape, double low, double high) {
  return given(fill_each(allocate(dtype, shape),
                         [&](std::int64_t /*i*/) { return low + (high - low) * random(); }));
}

Tensor Operands::integers(const Shape& shape, std::int64_t low, std::int64_t high) {
  const auto extent = static_cast<double>(high - low);
  return given(fill_each(allocate(DType::kI32, shape), [&](std::int64_t /*i*/) {
    return static_cast<double>(low) + std::floor(extent * random());
  }));
}

Tensor Operands::filled(DType dtype, const Shape& shape, double value) {
  return given(fill_each(allocate(dtype, shape), [&](std::int64_t /*i*/) { return value; }));
}

Tensor Operands::values(DType dtype, const Shape& shape, std::span<const double> contents) {
  PHALANX_CHECK(shape.count() == static_cast<std::int64_t>(contents.size()), "{} values for {}",
                contents.size(), shape.to_string());
  return given(fill_each(allocate(dtype, shape), [&](std::int64_t i) { return contents[i]; }));
}

Tensor Operands::output(DType dtype, const Shape& shape) {
  const Tensor tensor = allocate(dtype, shape);
  poison(tensor);
  return given(tensor);
}

void Operands::poison(const Tensor& view) const {
  if (!has_contents()) return;
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  ref::for_each_element(view,
                        [size](std::byte* at, std::size_t /*i*/) { std::memset(at, 0xff, size); });
}

RowCoordinates Operands::rows(std::int64_t s, std::int64_t b, std::int64_t first_position) {
  const auto column = [b](std::int64_t i) { return i % b; };
  return {.sample = given(fill_each(
              allocate(DType::kI64, {s, b}),
              [&](std::int64_t i) { return static_cast<double>(kFirstSample + column(i)); })),
          .position = given(fill_each(allocate(DType::kI32, {s, b}),
                                      [&](std::int64_t i) {
                                        const std::int64_t row = i / b;
                                        return static_cast<double>(first_position + row);
                                      })),
          .document = filled(DType::kI32, {s, b}, 0.0)};
}

Tensor Operands::loss_mask(std::int64_t rows) {
  return given(fill_each(allocate(DType::kF32, {rows}),
                         [&](std::int64_t /*i*/) { return random() < 0.25 ? 0.0 : 1.0; }));
}

Dropout case_dropout(double probability) {
  return {.probability = probability,
          .key = random_key(0x123456789abcdefULL, RandomPurpose::kDropout),
          .site = dropout_site(5, DropoutPlace::kAttention)};
}

}  // namespace phalanx::ops
