#pragma once
// Softmax cross entropy, ops/cross_entropy.h. A team of threads has a row: a warp up to 1,024
// columns, else a block of 512. First pass: every thread keeps the largest logit that it met and
// the sum of exp(x - largest), then both are joined, the sums in double. Second pass: the gradient,
// from the logits again, which may be overwritten.

#include <algorithm>

#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

PHALANX_DEVICE float minus_infinity() { return float_of_bits(0xff800000U); }

PHALANX_DEVICE float exp_of(float x) { return exp2_of(x * 1.44269504088896341F); }

// The columns of a part of the vocabulary; `tokens` of them are no padding.
struct LogitShape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;  // elements between rows of the logits
  std::int64_t tokens;
  std::int64_t first_column;  // the token of column 0
  std::int64_t vocabulary;    // of all parts
  bool packed;
};

struct LogitTargets {
  const std::int32_t* targets;  // [rows]
  const float* mask;            // [rows] or null: all rows count
  FaultReport faults;

  PHALANX_DEVICE bool counts(std::int64_t r) const { return mask == nullptr || mask[r] != 0.0F; }
  // The target of a row that counts; 0 for one that is no token, which `first` thread reports.
  PHALANX_DEVICE std::int64_t of(Thread& t, std::int64_t r, std::int64_t vocabulary,
                                 bool first) const {
    const std::int64_t target = targets[r];
    if (target >= 0 && target < vocabulary) return target;
    if (first) report_fault(t, faults, r, target, vocabulary);
    return 0;
  }
};

// The largest logit and the sum of exp(x - largest), as one thread has met them.
struct LogitSums {
  float largest = minus_infinity();
  float sum = 0.0F;

  // What exponents are relative to: minus infinity is no number to subtract.
  PHALANX_DEVICE static float shift(float largest) {
    return largest == minus_infinity() ? 0.0F : largest;
  }
  // The first `count` of these. No number (NaN) is not the largest, but makes the sum one.
  PHALANX_DEVICE void add(const float (&x)[8], int count) {
    float most = largest;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (e < count && x[e] > most) most = x[e];
    }
    if (most > largest) {
      sum *= exp_of(largest - most);
      largest = most;
    }
    const float base = shift(largest);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (e < count) sum += exp_of(x[e] - base);
    }
  }
};

// The same of a row.
struct RowSums {
  float largest;
  double sum;

  // As other parts of the row are told: where the sum is no number, neither is the largest but for
  // infinity.
  PHALANX_DEVICE float told_largest() const {
    return sum != sum && largest != -minus_infinity() ? static_cast<float>(sum) : largest;
  }
};

template <int kTeam>
struct LogitTeam {
  static constexpr int kThreads = std::max(kTeam, 256);
  static constexpr int kRows = kThreads / kTeam;
  static constexpr int kWarps = kTeam / 32;
  static constexpr std::int64_t kSharedBytes = kTeam == 32 ? 0 : 2 * 128;
  static constexpr std::int64_t kStep = std::int64_t{8} * kTeam;  // columns of a turn

  PHALANX_DEVICE static std::int64_t row(const Thread& t) {
    return t.block() * kRows + t.index() / kTeam;
  }
  PHALANX_DEVICE static std::int64_t first_column(const Thread& t) {
    return std::int64_t{8} * (t.index() % kTeam);
  }
  PHALANX_DEVICE static bool leads(const Thread& t) { return t.index() % kTeam == 0; }
  // Whether this thread has the column: nobody else reads or writes it.
  PHALANX_DEVICE static bool has(const Thread& t, std::int64_t column) {
    return column / 8 % kTeam == t.index() % kTeam;
  }

  // All threads of the team get the same.
  template <typename T>
  PHALANX_DEVICE static RowSums sums_of(Thread& t, const T* x, std::int64_t count, bool packed) {
    LogitSums own;
    std::int64_t i = first_column(t);
    constexpr int kAhead = sizeof(T) == 4 ? 2 : 4;
    for (; packed && i + (kAhead - 1) * kStep + 8 <= count; i += kAhead * kStep) {
      Stored8<T> ahead[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) load_stored8(x, i + a * kStep, count, true, ahead[a]);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        float values[8];
        to_floats(ahead[a], values);
        own.add(values, 8);
      }
    }
    for (; i < count; i += kStep) {
      float values[8];
      load8(x, i, count, packed, values);
      own.add(values, count - i < 8 ? static_cast<int>(count - i) : 8);
    }
    if constexpr (kTeam == 32) {
      const float largest = warp_max(t, own.largest);
      return {largest, warp_sum(t, scaled(own, largest))};
    } else {
      float* of_warps = t.template shared<float>(kWarps);
      double* parts = t.template shared<double>(kWarps);
      float largest = warp_max(t, own.largest);
      if (t.lane() == 0) of_warps[t.warp()] = largest;
      t.sync();
      for (int w = 0; w < kWarps; ++w) {
        if (of_warps[w] > largest) largest = of_warps[w];
      }
      return {largest, block_sum(t, scaled(own, largest), parts)};
    }
  }

 private:
  PHALANX_DEVICE static double scaled(const LogitSums& own, float largest) {
    return static_cast<double>(own.sum) * exp_of(own.largest - LogitSums::shift(largest));
  }
};

// dlogits = factor (exp(x - largest) / sum - onehot), zeros in the padding and where the factor is
// 0. The target is a column, or below 0: another part's.
template <typename Team, typename From, typename To>
PHALANX_DEVICE void row_gradient(Thread& t, const LogitShape& s, const From* x, const RowSums& row,
                                 double factor, std::int64_t target, To* dlogits) {
  const auto scale = static_cast<float>(factor / row.sum);
  for (std::int64_t i = Team::first_column(t); i < s.columns; i += Team::kStep) {
    float values[8] = {};
    if (factor != 0.0) {
      load8(x, i, s.tokens, s.packed, values);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float power = exp_of(values[e] - row.largest);
        values[e] = power * scale;
        if (i + e == target) {
          values[e] = static_cast<float>(factor * (static_cast<double>(power) / row.sum - 1.0));
        }
        if (i + e >= s.tokens) values[e] = 0.0F;
      }
    }
    store8(dlogits, i, s.columns, s.packed, values);
  }
}

template <typename From, typename To, int kTeam>
struct CrossEntropyKernel : LogitTeam<kTeam> {
  using Team = LogitTeam<kTeam>;
  struct Params {
    LogitShape shape;
    LogitTargets targets;
    float* loss;
    To* dlogits;  // null: no gradient
    std::int64_t gradient_stride;
    const From* logits;
    const float* seed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return Team::kSharedBytes; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const LogitShape& s = p.shape;
    const std::int64_t r = Team::row(t);
    if (r >= s.rows) return;
    const bool counts = p.targets.counts(r);
    const From* x = p.logits + r * s.stride;
    RowSums row{0.0F, 1.0};
    std::int64_t target = 0;
    if (counts) {
      target = p.targets.of(t, r, s.vocabulary, Team::leads(t));
      row = Team::template sums_of<From>(t, x, s.tokens, s.packed);
      if (row.largest - row.largest != 0.0F) row.sum = row.largest - row.largest;
      if (Team::has(t, target)) {
        p.loss[r] = static_cast<float>(log_of(row.sum) + static_cast<double>(row.largest) -
                                       static_cast<double>(to_float(x[target])));
      }
    } else if (Team::leads(t)) {
      p.loss[r] = 0.0F;
    }
    if (p.dlogits == nullptr) return;
    const double factor =
        counts ? static_cast<double>(*p.seed) * static_cast<double>(p.targets.mask[r]) : 0.0;
    row_gradient<Team>(t, s, x, row, factor, target, p.dlogits + r * p.gradient_stride);
  }
};

// statistics[3][rows]: the largest logit, the sum, the target's logit.
template <typename From, int kTeam>
struct StatisticsKernel : LogitTeam<kTeam> {
  using Team = LogitTeam<kTeam>;
  struct Params {
    LogitShape shape;
    LogitTargets targets;
    float* statistics;
    const From* logits;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return Team::kSharedBytes; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const LogitShape& s = p.shape;
    const std::int64_t r = Team::row(t);
    if (r >= s.rows) return;
    float numbers[3] = {0.0F, 0.0F, 0.0F};
    if (p.targets.counts(r)) {
      const From* x = p.logits + r * s.stride;
      const std::int64_t target = p.targets.of(t, r, s.vocabulary, Team::leads(t)) - s.first_column;
      const RowSums row = Team::template sums_of<From>(t, x, s.tokens, s.packed);
      // 0 and -0 are as large.
      numbers[0] = row.told_largest() + 0.0F;
      numbers[1] = static_cast<float>(row.sum);
      if (target >= 0 && target < s.tokens) numbers[2] = to_float(x[target]);
    }
    if (!Team::leads(t)) return;
    for (int k = 0; k < 3; ++k) p.statistics[k * s.rows + r] = numbers[k];
  }
};

// The second half, from the statistics of all parts, in their order.
template <typename From, typename To>
struct PartCrossEntropyKernel : LogitTeam<256> {
  using Team = LogitTeam<256>;
  struct Params {
    LogitShape shape;
    LogitTargets targets;
    float* loss;
    To* dlogits;  // null: no gradient
    std::int64_t gradient_stride;
    const From* logits;
    const float* seed;
    const float* statistics;  // [parts, 3, rows]
    std::int64_t parts;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const LogitShape& s = p.shape;
    const std::int64_t r = Team::row(t);
    const bool counts = p.targets.counts(r);
    if (p.dlogits == nullptr && !Team::leads(t)) return;
    RowSums row{minus_infinity(), 0.0};
    double at_target = 0.0;
    std::int64_t target = -1;
    if (counts) {
      target = p.targets.of(t, r, s.vocabulary, Team::leads(t)) - s.first_column;
      for (std::int64_t k = 0; k < p.parts; ++k) {
        const float largest = p.statistics[3 * k * s.rows + r];
        if (largest > row.largest) row.largest = largest;
      }
      for (std::int64_t k = 0; k < p.parts; ++k) {
        const float* of = p.statistics + 3 * k * s.rows + r;
        // Infinity - infinity makes the sum no number.
        row.sum += static_cast<double>(of[s.rows]) * exp_of(*of - row.largest);
        at_target += static_cast<double>(of[2 * s.rows]);
      }
    }
    if (Team::leads(t)) {
      p.loss[r] =
          counts
              ? static_cast<float>(log_of(row.sum) + static_cast<double>(row.largest) - at_target)
              : 0.0F;
    }
    if (p.dlogits == nullptr) return;
    const double factor =
        counts ? static_cast<double>(*p.seed) * static_cast<double>(p.targets.mask[r]) : 0.0;
    row_gradient<Team>(t, s, p.logits + r * s.stride, row, factor, target,
                       p.dlogits + r * p.gradient_stride);
  }
};

}  // namespace phalanx::cuda
