#pragma once
// Sums of squares and counts of zeros by blocks of 4,096 elements, and what is computed from them.

#include "phalanx/ops/cuda/segments-inl.h"

namespace phalanx::cuda {

// results[group + i] = the sum over the elements of a segment's i-th block of x^2 (or of 1 for
// zeros) in double: a thread over 16 elements in order, then block_sum.
template <bool kZeros>
struct BlockTermsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    SegmentRows segments;
    double* results;
    const float* x;
    bool packed;  // fours of the grid begin at multiples of 16 bytes
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 8 * sizeof(double); }
  PHALANX_DEVICE static double term(float value) {
    if constexpr (kZeros) {
      return value == 0.0F ? 1.0 : 0.0;
    } else {
      return static_cast<double>(value) * static_cast<double>(value);
    }
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    double* parts = t.template shared<double>(8);
    const SegmentBlock block = segment_block(t, p.segments);
    double sum = 0.0;
    for_fours(t, block, [&](const Four& four) {
      if (p.packed && four.whole()) {
        const auto pack = load_pack<4>(p.x + four.i);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum += term(pack.at[e]);
      } else {
        for (int e = four.low; e < four.high; ++e) sum += term(p.x[four.i + e]);
      }
    });
    sum = block_sum(t, sum, parts);
    if (t.index() == 0) p.results[block.group + block.number] = sum;
  }
};

// Terms that are fetched at a time for sums in order.
inline constexpr int kFetchedTerms = 1024;

// start + term(0) + term(1) + ... in this order, by one thread from what all have fetched. Several
// sums at once: sum w is of term(w, i), and the first thread of warp w gets it. `fetched` has
// kFetchedTerms for each.
template <int kSums, typename Term>
PHALANX_DEVICE double sums_in_order(Thread& t, double start, std::int64_t n, double* fetched,
                                    const Term& term) {
  double sum = start;
  for (std::int64_t begin = 0; begin < n; begin += kFetchedTerms) {
    const std::int64_t count = n - begin < kFetchedTerms ? n - begin : kFetchedTerms;
    for (std::int64_t i = t.index(); i < count; i += t.threads()) {
#pragma unroll
      for (int w = 0; w < kSums; ++w) fetched[w * kFetchedTerms + i] = term(w, begin + i);
    }
    t.sync();
    if (t.lane() == 0 && t.warp() < kSums) {
      const double* own = fetched + t.warp() * kFetchedTerms;
      for (std::int64_t i = 0; i < count; ++i) sum += own[i];
    }
    t.sync();
  }
  return sum;
}

// x[0] + x[1] + ... in this order; the sum in thread 0.
PHALANX_DEVICE double sum_in_order(Thread& t, const double* x, std::int64_t n, double* fetched) {
  return sums_in_order<1>(t, 0.0, n, fetched, [x](int /*w*/, std::int64_t i) { return x[i]; });
}

struct TotalKernel {
  static constexpr int kThreads = 256;
  struct Params {
    double* sum;
    const double* x;
    std::int64_t n;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const double sum = sum_in_order(t, p.x, p.n, t.template shared<double>(kFetchedTerms));
    if (t.index() == 0) *p.sum = sum;
  }
};

// totals[group] = a segment's elements in their order: a block of threads for each segment.
struct TotalSegmentsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    const ops::Segment* rows;
    double* totals;
    const double* x;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const ops::Segment segment = p.rows[t.block()];
    const double sum = sum_in_order(t, p.x + segment.begin, segment.count,
                                    t.template shared<double>(kFetchedTerms));
    if (t.index() == 0) p.totals[segment.group] = sum;
  }
};

// ops/reduce.h's GradientFactor.
struct GradientFactorKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* norm;
    float* factor;
    float* skip;
    const double* square_sums;
    std::int64_t n;
    const double* tokens;           // may be null
    const double* expected_tokens;  // read with tokens
    const float* loss_scale;
    const double* checked;  // may be null
    std::int64_t checked_count;
    double clip;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const double squares =
        sum_in_order(t, p.square_sums, p.n, t.template shared<double>(kFetchedTerms));
    if (t.index() != 0) return;
    double loss_scale = static_cast<double>(*p.loss_scale);
    // The difference of a number that is not finite with itself is no number.
    for (std::int64_t i = 0; i < p.checked_count; ++i) loss_scale += p.checked[i] - p.checked[i];
    double average = 1.0 / loss_scale;
    if (p.tokens != nullptr) {
      average = *p.tokens == 0.0 ? 0.0 : *p.expected_tokens / *p.tokens * average;
    }
    const double norm = sqrt_of(squares) * average;
    double clipped = p.clip > 0.0 ? p.clip / (norm + 1e-6) : 1.0;
    if (clipped > 1.0) clipped = 1.0;
    // The norm as reported: one beyond float's range counts as infinite.
    const auto reported = static_cast<float>(norm);
    *p.norm = reported;
    *p.factor = static_cast<float>(average * clipped);
    *p.skip = reported - reported == 0.0F ? 0.0F : 1.0F;
  }
};

}  // namespace phalanx::cuda
