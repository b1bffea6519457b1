// Rows sorted by expert, and sums of a token's rows.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/permute.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/permute.h"

#include <algorithm>
#include <array>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"
#include "phalanx/ops/fault.h"

#ifndef PHALANX_OPS_CPU_PERMUTE_ONCE
#define PHALANX_OPS_CPU_PERMUTE_ONCE
namespace phalanx::cpu {

// The rows of a token's pairs, in their order, and the pairs' numbers.
struct TokenRows {
  struct Row {
    std::int32_t row, pair;
  };
  std::array<Row, ops::kMostPairs> rows;
  std::int64_t count = 0;

  // Of k pairs; those without one of `most` rows are left out.
  TokenRows(const std::int32_t* row_of_pair, std::int64_t k, std::int64_t most) {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int32_t row = row_of_pair[i];
      if (row < 0 || row >= most) continue;
      auto* const at = rows.begin() + count++;
      *at = {row, static_cast<std::int32_t>(i)};
      std::rotate(std::upper_bound(rows.begin(), at, row,
                                   [](std::int32_t a, const Row& b) { return a < b.row; }),
                  at, at + 1);
    }
  }
};

}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

template <typename T>
void permute(const CpuDevice& device, const ops::PermuteRows& op) {
  const std::int64_t columns = op.from.shape[1];
  const std::int64_t pairs = op.from.shape[0] * op.k;
  const auto to = rows_of<T>(op.to);
  const auto from = rows_of<T>(op.from);
  const auto* pair_of_row = dense<std::int32_t>(op.pair_of_row);
  const float* p = dense<float>(op.probabilities);
  const Blocks blocks = row_blocks(op.to.shape[0], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const std::int64_t pair = pair_of_row[r];
      if (pair < 0 || pair >= pairs) continue;
      const T* row = from[pair / op.k];
      if (p == nullptr) {
        convert(row, to[r], columns);
        continue;
      }
      const auto factor = hn::Set(FloatTag(), p[pair]);
      for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
        lanes.store(hn::Mul(factor, lanes.load(row + i)), to[r] + i);
      });
    }
  });
}

template <typename T, typename Sum>
void unpermute(const CpuDevice& device, const ops::UnpermuteRows& op) {
  const std::int64_t columns = op.y.shape[1];
  const std::int64_t k = op.row_of_pair.shape[1];
  const auto y = rows_of<Sum>(op.y);
  const auto rows = rows_of<T>(op.rows);
  const auto* row_of_pair = dense<std::int32_t>(op.row_of_pair);
  const float* p = dense<float>(op.probabilities);
  const Blocks blocks = row_blocks(op.y.shape[0], columns * std::max<std::int64_t>(1, k));
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t t = blocks.begin(block); t < blocks.end(block); ++t) {
      const TokenRows of_token(row_of_pair + t * k, k, op.rows.shape[0]);
      for_vectors(0, columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
        auto sum = hn::Zero(FloatTag());
        for (std::int64_t j = 0; j < of_token.count; ++j) {
          const auto [row, pair] = of_token.rows[static_cast<std::size_t>(j)];
          const auto x = lanes.load(rows[row] + i);
          sum = p == nullptr ? hn::Add(sum, x)
                             : hn::MulAdd(hn::Set(FloatTag(), p[t * k + pair]), x, sum);
        }
        lanes.store(sum, y[t] + i);
      });
    }
  });
}

template <typename T>
void dots(const CpuDevice& device, const ops::PairDots& op) {
  const std::int64_t columns = op.x.shape[1];
  const std::int64_t k = op.row_of_pair.shape[1];
  const auto x = rows_of<T>(op.x);
  const auto rows = rows_of<T>(op.rows);
  const auto* row_of_pair = dense<std::int32_t>(op.row_of_pair);
  auto* to = dense<float>(op.dots);
  const Blocks blocks = row_blocks(op.x.shape[0], columns * std::max<std::int64_t>(1, k));
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t pair = blocks.begin(block) * k; pair < blocks.end(block) * k; ++pair) {
      const std::int64_t row = row_of_pair[pair];
      FloatSums sums;
      if (row >= 0 && row < op.rows.shape[0]) {
        const T* a = rows[row];
        const T* b = x[pair / k];
        for_terms<FloatSums>(0, columns, [&](std::int64_t i, auto lanes, auto part) HWY_ATTR {
          auto& sum = sums.at<decltype(part)::value>();
          sum = hn::MulAdd(lanes.load(a + i), lanes.load(b + i), sum);
        });
      }
      to[pair] = sums.total();
    }
  });
}

void permute_rows(const CpuDevice& device, const ops::PermuteRows& op) {
  with_storage(op.from.dtype, [&](auto type) HWY_ATTR { permute<decltype(type)>(device, op); });
}
void unpermute_rows(const CpuDevice& device, const ops::UnpermuteRows& op) {
  with_stream(op.rows.dtype, op.y.dtype, [&](auto type, auto sum) HWY_ATTR {
    unpermute<decltype(type), decltype(sum)>(device, op);
  });
}
void pair_dots(const CpuDevice& device, const ops::PairDots& op) {
  with_storage(op.x.dtype, [&](auto type) HWY_ATTR { dots<decltype(type)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

PHALANX_KERNEL(PermuteRows, permute_rows)
PHALANX_KERNEL(UnpermuteRows, unpermute_rows)
PHALANX_KERNEL(PairDots, pair_dots)

// Two passes over the pairs: counts of experts, then places. `next` is the next row of an expert.
std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const ops::SortPairs& op) {
  return op.offsets.bytes();
}
void execute(CpuDevice& /*device*/, const ops::SortPairs& op, const Tensor& scratch) {
  const auto chosen = op.chosen.span<std::int32_t>();
  const auto offsets = op.offsets.span<std::int32_t>();
  const auto pair_of_row = op.pair_of_row.span<std::int32_t>();
  const auto row_of_pair = op.row_of_pair.span<std::int32_t>();
  const std::int64_t experts = op.offsets.shape[0] - 1;
  std::ranges::fill(offsets, 0);
  std::int64_t number = 0;
  for (const std::int32_t expert : chosen) {
    const std::int64_t pair = number++;
    if (expert < 0) continue;
    ops::expect_in_range<ops::SortPairs>(pair, expert, op.all_experts());
    const std::int64_t local = expert - op.first;
    if (local >= 0 && local < experts) ++offsets[static_cast<std::size_t>(local) + 1];
  }
  for (std::size_t e = 1; e < offsets.size(); ++e) {
    offsets[e] = op.padded > 0 ? static_cast<std::int32_t>(static_cast<std::int64_t>(e) * op.padded)
                               : offsets[e] + offsets[e - 1];
  }
  auto* next = reinterpret_cast<std::int32_t*>(scratch.data());
  std::ranges::copy(offsets, next);
  const std::int64_t filled = op.padded > 0 ? 0 : offsets.back();
  std::ranges::fill(pair_of_row.subspan(static_cast<std::size_t>(filled)), -1);
  for (std::size_t pair = 0; pair < chosen.size(); ++pair) {
    const std::int64_t local = chosen[pair] - op.first;
    row_of_pair[pair] = -1;
    if (chosen[pair] < 0 || local < 0 || local >= experts) continue;
    if (next[local] >= offsets[static_cast<std::size_t>(local) + 1]) continue;
    row_of_pair[pair] = next[local]++;
    pair_of_row[static_cast<std::size_t>(row_of_pair[pair])] = static_cast<std::int32_t>(pair);
  }
}

void execute(CpuDevice& device, const ops::GatherElements& op, const Tensor& /*scratch*/) {
  const auto to = op.to.span<float>();
  const auto from = op.from.span<float>();
  const auto index = op.index.span<std::int32_t>();
  const Blocks blocks = element_blocks(op.to.count());
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
      const std::int64_t at = index[static_cast<std::size_t>(i)];
      const bool inside = at >= 0 && at < std::ssize(from);
      to[static_cast<std::size_t>(i)] = inside ? from[static_cast<std::size_t>(at)] : 0.0F;
    }
  });
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
