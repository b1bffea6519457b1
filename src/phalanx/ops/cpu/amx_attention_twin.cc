// Attention of family `amx2` in plain C++: the bits of the instructions, for tests on processors
// without them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/amx_attention_kernel.h"
#include "phalanx/ops/cpu/amx_twin.h"

namespace phalanx::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void multiply(const TileProduct& p) {
  for (std::int64_t row = 0; row < p.row_tiles; ++row) {
    for (std::int64_t column = 0; column < p.column_tiles; ++column) {
      auto* const sums = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(p.sums) +
                                                  row * kTwinSide * p.sums_stride) +
                         column * kTwinSide;
      const std::int64_t stride = p.sums_stride / static_cast<std::int64_t>(sizeof(float));
      if (!p.add) {
        for (std::int64_t i = 0; i < kTwinSide; ++i)
          std::fill_n(sums + i * stride, kTwinSide, 0.0F);
      }
      for (std::int64_t step = 0; step < p.steps; ++step) {
        multiply_registers({.sums = sums,
                            .sums_stride = stride,
                            .left = p.left + row * kTwinSide * p.left_stride + step * 64,
                            .left_stride = p.left_stride,
                            .right = p.right + step * kTwinSide * p.right_stride + column * 64,
                            .right_stride = p.right_stride});
      }
    }
  }
}

// x - floor(x), rounded towards -infinity as by the instruction: below 1.
float fraction(float x) {
  const double exact = static_cast<double>(x) - std::floor(static_cast<double>(x));
  const auto rounded = static_cast<float>(exact);
  return rounded > exact || rounded == 1.0F ? std::nextafter(rounded, -kInfinity) : rounded;
}

float power_of_two(float x) {
  if (x < -200.0F) return 0.0F;
  const float f = fraction(x);
  float power = kTilePower[5];
  for (int i = 4; i >= 0; --i) power = twin_multiply_add(power, f, kTilePower[i]);
  const float whole = std::floor(x);
  const double result =
      std::ldexp(static_cast<double>(power), std::isfinite(whole) ? static_cast<int>(whole) : 0);
  return result < std::numeric_limits<float>::min() ? 0.0F : static_cast<float>(result);
}

// factor * score - reference
float exponent(float score, float factor, float reference) {
  return twin_multiply_add(twin_flushed(score), factor, -reference);
}

void store_bf16(float value, std::byte* to) {
  const bfloat16 rounded = to_bfloat16(twin_flushed(value));
  std::memcpy(to, &rounded, sizeof rounded);
}

bool is_kept(const std::uint32_t* kept, std::int64_t key, std::int64_t lane) {
  return kept == nullptr || (kept[key] >> static_cast<std::uint32_t>(lane) & 1U) != 0;
}

void softmax_lane(const TileSoftmax& s, std::int64_t lane) {
  float largest = -kInfinity;
  for (std::int64_t key = 0; key < s.keys; ++key) {
    largest = std::max(largest, s.scores[key * kTileLanes + lane]);
  }
  const float before = s.maximum[lane];
  const float maximum = std::max(before, twin_flushed(largest * s.factor));
  const float reference = maximum == -kInfinity ? 0.0F : maximum;
  const float shrink = power_of_two(twin_flushed(before - reference));
  float sums[2] = {twin_flushed(s.sum[lane] * shrink), 0.0F};
  for (std::int64_t key = 0; key < s.keys; ++key) {
    float p = power_of_two(exponent(s.scores[key * kTileLanes + lane], s.factor, reference));
    float& sum = sums[key % 2];
    sum = twin_add(sum, p);
    if (!is_kept(s.kept, key, lane)) p = 0.0F;
    store_bf16(p, s.pairs + ((key / 2 * kTileLanes + lane) * 2 + key % 2) * 2);
  }
  s.maximum[lane] = maximum;
  s.sum[lane] = twin_add(sums[0], sums[1]);
  s.shrink[lane] = shrink;
}

void multiply_all(TileProducts products) {
  for (const TileProduct& product : products) multiply(product);
}

void softmax(const TileSoftmax& step, TileProducts beside) {
  multiply_all(beside);
  for (std::int64_t lane = 0; lane < step.lanes; ++lane) softmax_lane(step, lane);
}

void gradients(const TileGradients& g, TileProducts beside) {
  multiply_all(beside);
  for (std::int64_t key = 0; key < g.keys; ++key) {
    for (std::int64_t lane = 0; lane < kTileLanes; ++lane) {
      const std::int64_t at = key * kTileLanes + lane;
      const float p = power_of_two(exponent(g.scores[at], g.factor, g.lse[lane]));
      float dp = twin_flushed(g.dvalues[at]);
      if (g.kept != nullptr) {
        dp = is_kept(g.kept, key, lane) ? twin_flushed(dp * g.kept_factor) : 0.0F;
      }
      const float gradient = twin_flushed(p * twin_add(dp, -g.delta[lane]));
      if (g.exact_gradients != nullptr) g.exact_gradients[at] = gradient;
      store_bf16(is_kept(g.kept, key, lane) ? p : 0.0F,
                 g.probabilities + key * g.stride + lane * 2);
      store_bf16(gradient, g.gradients + key * g.stride + lane * 2);
      store_bf16(gradient,
                 g.pairs + ((key / 2 * kTileLanes + pair_column(lane)) * 2 + key % 2) * 2);
    }
  }
}

void do_nothing() {}

constexpr AttentionKernel kTwin{.prepare = do_nothing,
                                .release = do_nothing,
                                .multiply = multiply,
                                .softmax = softmax,
                                .gradients = gradients};

}  // namespace

const AttentionKernel& attention_kernel_twin() { return kTwin; }

}  // namespace phalanx::cpu
