// Cross entropy, whole and in parts, against double.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/cross_entropy.h"
#include "phalanx/ops/cuda/fault-inl.h"

namespace phalanx::cuda {
namespace {

constexpr double kSeed = 0.375;

struct LossCase {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t vocabulary;
  DType logits;
  DType dlogits;
  std::int64_t ranks;  // 1: not in parts
};

// The largest error of losses and of gradients, each relative to the largest number; 1e30 for what
// must be exact and is not.
double loss_error(Workbench& bench, const LossCase& c) {
  const std::int64_t wide = c.columns * c.ranks;
  const std::vector<float> numbers = bench.uniform_floats(c.rows * wide, -9, 9);
  std::vector<std::int32_t> targets;
  std::vector<float> mask;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    mask.push_back(r % 5 == 3 ? 0.0F : 0.5F + 0.25F * static_cast<float>(r % 4));
    // No token, in a row that does not count.
    targets.push_back(r % 5 == 3 ? -7 : static_cast<std::int32_t>(r * 7919 % c.vocabulary));
  }
  CudaContext context = bench.context();
  context.faults = bench.upload(std::vector<std::uint64_t>(kFaultWords, kNoFault));
  CrossEntropyCall call;
  call.rows = c.rows;
  call.columns = c.columns;
  call.vocabulary = c.vocabulary;
  call.targets = bench.upload(targets);
  call.mask = bench.upload(mask);
  call.seed = bench.upload(std::vector<float>{static_cast<float>(kSeed)});
  float* statistics = bench.output_floats(c.ranks * 3 * c.rows);
  std::vector<float> x(numbers.size());
  std::vector<float> losses;
  std::vector<float> gradients(numbers.size());
  std::vector<TypedAddress> parts;
  for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
    std::vector<float> own;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t i = 0; i < c.columns; ++i) {
        own.push_back(numbers[static_cast<std::size_t>(r * wide + rank * c.columns + i)]);
      }
    }
    const std::int64_t n = c.rows * c.columns;
    TypedAddress logits{reinterpret_cast<std::byte*>(bench.upload(own)), DType::kF32};
    if (c.logits != DType::kF32) {
      logits = bench.uniform(c.logits, n, -9, 9);
      own = bench.read_floats(logits, n);
    }
    for (std::int64_t r = 0; r < c.rows; ++r) {
      std::copy_n(own.begin() + r * c.columns, c.columns, x.begin() + r * wide + rank * c.columns);
    }
    parts.push_back(logits);
    if (c.ranks == 1) continue;
    call.logits = {logits, c.columns};
    call.first_column = rank * c.columns;
    cross_entropy_statistics(context, call, statistics + rank * 3 * c.rows);
  }
  for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
    const std::int64_t n = c.rows * c.columns;
    call.loss = bench.output_floats(c.rows);
    call.logits = {parts[static_cast<std::size_t>(rank)], c.columns};
    call.dlogits =
        c.logits == c.dlogits ? call.logits : TypedRows{bench.output(c.dlogits, n), c.columns};
    call.first_column = rank * c.columns;
    if (c.ranks == 1) {
      cross_entropy(context, call);
    } else {
      vocabulary_parallel_cross_entropy(context, call, statistics, c.ranks);
    }
    losses = bench.read_floats({reinterpret_cast<std::byte*>(call.loss), DType::kF32}, c.rows);
    const std::vector<float> own = bench.read_floats(call.dlogits.data, n);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      std::copy_n(own.begin() + r * c.columns, c.columns,
                  gradients.begin() + r * wide + rank * c.columns);
    }
  }
  if (bench.read(context.faults, 8) != std::vector<std::byte>(8, std::byte{0xff})) return 1e30;

  double largest[2] = {1e-30, 1e-30};
  double error[2] = {};
  const auto compare = [&](int which, double found, double expected) {
    largest[which] = std::max(largest[which], std::fabs(expected));
    const double difference = std::fabs(found - expected);
    error[which] = std::isnan(difference) ? 1e30 : std::max(error[which], difference);
  };
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const float* own = x.data() + r * wide;
    double sum = 0.0;
    for (std::int64_t i = 0; i < c.vocabulary; ++i) sum += std::exp(static_cast<double>(own[i]));
    const bool counts = mask[row] != 0.0F;
    compare(0, losses[row], counts ? std::log(sum) - own[targets[row]] : 0.0);
    for (std::int64_t i = 0; i < wide; ++i) {
      const float found =
          gradients[row * static_cast<std::size_t>(wide) + static_cast<std::size_t>(i)];
      if ((!counts || i >= c.vocabulary) && found != 0.0F) return 1e30;
      if (!counts || i >= c.vocabulary) continue;
      const double probability = std::exp(static_cast<double>(own[i])) / sum;
      compare(1, found,
              kSeed * static_cast<double>(mask[row]) * (probability - (i == targets[row] ? 1 : 0)));
    }
  }
  return std::max(error[0] / largest[0], error[1] / largest[1]);
}

}  // namespace

std::vector<ApproximateCheck> loss_checks() {
  std::vector<ApproximateCheck> checks;
  const auto add = [&](const LossCase& c) {
    const double rounding = c.dlogits == DType::kBF16  ? 0x1p-8
                            : c.dlogits == DType::kF16 ? 0x1p-11
                                                       : 0.0;
    checks.push_back(
        {fmt::format("cross entropy {} of {}, {} columns{}", name_of(c.dlogits), name_of(c.logits),
                     c.columns, c.ranks > 1 ? fmt::format(", {} ranks", c.ranks) : ""),
         [c](Workbench& bench) { return loss_error(bench, c); }, 2e-6 + rounding});
  };
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const DType logits : {type, DType::kF32}) {
      add({11, 200, 193, logits, type, 1});
      add({6, 5008, 5001, logits, type, 1});
      add({6, 1604, 3205, logits, type, 2});
      if (type == DType::kF32) break;
    }
  }
  return checks;
}

}  // namespace phalanx::cuda
