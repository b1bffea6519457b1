// Sums over a flat buffer do not depend on how it is cut.

#include "phalanx/ops/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
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
      const std::int64_t lead = begin % kSumBlock;
      const Tensor part = operands_.output(DType::kF64, {sum_blocks(lead, end - begin)});
      square_sum(context_, {.sums = part, .x = buffer.slice(0, begin, end - begin), .lead = lead});
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

}  // namespace
}  // namespace phalanx::ops
