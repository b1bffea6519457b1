#pragma once
// Balancing of experts, ops/balance.h.

#include "phalanx/ops/cuda/reduce-inl.h"
#include "phalanx/ops/cuda/router_scores-inl.h"

namespace phalanx::cuda {

// Of every token what its balance scores follow from: the logarithm of the sum of exponentials, and
// what other scores are divided by; and its experts are counted. A warp has a token.
struct BalanceRowsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / 32;
  struct Params {
    std::uint32_t* counts;  // [sequences, experts], zeros
    double* log_sums;       // [rows]
    double* divisors;       // [rows]; not written for softmax
    const float* logits;
    std::int64_t rows;
    std::int64_t sequences;
    int experts;
    int chosen;
    ops::RouterScore score;
  };
  static std::int64_t shared_bytes(const Params& p) {
    return (kWarps * static_cast<std::int64_t>(sizeof(double)) * p.experts + 127) / 128 * 128;
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    double* own =
        t.template shared<double>(std::int64_t{kWarps} * p.experts) + t.warp() * p.experts;
    const std::int64_t r = t.block() * kWarps + t.warp();
    if (r >= p.rows) return;
    const float* z = p.logits + r * p.experts;
    for (int e = t.lane(); e < p.experts; e += 32) own[e] = logit_of(z[e]);
    t.sync_warp();
    const double log_sum = logit_sum(t, z, p.experts).log_sum();
    double divisor = 1.0;
    if (!has_softmax(p.score)) divisor = score_sum(t, p.score, z, p.experts);
    if (t.lane() == 0) {
      p.log_sums[r] = log_sum;
      if (!has_softmax(p.score)) p.divisors[r] = divisor;
    }
    std::uint32_t* counts = p.counts + r % p.sequences * p.experts;
    for_largest(t, own, p.experts, nullptr, 1, p.chosen, [&](int /*j*/, int place) {
      if (t.lane() == 0) t.atomic_add(counts + place, 1U);
    });
  }
};

// parts[part][sequence][e] = the sum of balance scores over a part of the sequence's tokens, which
// are `sequences` rows apart.
struct BalancePartsKernel {
  static constexpr int kThreads = 64;
  struct Params {
    double* parts;
    const double* log_sums;
    const double* divisors;
    const float* logits;
    std::int64_t rows;
    std::int64_t sequences;
    std::int64_t rows_of_part;  // of one sequence
    int experts;
    ops::RouterScore score;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t e = t.block(0) * kThreads + t.index();
    if (e >= p.experts) return;
    const std::int64_t part = t.block(1);
    const std::int64_t sequence = t.block(2);
    double sum = 0.0;
    for (std::int64_t i = 0; i < p.rows_of_part; ++i) {
      const std::int64_t r = (part * p.rows_of_part + i) * p.sequences + sequence;
      if (r >= p.rows) break;
      const double z = logit_of(p.logits[r * p.experts + e]);
      sum +=
          has_softmax(p.score) ? exp_of(z - p.log_sums[r]) : score_of(p.score, z) / p.divisors[r];
    }
    p.parts[(part * p.sequences + sequence) * p.experts + e] = sum;
  }
};

// sums[i] = parts[0][i] + parts[1][i] + ...
struct BalanceSumsKernel {
  static constexpr int kThreads = 256;
  struct Params {
    double* sums;
    const double* parts;
    std::int64_t part_count;
    std::int64_t n;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.n) return;
    double sum = 0.0;
    for (std::int64_t part = 0; part < p.part_count; ++part) sum += p.parts[part * p.n + i];
    p.sums[i] = sum;
  }
};

// loss += factor * sum of x[i]^2, in order.
struct SquaresKernel {
  static constexpr int kThreads = 256;
  struct Params {
    double* loss;
    const double* x;
    std::int64_t n;
    double factor;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const double sum =
        sums_in_order<1>(t, 0.0, p.n, t.template shared<double>(kFetchedTerms),
                         [&p](int /*w*/, std::int64_t i) { return p.x[i] * p.x[i]; });
    if (t.index() == 0) *p.loss += p.factor * sum;
  }
};

// loss += factor * sum of counts * sums, in order. Counts of `counted` elements stand for all.
struct BalanceLossKernel {
  static constexpr int kThreads = 256;
  struct Params {
    double* loss;
    const std::int32_t* counts;
    const double* sums;
    std::int64_t counted;
    std::int64_t n;
    double factor;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const double sum = sums_in_order<1>(
        t, 0.0, p.n, t.template shared<double>(kFetchedTerms), [&p](int /*w*/, std::int64_t i) {
          return static_cast<double>(p.counts[i % p.counted]) * p.sums[i];
        });
    if (t.index() == 0) *p.loss += p.factor * sum;
  }
};

struct BalanceGradientKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* dscores;
    const std::int32_t* counts;
    const float* scale;
    std::int64_t counted;
    std::int64_t n;
    double factor;
    bool adds;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.n) return;
    const double before = p.adds ? static_cast<double>(p.dscores[i]) : 0.0;
    const double factor = p.factor * static_cast<double>(*p.scale);
    const double product = factor * static_cast<double>(p.counts[i % p.counted]);
    p.dscores[i] = static_cast<float>(before + product);
  }
};

struct ExpertCountsKernel {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kPairs = 4096;  // of a block
  struct Params {
    std::uint32_t* counts;
    const std::int32_t* places;
    std::int64_t pairs;
    int experts;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return ops::kMostExperts * sizeof(std::uint32_t);
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* own = t.template shared<std::uint32_t>(ops::kMostExperts);
    for (int e = t.index(); e < p.experts; e += kThreads) own[e] = 0;
    t.sync();
    const std::int64_t begin = t.block() * kPairs;
    for (std::int64_t i = begin + t.index(); i < begin + kPairs && i < p.pairs; i += kThreads) {
      if (p.places[i] >= 0) t.atomic_add(own + p.places[i], 1U);
    }
    t.sync();
    for (int e = t.index(); e < p.experts; e += kThreads) {
      if (own[e] != 0) t.atomic_add(p.counts + e, own[e]);
    }
  }
};

struct ExpertBiasKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* bias;
    const std::int32_t* counts;
    std::int64_t experts;
    double rate;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 128; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    std::int64_t own = 0;
    for (std::int64_t e = t.index(); e < p.experts; e += kThreads) own += p.counts[e];
    const std::int64_t total = block_sum(t, own, t.template shared<std::int64_t>(kThreads / 32));
    for (std::int64_t e = t.index(); e < p.experts; e += kThreads) {
      const std::int64_t missing = total - p.experts * p.counts[e];
      if (missing == 0) continue;
      const double step = missing > 0 ? p.rate : -p.rate;
      p.bias[e] = static_cast<float>(static_cast<double>(p.bias[e]) + step);
    }
  }
};

}  // namespace phalanx::cuda
