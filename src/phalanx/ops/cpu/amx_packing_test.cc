#include "phalanx/ops/cpu/amx_packing.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_tiles.h"

namespace phalanx::cpu {
namespace {

struct alignas(64) Line {
  std::uint16_t elements[32];
};

struct Size {
  std::int64_t lines, depth;
};
// Whole tiles and steps, and around their borders; several panels and strips, and an odd number of
// them.
constexpr Size kSizes[] = {{32, 32}, {64, 96}, {96, 64}, {1, 1}, {33, 65}, {70, 31}, {107, 140}};

// Element (line, i) is line * 500 + i + 1, at a stride that is longer than needed.
class Operand {
 public:
  Operand(const Size& size, bool depth_inner)
      : size_(size),
        stride_((depth_inner ? size.depth : size.lines) + 5),
        depth_inner_(depth_inner),
        elements_(static_cast<std::size_t>(stride_ * (depth_inner ? size.lines : size.depth)),
                  0xffff) {
    for (std::int64_t line = 0; line < size.lines; ++line) {
      for (std::int64_t i = 0; i < size.depth; ++i) {
        const std::int64_t at = depth_inner ? line * stride_ + i : i * stride_ + line;
        elements_[static_cast<std::size_t>(at)] = element(line, i);
      }
    }
  }

  // Zero in the padding.
  std::uint16_t element(std::int64_t line, std::int64_t i) const {
    if (line >= size_.lines || i >= size_.depth) return 0;
    return static_cast<std::uint16_t>(line * 500 + i + 1);
  }

  std::vector<Line> packed(Target target, void (*pack)(Target, const TilePacking&)) const {
    const std::int64_t steps = ceil_div(size_.depth, kStepDepth);
    const std::int64_t tiles = ceil_div(size_.lines, kTileSide);
    std::vector<Line> memory(
        static_cast<std::size_t>(tiles * packed_panel_bytes(steps) / std::int64_t{sizeof(Line)}));
    for (Line& line : memory) std::fill(std::begin(line.elements), std::end(line.elements), 0xeeee);
    pack(target, {.from = {reinterpret_cast<const std::byte*>(elements_.data()), DType::kBF16,
                           stride_, depth_inner_},
                  .lines = size_.lines,
                  .depth = size_.depth,
                  .steps = steps,
                  .to = reinterpret_cast<std::byte*>(memory.data())});
    return memory;
  }

 private:
  Size size_;
  std::int64_t stride_;
  bool depth_inner_;
  std::vector<std::uint16_t> elements_;
};

// Of every processor's instructions that this one has: vectors, and plain C++.
TEST(AmxPacking, OfPanelsIsPairsOfDepthByColumns) {
  for (const Target target : targets_here()) {
    for (const Size& size : kSizes) {
      for (const bool depth_inner : {false, true}) {
        const Operand operand(size, depth_inner);
        const std::vector<Line> packed = operand.packed(target, pack_tile_panels);
        const std::int64_t steps = ceil_div(size.depth, kStepDepth);
        std::int64_t wrong = 0;
        for (std::int64_t row = 0; row < std::int64_t{std::ssize(packed)}; ++row) {
          // [panel][half][step][16 pairs][16 columns][2]
          const std::int64_t half = row / 16 / steps;
          const std::int64_t depth = row / 16 % steps * kStepDepth + row % 16 * 2;
          for (std::int64_t i = 0; i < 32; ++i) {
            const auto expected = operand.element(half * 16 + i / 2, depth + i % 2);
            wrong += packed[static_cast<std::size_t>(row)].elements[i] != expected ? 1 : 0;
          }
        }
        EXPECT_EQ(wrong, 0) << fmt::format("{} {}x{} inner {}", name_of(target), size.lines,
                                           size.depth, depth_inner);
      }
    }
  }
}

TEST(AmxPacking, OfStripsIsRowsOfSteps) {
  for (const Target target : targets_here()) {
    for (const Size& size : kSizes) {
      const Operand operand(size, false);
      const std::vector<Line> packed = operand.packed(target, pack_tile_strips);
      const std::int64_t steps = ceil_div(size.depth, kStepDepth);
      std::int64_t wrong = 0;
      for (std::int64_t row = 0; row < std::int64_t{std::ssize(packed)}; ++row) {
        // [strip][step][half][16 rows][32]
        const std::int64_t line = row / 32 / steps * kTileSide + row % 32;
        const std::int64_t depth = row / 32 % steps * kStepDepth;
        for (std::int64_t i = 0; i < 32; ++i) {
          const auto expected = operand.element(line, depth + i);
          wrong += packed[static_cast<std::size_t>(row)].elements[i] != expected ? 1 : 0;
        }
      }
      EXPECT_EQ(wrong, 0) << fmt::format("{} {}x{}", name_of(target), size.lines, size.depth);
    }
  }
}

}  // namespace
}  // namespace phalanx::cpu
