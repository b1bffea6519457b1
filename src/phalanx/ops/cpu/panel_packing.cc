// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/panel_packing.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/panel_packing.h"

#include <algorithm>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/storage-inl.h"
#include "phalanx/ops/cpu/transpose-inl.h"

#ifndef PHALANX_OPS_CPU_PANEL_PACKING_ONCE
#define PHALANX_OPS_CPU_PANEL_PACKING_ONCE
namespace phalanx::cpu {
inline int group_of(DType operand) { return operand == DType::kF32 ? 1 : 2; }
// Lines and groups that are transposed at a time through a buffer in the first-level cache.
inline constexpr std::int64_t kTransposedLines = 64;
inline constexpr std::int64_t kTransposedGroups = 64;
// Panels that are written at a time.
inline constexpr std::int64_t kPanelsAtOnce = 8;
}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Packs one line that is contiguous in depth: to[group] for all groups.
HWY_INLINE void pack_line(const Packing& p, std::int64_t line, float* to) {
  std::int64_t groups = 0;
  if (p.operand == DType::kF32) {
    with_storage(p.from.dtype, [&](auto type) HWY_ATTR {
      convert(reinterpret_cast<const decltype(type)*>(p.from.at(line, 0)), to, p.depth);
    });
    groups = p.depth;
  } else {
    // Pairs are adjacent already; an odd last element is paired with zero.
    const std::int64_t bytes = p.depth * size_of(p.operand);
    groups = ceil_div(p.depth, 2);
    if (p.depth % 2 != 0) to[groups - 1] = 0.0F;
    std::memcpy(to, p.from.at(line, 0), static_cast<std::size_t>(bytes));
  }
  std::fill(to + groups, to + p.groups, 0.0F);
}

// One group of depth of lines that are contiguous in memory.
template <typename T>
struct WidenedDepth {
  const T* data;
  std::int64_t stride;

  HWY_INLINE FloatVector whole(std::int64_t group, std::int64_t first) const {
    return load(data + group * stride + first);
  }

  // Writes to[line] for one depth.
  HWY_INLINE void pack(std::int64_t group, std::int64_t first, std::int64_t lines,
                       float* to) const {
    const T* from = data + group * stride + first;
    for_vectors(0, lines, [=](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(lanes.load(from + i), to + i);
    });
  }
};
struct PairedDepth {
  const bfloat16* data;
  std::int64_t stride;
  std::int64_t depth;

  // Must not be called for an odd last depth.
  HWY_INLINE FloatVector whole(std::int64_t group, std::int64_t first) const {
    const bfloat16* even = data + 2 * group * stride + first;
    return hn::BitCast(FloatTag(),
                       hn::Or(load_bits(even), hn::ShiftLeft<16>(load_bits(even + stride))));
  }

  // Packs two depths; an odd last depth is paired with zeros.
  HWY_INLINE void pack(std::int64_t group, std::int64_t first, std::int64_t lines,
                       float* to) const {
    const bfloat16* even = data + 2 * group * stride + first;
    const bfloat16* odd = even + stride;
    // A bf16 is the upper half of a float.
    if (2 * group + 1 < depth) {
      for_vectors(0, lines, [=](std::int64_t i, auto lanes) HWY_ATTR {
        const auto low = hn::ShiftRight<16>(hn::BitCast(BitsTag(), lanes.load(even + i)));
        const auto high = hn::BitCast(BitsTag(), lanes.load(odd + i));
        lanes.store(hn::BitCast(FloatTag(), hn::Or(low, high)), to + i);
      });
    } else {
      for_vectors(0, lines, [=](std::int64_t i, auto lanes) HWY_ATTR {
        const auto low = hn::ShiftRight<16>(hn::BitCast(BitsTag(), lanes.load(even + i)));
        lanes.store(hn::BitCast(FloatTag(), low), to + i);
      });
    }
  }
};

// Packs lines that are contiguous in depth into one panel: from where they lie if they can be
// transposed as they are, and the rest through a buffer.
void transpose_lines(const Packing& p, std::int64_t width, float* to) {
  HWY_ALIGN float buffer[kTransposedLines * kTransposedGroups];
  const int group = group_of(p.operand);
  std::int64_t in_place = 0;
  if (p.from.dtype == p.operand && p.from.stride % group == 0 && p.lines == width) {
    // Lines are read to their ends: memory is twice as fast then as in short pieces.
    in_place = p.depth / group / kTransposed * kTransposed;
    transpose(reinterpret_cast<const float*>(p.from.data), p.from.stride / group, width, in_place,
              to, width);
  }
  for (std::int64_t begin = in_place; begin < p.groups; begin += kTransposedGroups) {
    const std::int64_t groups = std::min(kTransposedGroups, p.groups - begin);
    const std::int64_t columns = round_up(groups, kTransposed);
    Packing piece = p;
    piece.groups = columns;
    piece.depth = std::clamp<std::int64_t>(p.depth - begin * group, 0, groups * group);
    if (piece.depth > 0) piece.from = p.from.from(0, begin * group);
    for (std::int64_t line = 0; line < p.lines; ++line) {
      if (piece.depth > 0) {
        pack_line(piece, line, buffer + line * kTransposedGroups);
      } else {
        std::fill_n(buffer + line * kTransposedGroups, columns, 0.0F);
      }
    }
    for (std::int64_t line = p.lines; line < width; ++line) {
      std::fill_n(buffer + line * kTransposedGroups, columns, 0.0F);
    }
    if (columns == groups) {
      transpose(buffer, kTransposedGroups, width, groups, to + begin * width, width);
    } else {  // no room for whole fours
      for (std::int64_t i = 0; i < groups; ++i) {
        for (std::int64_t line = 0; line < width; ++line) {
          to[(begin + i) * width + line] = buffer[line * kTransposedGroups + i];
        }
      }
    }
  }
}

// Prefetches a depth of lines into the first-level cache, or the second.
template <int kLocality>
HWY_INLINE void prefetch_depth(const Packing& p, int group, std::int64_t ahead) {
  const std::int64_t row_bytes = p.lines * size_of(p.from.dtype);
  if (ahead >= p.depth) return;
  for (std::int64_t at = 0; at < row_bytes; at += 64) {
    for (int k = 0; k < group; ++k) __builtin_prefetch(p.from.at(0, ahead + k) + at, 0, kLocality);
  }
}

// How many depths ahead to prefetch.
inline constexpr std::int64_t kAhead = 16;
inline constexpr std::int64_t kWideBytes = 256;

#if HWY_TARGET != HWY_SCALAR
// Packs panels of half a vector, two at a time.
template <typename Depth>
HWY_INLINE void copy_half_vectors(const Packing& p, const Depth& depth, std::int64_t groups,
                                  float* to) {
  const hn::Half<FloatTag> half;
  const int group = group_of(p.operand);
  const std::int64_t width = lane_count() / 2;
  const std::int64_t panel = p.groups * width;
  for (std::int64_t g = 0; g < groups; ++g) {
    prefetch_depth<2>(p, group, (g + 2 * kAhead) * group);
    float* row = to + g * width;
    for (std::int64_t line = 0; line < p.lines; line += 2 * width, row += 2 * panel) {
      const auto value = depth.whole(g, line);
      hn::StoreU(hn::LowerHalf(half, value), half, row);
      hn::StoreU(hn::UpperHalf(half, value), half, row + panel);
    }
  }
}
#endif

// Packs lines that are adjacent in memory into up to kPanelsAtOnce panels.
template <typename Depth>
HWY_INLINE void copy_depths(const Packing& p, const Depth& depth, std::int64_t width, float* to) {
  const int group = group_of(p.operand);
  const std::int64_t panels = ceil_div(p.lines, width);
  const std::int64_t groups = ceil_div(p.depth, group);
  // Long rows would fill the first-level cache.
  const bool is_wide = p.lines * size_of(p.from.dtype) > kWideBytes;
  std::int64_t g = 0;
#if HWY_TARGET != HWY_SCALAR
  if (2 * width == lane_count() && p.lines % lane_count() == 0) {
    g = p.depth / group;
    copy_half_vectors(p, depth, g, to);
  }
#endif
  for (; g < groups; ++g) {
    if (is_wide) {
      prefetch_depth<2>(p, group, (g + kAhead) * group);
    } else {
      prefetch_depth<3>(p, group, (g + kAhead) * group);
    }
    float* row = to + g * width;
    std::int64_t panel = 0;
    if (width < lane_count() && g + 1 < groups) {
      // Beyond the panel's end is its next depth, which is written later.
      for (; panel * width + lane_count() <= p.lines; ++panel) {
        store(depth.whole(g, panel * width), row);
        row += p.groups * width;
      }
    }
    for (; panel < panels; ++panel, row += p.groups * width) {
      const std::int64_t lines = std::min(width, p.lines - panel * width);
      depth.pack(g, panel * width, lines, row);
      if (lines < width) std::fill(row + lines, row + width, 0.0F);
    }
  }
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    std::fill(to + (panel * p.groups + groups) * width, to + (panel + 1) * p.groups * width, 0.0F);
  }
}

void copy_lines(const Packing& p, std::int64_t width, float* to) {
  if (p.operand == DType::kBF16) {
    const auto* data = reinterpret_cast<const bfloat16*>(p.from.data);
    return copy_depths(p, PairedDepth{data, p.from.stride, p.depth}, width, to);
  }
  with_storage(p.from.dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const auto* data = reinterpret_cast<const T*>(p.from.data);
    copy_depths(p, WidenedDepth<T>{data, p.from.stride}, width, to);
  });
}

// Up to `most` lines of a packing, from `first` on.
Packing lines_from(const Packing& p, std::int64_t first, std::int64_t most) {
  Packing piece = p;
  piece.from = p.from.from(first, 0);
  piece.lines = std::min(most, p.lines - first);
  piece.to = p.to + first * p.groups * kGroupBytes;
  return piece;
}

void pack_all_panels(const Packing& p, std::int64_t width) {
  const std::int64_t step = p.from.depth_inner ? width : kPanelsAtOnce * width;
  for (std::int64_t first = 0; first < p.lines; first += step) {
    const Packing piece = lines_from(p, first, step);
    auto* to = reinterpret_cast<float*>(piece.to);
    if (p.from.depth_inner) {
      transpose_lines(piece, width, to);
    } else {
      copy_lines(piece, width, to);
    }
  }
}

// A line's block of depth is so short that hardware prefetching has hardly begun at its end.
inline constexpr std::int64_t kLinesAhead = 4;
HWY_INLINE void prefetch_line(const Packing& p, std::int64_t line) {
  if (line >= p.lines) return;
  const std::byte* from = p.from.at(line, 0);
  for (std::int64_t at = 0; at < p.depth * size_of(p.from.dtype); at += 64) {
    __builtin_prefetch(from + at, 0, 3);
  }
}

void pack_all_lines(const Packing& p, std::int64_t padded_lines) {
  auto* to = reinterpret_cast<float*>(p.to);
  if (p.from.depth_inner) {
    for (std::int64_t line = 0; line < p.lines; ++line) {
      prefetch_line(p, line + kLinesAhead);
      pack_line(p, line, to + line * p.groups);
    }
  } else {
    HWY_ALIGN float buffer[kTransposedGroups * kMaxLanes];
    const int group = group_of(p.operand);
    const std::int64_t lanes = lane_count();
    for (std::int64_t first = 0; first < p.lines; first += lanes) {
      for (std::int64_t begin = 0; begin < p.groups; begin += kTransposedGroups) {
        Packing piece = lines_from(p, first, lanes);
        piece.groups = std::min(kTransposedGroups, p.groups - begin);
        piece.depth = std::clamp<std::int64_t>(p.depth - begin * group, 0, piece.groups * group);
        if (piece.depth > 0) piece.from = piece.from.from(0, begin * group);
        copy_lines(piece, lanes, buffer);
        float* rows = to + first * p.groups + begin;
        if (piece.lines == lanes && piece.groups % lanes == 0) {
          transpose(buffer, lanes, piece.groups, lanes, rows, p.groups);
          continue;
        }
        for (std::int64_t line = 0; line < piece.lines; ++line) {
          for (std::int64_t i = 0; i < piece.groups; ++i) {
            rows[line * p.groups + i] = buffer[i * lanes + line];
          }
        }
      }
    }
  }
  std::fill(to + p.lines * p.groups, to + padded_lines * p.groups, 0.0F);
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(pack_all_lines);
HWY_EXPORT(pack_all_panels);

void pack_lines(const Packing& packing, std::int64_t padded_lines) {
  HWY_DYNAMIC_DISPATCH(pack_all_lines)(packing, padded_lines);
}
void pack_panels(const Packing& packing, std::int64_t width) {
  HWY_DYNAMIC_DISPATCH(pack_all_panels)(packing, width);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
