#pragma once
// What becomes of losses, ops/cross_entropy.h: masks, the seed of backward, sums.

#include "phalanx/ops/cuda/reduce-inl.h"

namespace phalanx::cuda {

// mask[r] = 1 where labels[r] is not negative, else 0.
struct LabelMaskKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* mask;
    const std::int32_t* labels;
    std::int64_t rows;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = t.block() * kThreads + t.index();
    if (r < p.rows) p.mask[r] = p.labels[r] >= 0 ? 1.0F : 0.0F;
  }
};

// seed = loss_scale factor / sum(mask); without a mask, nothing is divided.
struct LossSeedKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* seed;
    const float* loss_scale;
    const float* mask;  // may be null
    std::int64_t rows;
    double factor;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return kFetchedTerms * sizeof(double); }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    double seed = static_cast<double>(*p.loss_scale) * p.factor;
    if (p.mask != nullptr) {
      const double count = sums_in_order<1>(
          t, 0.0, p.rows, t.template shared<double>(kFetchedTerms),
          [&p](int /*w*/, std::int64_t i) { return static_cast<double>(p.mask[i]); });
      seed = count == 0.0 ? 0.0 : seed / count;
    }
    if (t.index() == 0) *p.seed = static_cast<float>(seed);
  }
};

// sum += loss[r] mask[r], count += mask[r], rows in order.
struct LossAccumulateKernel {
  static constexpr int kThreads = 256;
  struct Params {
    double* sum;
    double* count;
    const float* loss;
    const float* mask;
    std::int64_t rows;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) {
    return 2 * kFetchedTerms * static_cast<std::int64_t>(sizeof(double));
  }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    double* const to = t.warp() == 0 ? p.sum : p.count;
    const bool has_sum = t.lane() == 0 && t.warp() < 2;
    const double sum =
        sums_in_order<2>(t, has_sum ? *to : 0.0, p.rows,
                         t.template shared<double>(2 * kFetchedTerms), [&p](int w, std::int64_t i) {
                           const auto mask = static_cast<double>(p.mask[i]);
                           return w == 0 ? static_cast<double>(p.loss[i]) * mask : mask;
                         });
    if (has_sum) *to = sum;
  }
};

}  // namespace phalanx::cuda
