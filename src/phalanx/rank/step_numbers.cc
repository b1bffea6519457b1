#include "phalanx/rank/step_numbers.h"

#include <cstring>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

template <typename T>
std::vector<double> numbers_in(std::span<const std::byte> bytes) {
  std::vector<double> numbers;
  for (; bytes.size() >= sizeof(T); bytes = bytes.subspan(sizeof(T))) {
    T number;
    std::memcpy(&number, bytes.data(), sizeof(T));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

StepNumbers::StepNumbers(const Sizes& sizes, Arena& arena) {
  PHALANX_CHECK(sizes.full == DType::kF32 || sizes.full == DType::kF64, "numbers of a step in {}",
                name_of(sizes.full));
  const std::int64_t sums = 2 * sizes.losses * sizes.updates;
  const std::int64_t auxiliary = sizes.auxiliary_losses * sizes.updates;
  const std::int64_t doubles =
      sums + auxiliary + (sizes.counts_zeros ? 1 : 0) + (sizes.parameters_norm ? 1 : 0);
  const std::int64_t counts = sizes.routers * sizes.experts;
  const std::int64_t biases = sizes.expert_bias ? counts : 0;
  all_ = arena.allocate(DType::kU8,
                        {doubles * size_of(DType::kF64) + (2 + biases) * size_of(sizes.full) +
                         counts * size_of(DType::kI32)});
  std::int64_t at = all_.offset;
  const auto next = [&](DType dtype, std::int64_t count) {
    const Tensor tensor = dense_tensor(arena, at, dtype, {count});
    at += tensor.bytes();
    return tensor;
  };
  // The widest come first, so all are aligned.
  loss_sums_ = next(DType::kF64, sums);
  if (auxiliary > 0) auxiliary_sums_ = next(DType::kF64, auxiliary);
  if (sizes.counts_zeros) of_optimizer_.zeros = next(DType::kF64, 1);
  if (sizes.parameters_norm) parameter_squares_ = next(DType::kF64, 1);
  of_optimizer_.norm = next(sizes.full, 1);
  of_optimizer_.skip = next(sizes.full, 1);
  const Shape by_router{sizes.routers, sizes.experts};
  if (biases > 0) expert_biases_ = next(sizes.full, biases).reshape(by_router);
  if (counts > 0) router_counts_ = next(DType::kI32, counts).reshape(by_router);
}

std::vector<double> StepNumbers::read(const Tensor& part, std::span<const std::byte> all) const {
  PHALANX_CHECK(static_cast<std::int64_t>(all.size()) == all_.bytes() && part.arena == all_.arena &&
                    part.offset >= all_.offset &&
                    part.offset + part.bytes() <= all_.offset + all_.bytes(),
                "{} is no number of a step", part.shape.to_string());
  const auto bytes = all.subspan(static_cast<std::size_t>(part.offset - all_.offset),
                                 static_cast<std::size_t>(part.bytes()));
  if (part.dtype == DType::kI32) return numbers_in<std::int32_t>(bytes);
  return part.dtype == DType::kF64 ? numbers_in<double>(bytes) : numbers_in<float>(bytes);
}

std::vector<StepResult> StepsUnderWay::wait() {
  // They come last: with them the numbers are here.
  faults_.throw_any();
  std::vector<StepResult> results = reader_(numbers_.wait());
  bool skipped = false;
  for (LaterScalar& skip : skips_) skipped = skip.wait() != 0.0 || skipped;
  for (StepResult& result : results) result.skipped = result.skipped || skipped;
  return results;
}

}  // namespace phalanx
