#pragma once
// Element types of tensors, and the 16-bit floating-point types with their scalar conversions.

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace phalanx {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8 };

// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16:
      return true;
    case DType::kI64:
    case DType::kI32:
    case DType::kU8:
      return false;
  }
  return false;
}

// "f64", "f32", "bf16", "f16", "i64", "i32", "u8": the names in JSON documents and messages.
std::string_view name_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

// For storage only: arithmetic is in float.
struct bfloat16 {
  std::uint16_t bits = 0;
};
struct float16 {
  std::uint16_t bits = 0;
};

inline float to_float(bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
// Rounds to nearest even; NaN stays NaN (quiet).
inline bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}
float to_float(float16 value);
// Rounds to nearest even; overflows to infinity.
float16 to_float16(float value);

// The element type of T's elements; the compiler refuses a T that no tensor holds.
template <typename T>
consteval DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) {
    return DType::kF64;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::kF32;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return DType::kBF16;
  } else if constexpr (std::is_same_v<T, float16>) {
    return DType::kF16;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::kI64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::kI32;
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no tensor holds elements of this type");
    return DType::kU8;
  }
}
template <typename T>
inline constexpr DType kDTypeOf = dtype_of<T>();

}  // namespace phalanx
