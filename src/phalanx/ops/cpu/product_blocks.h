#pragma once
// How a matrix product is cut into tasks: a function of the shape and the number of threads alone.

#include <cstdint>

namespace phalanx::cpu {

// C[m, n] = A[m, k] B[k, n]. One task makes a panel of B (n_panel columns) ready in its own cache
// and multiplies m_part rows of A by it, m_tile at a time.
struct ProductBlocks {
  std::int64_t m_block = 0;  // rows of A that are staged at once; all when A is read where it lies
  std::int64_t m_part = 0;
  std::int64_t m_tile = 0;
  std::int64_t n_panel = 0;
  std::int64_t k_chunk = 0;
};

// The length of the pieces in which k is summed: k itself unless it is long.
std::int64_t chunk_of(std::int64_t k);

// sums_apart: sums over pieces of k are kept beside C. staged_a: A is copied to workspace first.
// staged_c: tiles pass through a buffer on their way to C.
ProductBlocks choose_blocks(std::int64_t m, std::int64_t n, std::int64_t k, int threads,
                            bool staged_a, bool staged_c, bool sums_apart);

}  // namespace phalanx::cpu
