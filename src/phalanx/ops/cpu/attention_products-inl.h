// The computations of attention on whole strips and blocks: matrix products with the tiles of
// tile-inl.h, copies of rows of storage, transposes. Included once per target.
//
// Scores are [keys][lanes]; a lane is a query row of a strip. The "lanes" of a [rows][width] matrix
// are its transpose, [width][48].

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

#include "phalanx/ops/cpu/attention_blocks.h"
#include "phalanx/ops/cpu/tile-inl.h"
#include "phalanx/ops/cpu/transpose-inl.h"

#if defined(PHALANX_OPS_CPU_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_ATTENTION_PRODUCTS_INL_H_
#undef PHALANX_OPS_CPU_ATTENTION_PRODUCTS_INL_H_
#else
#define PHALANX_OPS_CPU_ATTENTION_PRODUCTS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// ---- Products

enum class Into { kOverwrite, kAdd, kRescale };

struct FloatRows {
  const float* data;
  std::int64_t stride;
};

// The rows of a tile of kVectors vectors: sums and operands together fill the registers.
template <int kVectors>
constexpr int tile_rows() {
  return kVectors == 1 ? 8 : kTileRows * kTileVectors / kVectors;
}
inline constexpr int kMostVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

// The vectors of the next tile when `left` remain. No tile is narrower than needed.
constexpr std::int64_t next_vectors(std::int64_t left) {
  if (left <= kMostVectors) return left;
  if (left % kMostVectors == 0) return kMostVectors;
  return left % 3 == 0 || left == 5 ? std::min(3, kMostVectors) : kMostVectors;
}

template <Left kLeft, Into kInto, int kRows, int kVectors>
HWY_INLINE void product_tile(std::int64_t depth, FloatRows left, FloatRows right, float* result,
                             std::int64_t stride, const float* factor) {
  const std::int64_t lanes = lane_count();
  const float* next = left.data + kRows * (kLeft == Left::kRows ? left.stride : 1);
  auto sums = tile_product<kLeft, kRows, kVectors>(depth, left.data, left.stride, right.data,
                                                   right.stride, next);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      float* at = result + r * stride + v * lanes;
      auto sum = sums.at[r][v];
      if constexpr (kInto == Into::kAdd) sum = hn::Add(load(at), sum);
      if constexpr (kInto == Into::kRescale) {
        sum = hn::MulAdd(load(at), load(factor + v * lanes), sum);
      }
      store(sum, at);
    }
  }
}

// A column of tiles; rows are a multiple of 8.
template <Left kLeft, Into kInto, int kVectors>
HWY_NOINLINE void product_columns(std::int64_t rows, std::int64_t depth, FloatRows left,
                                  FloatRows right, float* result, std::int64_t stride,
                                  const float* factor, RowPrefetch& ahead) {
  const std::int64_t row_step = kLeft == Left::kRows ? left.stride : 1;
  std::int64_t row = 0;
  const auto tiles = [&](auto height) HWY_ATTR {
    constexpr int kHeight = decltype(height)::value;
    for (; row + kHeight <= rows; row += kHeight) {
      product_tile<kLeft, kInto, kHeight, kVectors>(depth,
                                                    {left.data + row * row_step, left.stride},
                                                    right, result + row * stride, stride, factor);
      ahead.step();
    }
  };
  constexpr int kRows = tile_rows<kVectors>();
  tiles(Index<kRows>());
  if constexpr (kRows > 8) tiles(Index<8>());
  if constexpr (kRows > 4 && kRows != 8) tiles(Index<4>());
  if constexpr (kRows % 4 != 0) tiles(Index<2>());
}

template <Left kLeft, Into kInto>
void product_of_floats(std::int64_t rows, std::int64_t columns, std::int64_t depth, FloatRows left,
                       FloatRows right, float* result, std::int64_t stride, const float* factor,
                       RowPrefetch& ahead) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t column = 0; column < columns;) {
    const std::int64_t vectors = next_vectors((columns - column) / lanes);
    const auto run = [&](auto width) HWY_ATTR {
      product_columns<kLeft, kInto, decltype(width)::value>(
          rows, depth, left, {right.data + column, right.stride}, result + column, stride,
          kInto == Into::kRescale ? factor + column : nullptr, ahead);
    };
    if (vectors == 1) run(Index<1>());
    if (vectors == 2) run(Index<2>());
    if constexpr (kMostVectors > 2) {
      if (vectors == 3) run(Index<3>());
      if (vectors == 4) run(Index<4>());
    }
    column += vectors * lanes;
  }
}

inline void rescale(std::int64_t rows, std::int64_t columns, float* result, std::int64_t stride,
                    const float* factor) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; i += lane_count()) {
      float* at = result + row * stride + i;
      store(hn::Mul(load(at), load(factor + i)), at);
    }
  }
}

inline void product_of_pairs(const PanelKernel& kernel, Left layout, bool add, std::int64_t rows,
                             std::int64_t columns, std::int64_t depth, FloatRows left,
                             FloatRows right, float* result, std::int64_t stride,
                             RowPrefetch& ahead) {
  const std::int64_t row_step = layout == Left::kRows ? left.stride : 1;
  for (std::int64_t column = 0; column < columns; column += kernel.columns()) {
    const std::int64_t width = std::min<std::int64_t>(columns - column, kernel.columns());
    for (std::int64_t row = 0; row < rows; row += kernel.rows) {
      const float* from = left.data + row * row_step;
      kernel.run(layout, static_cast<int>(ceil_div(width, kernel.width)),
                 {.depth = depth,
                  .left = reinterpret_cast<const std::byte*>(from),
                  .left_stride = left.stride,
                  .right = reinterpret_cast<const std::byte*>(right.data + column),
                  .right_stride = right.stride,
                  .sums = result + row * stride + column,
                  .sums_stride = stride,
                  .add = add,
                  .next_left = reinterpret_cast<const std::byte*>(from + kernel.rows * row_step)});
      ahead.step();
    }
  }
}

// result[rows][columns] = left right + result, where result may first be multiplied by
// factor[column]. Depth and strides count groups of 32 bits: one float, or a pair of bf16 for a
// kernel. Rows come in 8s, columns in whole vectors. Each tile takes a step of `ahead`.
template <Left kLeft, Into kInto>
void product(const PanelKernel* kernel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
             FloatRows left, FloatRows right, float* result, std::int64_t stride,
             const float* factor, RowPrefetch& ahead) {
  if (kernel == nullptr) {
    product_of_floats<kLeft, kInto>(rows, columns, depth, left, right, result, stride, factor,
                                    ahead);
    return;
  }
  if (kInto == Into::kRescale) rescale(rows, columns, result, stride, factor);
  product_of_pairs(*kernel, kLeft, kInto != Into::kOverwrite, rows, columns, depth, left, right,
                   result, stride, ahead);
}

// ---- Rows of storage, and their copies

HWY_INLINE void fill(float* to, std::int64_t count, float value) {
  std::fill(to, to + count, value);
}

// to = factor * a row of `width` elements, as floats; zeros up to the stride.
HWY_INLINE void load_row(DType dtype, const std::byte* from, std::int64_t width, float factor,
                         float* to, std::int64_t stride) {
  with_storage(dtype, [=](auto type) HWY_ATTR {
    const auto* row = reinterpret_cast<const decltype(type)*>(from);
    const auto scale = hn::Set(FloatTag(), factor);
    for_vectors(0, width, [=](std::int64_t i, auto lanes) HWY_ATTR {
      store(hn::Mul(scale, lanes.load(row + i)), to + i);  // the stride has room for a vector
    });
  });
  for (std::int64_t i = round_up(width, lane_count()); i < stride; i += lane_count()) {
    store(hn::Zero(FloatTag()), to + i);
  }
}
HWY_INLINE void store_row(const float* from, std::int64_t width, float factor, DType dtype,
                          std::byte* to) {
  with_storage(dtype, [=](auto type) HWY_ATTR {
    auto* row = reinterpret_cast<decltype(type)*>(to);
    const auto scale = hn::Set(FloatTag(), factor);
    for_vectors(0, width, [=](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Mul(scale, load(from + i)), row + i);
    });
  });
}

// to += factor * from, of floats.
HWY_INLINE void add_row(const float* from, std::int64_t width, float factor, std::byte* to) {
  auto* row = reinterpret_cast<float*>(to);
  const auto scale = hn::Set(FloatTag(), factor);
  for_vectors(0, width, [=](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(hn::Add(lanes.load(row + i), hn::Mul(scale, load(from + i))), row + i);
  });
}

// Converts rows of floats in place to rows of bf16, half as far apart.
inline void narrow_rows(float* rows, std::int64_t count, std::int64_t stride) {
  convert(rows, reinterpret_cast<bfloat16*>(rows), count * stride);
}

// to[i] = rows 2 i and 2 i + 1 of floats, as pairs of bf16. `to` may be the rows themselves.
inline void pair_rows(const float* rows, std::int64_t count, std::int64_t stride, float* to) {
  for (std::int64_t row = 0; row < count; row += 2) {
    const float* first = rows + row * stride;
    float* pairs = to + row / 2 * stride;
    for (std::int64_t i = 0; i < stride; i += lane_count()) {
      const auto low = float_to_bf16(load(first + i));
      const auto high = float_to_bf16(load(first + stride + i));
      store(hn::BitCast(FloatTag(), hn::Or(low, hn::ShiftLeft<16>(high))), pairs + i);
    }
  }
}

// The lanes that hold rows, rounded up to whole vectors.
HWY_INLINE std::int64_t lanes_of(const QueryStrip& strip) {
  return round_up(strip.count, lane_count());
}

// Loads rows, [lanes][stride], times a factor; zeros past the strip's rows.
HWY_INLINE void load_strip_rows(const QueryStrip& strip, const HeadRows& from, std::int64_t width,
                                float factor, float* to, std::int64_t stride) {
  for (int lane = 0; lane < strip.count; ++lane) {
    load_row(from.dtype(), strip.row(from, lane), width, factor, to + lane * stride, stride);
  }
  fill(to + strip.count * stride, (lanes_of(strip) - strip.count) * stride, 0.0F);
}

// Stores lanes [width][kLanes] as rows, each times its factor, or adds them to rows of floats.
// `rows` is scratch, [kLanes][stride]. column_of(lane) says where a lane is.
template <int kLanes = kStripRows, typename ColumnOf = std::identity>
HWY_INLINE void store_strip_lanes(const float* lanes, const float* factor, const QueryStrip& strip,
                                  const HeadRows& to, std::int64_t width, float* rows,
                                  std::int64_t stride, bool adds = false, ColumnOf column_of = {}) {
  constexpr bool kInOrder = std::is_same_v<ColumnOf, std::identity>;
  transpose(lanes, kLanes, stride, kInOrder ? lanes_of(strip) : kLanes, rows, stride);
  for (std::int64_t lane = 0; lane < strip.count; ++lane) {
    const float* row = rows + column_of(lane) * stride;
    std::byte* const destination = strip.row(to, static_cast<int>(lane));
    if (adds) {
      add_row(row, width, factor[lane], destination);
    } else {
      store_row(row, width, factor[lane], to.dtype(), destination);
    }
  }
}

// Loads the rows of a block, [256][stride]; zeros for padding, whatever memory holds there.
HWY_INLINE void load_key_rows(const KeyBlock& block, const HeadRows& from, std::int64_t sample,
                              std::int64_t group, std::int64_t width, float* to,
                              std::int64_t stride) {
  const int rows = static_cast<int>(round_up(block.count, kKeyGroup));
  for (int i = 0; i < rows; ++i, to += stride) {
    if (block.document[static_cast<std::size_t>(i)] < 0) {
      fill(to, stride, 0.0F);
    } else {
      load_row(from.dtype(), from.at(block.first + i, sample, group), width, 1.0F, to, stride);
    }
  }
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
