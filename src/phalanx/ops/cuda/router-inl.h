#pragma once
// The router of a mixture of experts, ops/router.h. A warp has a token.

#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/router_scores-inl.h"

namespace phalanx::cuda {

struct RouterShape {
  std::int64_t rows;
  int experts;
  int chosen;
  ops::RouterRule rule;
};

// A warp's part of a shared array of `n` elements for each warp.
template <typename T, int kWarps>
PHALANX_DEVICE T* own_shared(Thread& t, int n) {
  return t.template shared<T>(std::int64_t{kWarps} * n) + t.warp() * n;
}
template <int kWarps>
constexpr std::int64_t shared_bytes_of_warps(std::int64_t n, std::int64_t size) {
  return (kWarps * n * size + 127) / 128 * 128;
}

// The scores of the chosen experts, lane j's own; they are divided by `sum`.
struct ChosenScore {
  double score;
  double sum;
};
PHALANX_DEVICE ChosenScore chosen_score(Thread& t, const RouterShape& s, const float* z,
                                        double own) {
  const bool has = t.lane() < s.chosen;
  if (s.rule.score == ops::RouterScore::kSoftmaxFirst) {
    const LogitSum all = logit_sum(t, z, s.experts);
    return {exp_of(own - all.largest), all.sum};
  }
  double score = 0.0;
  if (s.rule.score == ops::RouterScore::kSoftmax) {
    const double first = t.shuffle(own, 0);
    const double largest = warp_max(t, has ? own : first);
    score = has ? exp_of(own - largest) : 0.0;
    return {score, sum_of_lanes(t, score, s.chosen)};
  }
  score = has ? score_of(s.rule.score, own) : 0.0;
  const double sum = sum_of_lanes(t, score, s.chosen) + ops::kScoreEpsilon;
  return {score, s.chosen == 1 ? 1.0 : sum};
}

struct RouterForwardKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / 32;
  struct Params {
    RouterShape shape;
    ops::RouterChoice choice;
    std::int32_t* places;
    float* probabilities;
    const float* logits;
    const float* bias;  // may be null
    FaultReport faults;
  };
  static std::int64_t shared_bytes(const Params& p) {
    return shared_bytes_of_warps<kWarps>(p.shape.experts, sizeof(double)) +
           shared_bytes_of_warps<kWarps>(p.shape.rule.groups, sizeof(double)) +
           shared_bytes_of_warps<kWarps>(p.shape.rule.groups, sizeof(std::uint32_t));
  }

  // Lane g has the scores of groups g, g + 32, ...: the sums of their best, largest first.
  PHALANX_DEVICE static void sum_groups(Thread& t, const RouterShape& s, const float* z,
                                        const double* choice, double* of_groups) {
    const int groups = static_cast<int>(s.rule.groups);
    const int size = s.experts / groups;
    const bool of_probabilities = s.rule.score == ops::RouterScore::kSoftmaxFirst;
    LogitSum all{0.0, 1.0};
    if (of_probabilities) all = logit_sum(t, z, s.experts);
    for (int g = t.lane(); g < groups; g += 32) {
      const double* own = choice + g * size;
      double sum = 0.0;
      Candidate last{0.0, -1};
      for (int j = 0; j < s.rule.group_best; ++j) {
        Candidate best{0.0, -1};
        for (int i = 0; i < size; ++i) {
          const Candidate one{own[i], i};
          if ((last.place < 0 || last.beats(one)) && one.beats(best)) best = one;
        }
        last = best;
        sum += of_probabilities ? all.softmax(best.value) : best.value;
      }
      of_groups[g] = sum;
    }
  }

  // The best experts; lane j gets the j-th.
  PHALANX_DEVICE static int choose(Thread& t, const Params& p, const float* z, double* choice,
                                   double* of_groups, std::uint32_t* open) {
    const RouterShape& s = p.shape;
    const int groups = static_cast<int>(s.rule.groups);
    const bool by_score = !has_softmax(s.rule.score) && (p.bias != nullptr || groups > 1);
    for (int e = t.lane(); e < s.experts; e += 32) {
      double own = logit_of(z[e]);
      if (by_score) own = score_of(s.rule.score, own);
      if (p.bias != nullptr) own += logit_of(p.bias[e]);
      choice[e] = own;
    }
    t.sync_warp();
    if (groups > 1) {
      sum_groups(t, s, z, choice, of_groups);
      for (int g = t.lane(); g < groups; g += 32) open[g] = 0;
      t.sync_warp();
      for_largest(t, of_groups, groups, nullptr, 1, static_cast<int>(s.rule.group_topk),
                  [&](int /*j*/, int g) {
                    if (t.lane() == 0) open[g] = 1;
                  });
      t.sync_warp();
    }
    int mine = 0;
    for_largest(t, choice, s.experts, groups > 1 ? open : nullptr, s.experts / groups, s.chosen,
                [&](int j, int place) {
                  if (t.lane() == j) mine = place;
                });
    return mine;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const RouterShape& s = p.shape;
    const int groups = static_cast<int>(s.rule.groups);
    auto* choice = own_shared<double, kWarps>(t, s.experts);
    auto* of_groups = own_shared<double, kWarps>(t, groups);
    auto* open = own_shared<std::uint32_t, kWarps>(t, groups);
    const std::int64_t r = t.block() * kWarps + t.warp();
    if (r >= s.rows) return;
    const float* z = p.logits + r * s.experts;
    for (int e = t.lane(); e < s.experts; e += 32) {
      if (!is_finite(z[e])) report_fault(t, p.faults, r, e, s.experts);
    }
    const bool has = t.lane() < s.chosen;
    const std::int64_t own = r * s.chosen + t.lane();
    int mine = 0;
    if (p.choice == ops::RouterChoice::kBest) {
      mine = choose(t, p, z, choice, of_groups, open);
    } else if (p.choice == ops::RouterChoice::kTurns) {
      mine = static_cast<int>(own % s.experts);
    } else if (has) {
      mine = p.places[own];
    }
    const std::int64_t to = r * s.chosen + place_in_order(t, mine, s.chosen);
    const ChosenScore score = chosen_score(t, s, z, has ? logit_of(z[mine]) : 0.0);
    // Given experts have been read.
    t.sync_warp();
    if (!has) return;
    p.places[to] = mine;
    p.probabilities[to] = static_cast<float>(s.rule.scaling * score.score / score.sum);
  }
};

struct RouterBackwardKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / 32;
  struct Params {
    RouterShape shape;
    float* dlogits;
    const float* dprobabilities;
    const float* logits;
    const std::int32_t* places;
    const float* dscores;  // [sequences, experts]; may be null
    std::int64_t sequences;
    double z_loss;
    const float* scale;  // read where z_loss is not 0
  };
  static std::int64_t shared_bytes(const Params& p) {
    return shared_bytes_of_warps<kWarps>(p.shape.experts, sizeof(double));
  }

  // What the chosen experts' probabilities add to dz, which is zeros.
  PHALANX_DEVICE static void of_probabilities(Thread& t, const Params& p, std::int64_t r,
                                              const LogitSum& all, double* dz) {
    const RouterShape& s = p.shape;
    const float* z = p.logits + r * s.experts;
    const bool has = t.lane() < s.chosen;
    const int code = has ? p.places[r * s.chosen + t.lane()] : 0;
    const int place = code < 0 ? dropped(code) : code;
    const double own = has ? logit_of(z[place]) : 0.0;
    double weight = 0.0;
    if (has && code >= 0) {
      weight = s.rule.scaling * static_cast<double>(p.dprobabilities[r * s.chosen + t.lane()]);
    }
    if (s.rule.score == ops::RouterScore::kSoftmaxFirst) {
      const double share = all.softmax(own);
      const double mean = sum_of_lanes(t, weight * share, s.chosen);
      for (int e = t.lane(); e < s.experts; e += 32) {
        dz[e] = -mean * all.softmax(logit_of(z[e]));
      }
      t.sync_warp();
      if (has) dz[place] = share * (weight - mean);
      return;
    }
    const ChosenScore score = chosen_score(t, s, z, own);
    const bool softmax = has_softmax(s.rule.score);
    double mean = sum_of_lanes(t, weight * score.score, s.chosen) / score.sum;
    if (s.chosen == 1 && !softmax) mean = 0.0;
    const double slope = softmax ? score.score : score_slope(s.rule.score, own, score.score);
    if (has) dz[place] = slope * (weight - mean) / score.sum;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const RouterShape& s = p.shape;
    auto* dz = own_shared<double, kWarps>(t, s.experts);
    const std::int64_t r = t.block() * kWarps + t.warp();
    if (r >= s.rows) return;
    const float* z = p.logits + r * s.experts;
    const bool softmax = has_softmax(s.rule.score);
    LogitSum all{0.0, 1.0};
    if (s.rule.score == ops::RouterScore::kSoftmaxFirst || p.z_loss != 0.0 ||
        (softmax && p.dscores != nullptr)) {
      all = logit_sum(t, z, s.experts);
    }
    for (int e = t.lane(); e < s.experts; e += 32) dz[e] = 0.0;
    t.sync_warp();
    of_probabilities(t, p, r, all, dz);
    t.sync_warp();
    const float* weights = nullptr;
    double sum = 1.0;
    double mean = 0.0;
    if (p.dscores != nullptr) {
      weights = p.dscores + r % p.sequences * s.experts;
      if (!softmax) sum = score_sum(t, s.rule.score, z, s.experts);
      for (int e = t.lane(); e < s.experts; e += 32) {
        const double one = logit_of(z[e]);
        mean += static_cast<double>(weights[e]) *
                (softmax ? all.softmax(one) : score_of(s.rule.score, one) / sum);
      }
      mean = warp_sum(t, mean);
    }
    double of_square = 0.0;
    if (p.z_loss != 0.0) {
      of_square = 2.0 * p.z_loss * static_cast<double>(*p.scale) * all.log_sum();
    }
    for (int e = t.lane(); e < s.experts; e += 32) {
      const double one = logit_of(z[e]);
      double value = dz[e];
      if (weights != nullptr) {
        const double slope = softmax ? all.softmax(one)
                                     : score_slope(s.rule.score, one, score_of(s.rule.score, one));
        value += slope * (static_cast<double>(weights[e]) - mean) / sum;
      }
      if (p.z_loss != 0.0) value += of_square * all.softmax(one);
      p.dlogits[r * s.experts + e] = static_cast<float>(value);
    }
  }
};

// Drops the pairs beyond an expert's capacity: a block has an expert. Which stay follows from the
// bits of the smallest probability that does: found 8 bits at a time, by counting. Of those that
// are equal to it the first stay.
struct RouterCapacityKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kDigits = 256;
  struct Params {
    std::int32_t* places;
    const float* probabilities;
    std::int64_t pairs;
    std::int64_t capacity;
    bool by_probability;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return kDigits * sizeof(std::uint32_t) + 2 * 128;
  }

  // Larger ones are kept first. Nothing is less than 0, and -0 is 0.
  PHALANX_DEVICE static std::uint32_t key(const Params& p, std::int64_t i) {
    return p.by_probability ? bits_of_float(p.probabilities[i] + 0.0F) : 0;
  }

  // The digit of the key of which `left` pairs are kept, among those whose higher digits are
  // `prefix`. `left` becomes those that this digit keeps.
  PHALANX_DEVICE static std::uint32_t next_digit(Thread& t, const Params& p, int expert, int shift,
                                                 std::uint32_t prefix, std::int64_t& left,
                                                 std::uint32_t* counts) {
    for (int d = t.index(); d < kDigits; d += kThreads) counts[d] = 0;
    t.sync();
    for (std::int64_t i = t.index(); i < p.pairs; i += kThreads) {
      if (p.places[i] != expert) continue;
      const std::uint32_t k = key(p, i);
      const std::uint64_t higher = std::uint64_t{k} >> (shift + 8);
      if (higher == prefix) t.atomic_add(counts + (k >> shift & 0xffU), 1U);
    }
    t.sync();
    std::uint32_t digit = kDigits - 1;
    for (; digit > 0 && counts[digit] < left; --digit) left -= counts[digit];
    t.sync();
    return digit;
  }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* counts = t.template shared<std::uint32_t>(kDigits);
    auto* of_warps = t.template shared<std::uint32_t>(kWarps);
    auto* total = t.template shared<std::int64_t>(kWarps);
    const int expert = static_cast<int>(t.block());
    std::int64_t own = 0;
    for (std::int64_t i = t.index(); i < p.pairs; i += kThreads) own += p.places[i] == expert;
    if (block_sum(t, own, total) <= p.capacity) return;
    // Pairs with a larger key stay, and the first `left` with this one.
    std::int64_t left = p.capacity;
    std::uint32_t least = 0;
    for (int shift = 24; shift >= 0 && p.by_probability && p.capacity > 0; shift -= 8) {
      least = least << 8 | next_digit(t, p, expert, shift, least, left, counts);
    }
    std::int64_t equal = 0;
    for (std::int64_t begin = 0; begin < p.pairs; begin += kThreads) {
      const std::int64_t i = begin + t.index();
      const bool is_own = i < p.pairs && p.places[i] == expert;
      const std::uint32_t k = is_own ? key(p, i) : 0;
      const bool is_equal = is_own && k == least;
      const std::uint32_t lanes = t.ballot(is_equal);
      if (t.lane() == 0) of_warps[t.warp()] = bit_count(lanes);
      t.sync();
      std::int64_t before = equal + bit_count(lanes & ((1U << t.lane()) - 1U));
      for (int w = 0; w < kWarps; ++w) {
        if (w < t.warp()) before += of_warps[w];
        equal += of_warps[w];
      }
      const bool stays = p.capacity > 0 && (k > least || (is_equal && before < left));
      if (is_own && !stays) p.places[i] = dropped(expert);
      t.sync();
    }
  }

 private:
  PHALANX_DEVICE static std::uint32_t bit_count(std::uint32_t word) {
    std::uint32_t count = 0;
    for (; word != 0; word &= word - 1U) ++count;
    return count;
  }
};

// Probabilities of dropped pairs become 0.
struct DroppedZerosKernel {
  static constexpr int kThreads = 256;
  struct Params {
    const std::int32_t* places;
    float* probabilities;
    std::int64_t pairs;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i < p.pairs && p.places[i] < 0) p.probabilities[i] = 0.0F;
  }
};

// Scales rows and columns of C = exp(logits): one block, which does so until it changes little.
struct SinkhornKernel {
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / 32;
  struct Params {
    double* c;   // [rows, experts]: on return the weighted columns
    double* d0;  // [rows]
    const float* logits;
    std::int64_t rows;
    int experts;
    int rounds;
    double tolerance;
    double epsilon;
    FaultReport faults;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return (ops::kMostExperts + kWarps) * static_cast<std::int64_t>(sizeof(double));
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    auto* d1 = t.template shared<double>(ops::kMostExperts);
    auto* parts = t.template shared<double>(kWarps);
    const std::int64_t n = p.rows * p.experts;
    for (std::int64_t i = t.index(); i < n; i += kThreads) {
      if (!is_finite(p.logits[i])) {
        report_fault(t, p.faults, i / p.experts, i % p.experts, p.experts);
      }
      p.c[i] = exp_of(logit_of(p.logits[i]));
    }
    if (t.index() < p.experts) d1[t.index()] = 1.0;
    t.sync();
    double change = 1.0;
    for (int round = 0; round < p.rounds && change > p.tolerance; ++round) {
      for (std::int64_t r = t.index(); r < p.rows; r += kThreads) {
        double sum = p.epsilon;
        for (int e = 0; e < p.experts; ++e) sum += p.c[r * p.experts + e] * d1[e];
        p.d0[r] = 1.0 / (static_cast<double>(p.rows) * sum);
      }
      t.sync();
      double own = 0.0;
      if (t.index() < p.experts) {
        double sum = p.epsilon;
        for (std::int64_t r = 0; r < p.rows; ++r) sum += p.d0[r] * p.c[r * p.experts + t.index()];
        const double next = 1.0 / (p.experts * sum);
        const double step = next - d1[t.index()];
        own = (step < 0.0 ? -step : step) / p.experts;
        d1[t.index()] = next;
      }
      change = block_sum(t, own, parts);
      t.sync();
    }
    for (std::int64_t i = t.index(); i < n; i += kThreads) p.c[i] *= d1[i % p.experts];
  }
};

struct SinkhornChoiceKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / 32;
  struct Params {
    std::int32_t* places;
    const double* weighted;
    std::int64_t rows;
    int experts;
    int chosen;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = t.block() * kWarps + t.warp();
    if (r >= p.rows) return;
    int mine = 0;
    for_largest(t, p.weighted + r * p.experts, p.experts, nullptr, 1, p.chosen,
                [&](int j, int place) {
                  if (t.lane() == j) mine = place;
                });
    const std::int64_t to = r * p.chosen + place_in_order(t, mine, p.chosen);
    if (t.lane() < p.chosen) p.places[to] = mine;
  }
};

}  // namespace phalanx::cuda
