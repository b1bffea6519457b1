#include "phalanx/ops/ref/access.h"

#include <cstring>

namespace phalanx::ref {
namespace {

template <typename T>
T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void store_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

std::int64_t load_integer(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return load_as<std::int64_t>(at);
    case DType::kI32:
      return load_as<std::int32_t>(at);
    case DType::kU8:
      return load_as<std::uint8_t>(at);
    default:
      throw InternalError("{} is not an integer type", name_of(dtype));
  }
}

void store_integer(std::byte* at, DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::kI64:
      return store_as(at, value);
    case DType::kI32:
      return store_as(at, static_cast<std::int32_t>(value));
    case DType::kU8:
      return store_as(at, static_cast<std::uint8_t>(value));
    default:
      throw InternalError("{} is not an integer type", name_of(dtype));
  }
}

}  // namespace

double load(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return load_as<double>(at);
    case DType::kF32:
      return load_as<float>(at);
    case DType::kBF16:
      return to_float(load_as<bfloat16>(at));
    case DType::kF16:
      return to_float(load_as<float16>(at));
    default:
      return static_cast<double>(load_integer(at, dtype));
  }
}

void store(std::byte* at, DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return store_as(at, value);
    case DType::kF32:
      return store_as(at, static_cast<float>(value));
    case DType::kBF16:
      return store_as(at, to_bfloat16(static_cast<float>(value)));
    case DType::kF16:
      return store_as(at, to_float16(static_cast<float>(value)));
    default:
      return store_integer(at, dtype, static_cast<std::int64_t>(value));
  }
}

double round_to(DType dtype, double value) {
  std::byte bytes[sizeof(double)];
  store(bytes, dtype, value);
  return load(bytes, dtype);
}

Array read(const Tensor& tensor) {
  if (!tensor) return Array({0});
  Array array(tensor.shape);
  for_each_element(tensor, [&](const std::byte* at, std::size_t i) {
    array.values[i] = load(at, tensor.dtype);
  });
  return array;
}

Array read_norm_weight(const Tensor& tensor, bool zero_centred) {
  Array weight = read(tensor);
  for (double& value : weight.values) value += zero_centred ? 1.0 : 0.0;
  return weight;
}

Integers read_integers(const Tensor& tensor) {
  if (!tensor) return Integers({0});
  Integers array(tensor.shape);
  for_each_element(tensor, [&](const std::byte* at, std::size_t i) {
    array.values[i] = load_integer(at, tensor.dtype);
  });
  return array;
}

void write(const Tensor& tensor, const Array& array) {
  PHALANX_CHECK(tensor.count() == array.shape.count(), "{} elements for a tensor {}",
                array.shape.count(), tensor.shape.to_string());
  for_each_element(tensor,
                   [&](std::byte* at, std::size_t i) { store(at, tensor.dtype, array.values[i]); });
}

void write_integers(const Tensor& tensor, const Integers& array) {
  PHALANX_CHECK(tensor.count() == array.shape.count(), "{} elements for a tensor {}",
                array.shape.count(), tensor.shape.to_string());
  for_each_element(tensor, [&](std::byte* at, std::size_t i) {
    store_integer(at, tensor.dtype, array.values[i]);
  });
}

double read_scalar(const Tensor& tensor) { return load(tensor.data(), tensor.dtype); }

void write_scalar(const Tensor& tensor, double value) { store(tensor.data(), tensor.dtype, value); }

double dropout_multiplier(const Dropout& dropout, std::uint32_t site, std::int64_t sample,
                          std::int64_t outer, std::int64_t inner) {
  if (dropout.probability == 0.0) return 1.0;
  const auto number = static_cast<std::uint64_t>(sample);
  const auto feature = static_cast<std::uint32_t>(inner);
  const PhiloxWords words =
      philox4x32(dropout_sample_key(dropout.key, number),
                 dropout_counter(number, site, static_cast<std::uint32_t>(outer), feature));
  if (words[feature % 4] < dropout_threshold(dropout.probability)) return 0.0;
  return static_cast<float>(1.0 / (1.0 - dropout.probability));
}

}  // namespace phalanx::ref
