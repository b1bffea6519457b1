#pragma once
// Weights, ops/random.h: from the coordinates of an element, in double; normal ones by Box-Muller.

#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

struct DrawnBox {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t global_columns;
  std::int64_t first_row;
  std::int64_t first_column;
  std::uint64_t parameter;
  std::uint32_t key_low;
  std::uint32_t key_high;
};

// The words of the element at (r, c).
PHALANX_DEVICE Words4 words_of_element(const DrawnBox& p, std::int64_t r, std::int64_t c,
                                       std::uint64_t& element) {
  element = static_cast<std::uint64_t>((p.first_row + r) * p.global_columns + p.first_column + c);
  const std::uint64_t block = element / 4;
  return philox(
      p.key_low, p.key_high,
      {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
        static_cast<std::uint32_t>(p.parameter), static_cast<std::uint32_t>(p.parameter >> 32)}});
}

template <typename T>
struct NormalKernel {
  static constexpr int kThreads = 256;
  struct Params {
    DrawnBox box;
    T* x;
    double deviation;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.box.rows * p.box.columns) return;
    const std::int64_t r = i / p.box.columns;
    const std::int64_t c = i % p.box.columns;
    std::uint64_t element = 0;
    const Words4 words = words_of_element(p.box, r, c, element);
    const bool second = element % 4 >= 2;
    const double word0 = second ? words.at[2] : words.at[0];
    const double word1 = second ? words.at[3] : words.at[1];
    const double radius = sqrt_of(-2.0 * log_of((word0 + 1.0) * 0x1p-32));
    const double angle = 2.0 * 3.141592653589793 * word1 * 0x1p-32;
    const double number = radius * (element % 2 == 0 ? cos_of(angle) : sin_of(angle));
    p.x[r * p.box.row_stride + c] = round_to<T>(static_cast<float>(p.deviation * number));
  }
};

template <typename T>
struct UniformKernel {
  static constexpr int kThreads = 256;
  struct Params {
    DrawnBox box;
    T* x;
    double bound;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t i = t.block() * kThreads + t.index();
    if (i >= p.box.rows * p.box.columns) return;
    const std::int64_t r = i / p.box.columns;
    const std::int64_t c = i % p.box.columns;
    std::uint64_t element = 0;
    const Words4 words = words_of_element(p.box, r, c, element);
    const double low = element % 2 == 0 ? words.at[0] : words.at[1];
    const double high = element % 2 == 0 ? words.at[2] : words.at[3];
    const double word = element % 4 >= 2 ? high : low;
    const double number = (word + 0.5) * 0x1p-31 - 1.0;
    p.x[r * p.box.row_stride + c] = round_to<T>(static_cast<float>(p.bound * number));
  }
};

}  // namespace phalanx::cuda
