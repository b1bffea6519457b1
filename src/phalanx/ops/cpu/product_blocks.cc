#include "phalanx/ops/cpu/product_blocks.h"

#include <algorithm>

#include "phalanx/base/numeric.h"

namespace phalanx::cpu {
namespace {

// A longer k is cut, so that a panel of B (6 MiB at most) stays in the outer caches.
constexpr std::int64_t kWholeK = 4096;
constexpr std::int64_t kChunkK = 3072;
// Elements of A staged at once: 32 MiB of fp32.
constexpr std::int64_t kStagedElements = std::int64_t{1} << 23;
// Sums kept beside C: 128 MiB.
constexpr std::int64_t kApartElements = std::int64_t{1} << 25;
// What making a panel ready costs, in rows of A multiplied by it.
constexpr double kPanelRows = 32.0;

struct PanelWidth {
  std::int64_t columns;
  double slowdown;  // of the products, against the widest
};
constexpr PanelWidth kPanelWidths[] = {{384, 1.0}, {256, 1.01}, {192, 1.015}, {128, 1.04}};

}  // namespace

std::int64_t chunk_of(std::int64_t k) {
  return k <= kWholeK ? k : round_up(ceil_div(k, ceil_div(k, kChunkK)), 64);
}

ProductBlocks choose_blocks(std::int64_t m, std::int64_t n, std::int64_t k, int threads,
                            bool staged_a, bool staged_c, bool sums_apart) {
  ProductBlocks blocks;
  blocks.k_chunk = chunk_of(k);
  const auto limit_rows = [&](std::int64_t rows) {
    return std::min(blocks.m_block, std::max<std::int64_t>(256, rows / 256 * 256));
  };
  blocks.m_block = m;
  if (staged_a) blocks.m_block = limit_rows(kStagedElements / blocks.k_chunk);
  if (sums_apart) blocks.m_block = limit_rows(kApartElements / n);

  // The cut with the least work for the busiest thread.
  double least = 0.0;
  for (const PanelWidth& width : kPanelWidths) {
    const std::int64_t n_panel = std::min(n, width.columns);
    for (std::int64_t parts = 1; parts <= 16; ++parts) {
      const std::int64_t m_part = round_up(ceil_div(blocks.m_block, parts), 32);
      if (parts > 1 && m_part < 64) break;
      const std::int64_t tasks = ceil_div(n, n_panel) * ceil_div(blocks.m_block, m_part);
      const double work = static_cast<double>(ceil_div(tasks, threads) * n_panel) *
                          (static_cast<double>(m_part) + kPanelRows) * width.slowdown;
      if (blocks.n_panel == 0 || work < least) {
        least = work;
        blocks.n_panel = n_panel;
        blocks.m_part = std::min(m_part, blocks.m_block);
      }
    }
  }
  blocks.m_tile = std::min<std::int64_t>(blocks.m_part, staged_c ? 256 : 1024);
  return blocks;
}

}  // namespace phalanx::cpu
