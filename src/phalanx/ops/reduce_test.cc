// Sums over a flat buffer do not depend on how it is cut.

#include "phalanx/ops/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "phalanx/base/philox.h"
#include "phalanx/ops/cases/operands.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::ops {
namespace {

// A parameter of a buffer: elements [begin, end).
struct Range {
  std::int64_t begin, end;
};

class BlockSums : public testing::Test {
 protected:
  // The block sums of a range of the buffer, cut at some elements within.
  std::vector<double> sums_of(const Tensor& buffer, const Range& range,
                              const std::vector<std::int64_t>& cuts) {
    std::vector<double> sums;
    std::int64_t begin = range.begin;
    const auto add_until = [&](std::int64_t end) {
      std::vector<Segment> rows = {{.begin = begin, .count = end - begin}};
      const SegmentTable table{rows, allocate_segments(arena_, 1)};
      const Tensor part = operands_.output(DType::kF64, {blocks_of(rows[0])});
      square_sum_segments(context_, {.sums = part, .x = buffer, .table = table});
      sums.insert(sums.end(), part.span<double>().begin(), part.span<double>().end());
      begin = end;
    };
    for (const std::int64_t cut : cuts) {
      if (cut > range.begin && cut < range.end) add_until(cut);
    }
    add_until(range.end);
    return sums;
  }

  std::uint64_t random(std::uint64_t below) {
    return philox4x32({7, 9}, {draws_++, 0, 0, 0})[0] % below;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2, cpu::ProductPrecision::kFp32);
  Arena arena_{"operands", 64 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  Operands operands_{arena_, DType::kF32, context_};

 private:
  std::uint32_t draws_ = 0;
};

TEST_F(BlockSums, AreTheSameHoweverTheBufferIsCut) {
  constexpr std::int64_t kBlocks = 40;
  constexpr std::int64_t kElements = kBlocks * kSumBlock;
  const Tensor buffer = operands_.uniform({kElements});
  for (int trial = 0; trial < 50; ++trial) {
    // Parameters begin anywhere; shards begin at blocks.
    std::vector<std::int64_t> borders = {0, kElements};
    for (int i = 0; i < 6; ++i) borders.push_back(static_cast<std::int64_t>(random(kElements)));
    std::sort(borders.begin(), borders.end());
    std::vector<std::int64_t> cuts;
    for (std::int64_t block = 1; block < kBlocks; ++block) {
      if (random(4) == 0) cuts.push_back(block * kSumBlock);
    }
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      const Range parameter{borders[i], borders[i + 1]};
      if (parameter.begin == parameter.end) continue;
      EXPECT_EQ(sums_of(buffer, parameter, cuts), sums_of(buffer, parameter, {}));
    }
  }
}

// A table says what the host's memory cannot show: a row beyond the operands, blocks that are not
// numbered, a result that is not there.
TEST_F(BlockSums, RefuseATableThatDoesNotFit) {
  const Tensor x = operands_.uniform({100});
  const Tensor sums = operands_.output(DType::kF64, {2});
  const Tensor device = allocate_segments(arena_, 1);
  const auto refuses = [&](const Segment& row) {
    const std::array rows = {row};
    const SquareSumSegments op{.sums = sums, .x = x, .table = {rows, device}, .first = 4096};
    EXPECT_THROW(square_sum_segments(context_, op), InternalError);
  };
  refuses({.begin = 4095, .count = 10});
  refuses({.begin = 4190, .count = 7});
  refuses({.begin = 4096, .count = 0});
  refuses({.begin = 4096, .count = 10, .group = 2});
  const std::array fits = {Segment{.begin = 4190, .count = 6, .group = 1}};
  square_sum_segments(context_, {.sums = sums, .x = x, .table = {fits, device}, .first = 4096});
  const std::array twice = {Segment{.begin = 4096, .count = 10},
                            Segment{.begin = 4106, .count = 5}};
  EXPECT_THROW(
      square_sum_segments(
          context_,
          {.sums = sums, .x = x, .table = {twice, allocate_segments(arena_, 2)}, .first = 4096}),
      InternalError);
}

}  // namespace
}  // namespace phalanx::ops
