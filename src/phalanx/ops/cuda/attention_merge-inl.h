#pragma once
// Joins two parts of attention, ops/attention.h: a warp has a row of a head.

#include "phalanx/ops/cuda/attention_tile-inl.h"

namespace phalanx::cuda {

struct AttentionMergeKernel {
  static constexpr int kThreads = 256;
  struct Params {
    float* out;
    const float* part_out;
    AttentionHeads out_heads;
    AttentionHeads part_heads;
    float* lse;
    const float* part_lse;
    std::int64_t lse_strides[3];  // of samples, heads, queries
    std::int64_t part_lse_strides[3];
    std::int64_t queries;
    std::int64_t batch;
    std::int64_t heads;
    std::int64_t width;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    // Heads of a row are neighbours in memory.
    const std::int64_t n = t.block() * (kThreads / 32) + t.warp();
    const std::int64_t h = n % p.heads;
    const std::int64_t b = n / p.heads % p.batch;
    const std::int64_t i = n / p.heads / p.batch;
    if (i >= p.queries) return;
    float* lse = p.lse + b * p.lse_strides[0] + h * p.lse_strides[1] + i * p.lse_strides[2];
    const float* part_lse = p.part_lse + b * p.part_lse_strides[0] + h * p.part_lse_strides[1] +
                            i * p.part_lse_strides[2];
    // One lane reads what it writes in the end.
    const float own = t.shuffle(t.lane() == 0 ? *lse : 0.0F, 0);
    const float part = t.shuffle(t.lane() == 0 ? *part_lse : 0.0F, 0);
    const bool has_own = own != -attention_infinity();
    const bool has_part = part != -attention_infinity();
    const float largest = part > own ? part : own;
    const float power = has_own ? attention_exp(own - largest) : 0.0F;
    const float part_power = has_part ? attention_exp(part - largest) : 0.0F;
    const float sum = power + part_power;
    float* out = p.out + i * p.out_heads.row + p.out_heads.at(b, h, 1);
    const float* from = p.part_out + i * p.part_heads.row + p.part_heads.at(b, h, 1);
    for (std::int64_t c = t.lane(); c < p.width; c += 32) {
      const float first = has_own ? power / sum * out[c] : 0.0F;
      out[c] = has_part ? fma_of(part_power / sum, from[c], first) : first;
    }
    if (t.lane() == 0) {
      *lse =
          has_own || has_part
              ? static_cast<float>(static_cast<double>(largest) + log_of(static_cast<double>(sum)))
              : -attention_infinity();
    }
  }
};

}  // namespace phalanx::cuda
