#pragma once
// A matrix product as the engine (ops/cpu/matrix_product.h) computes it on one thread, with parts
// of the work left out.

#include <cstddef>
#include <cstdint>

#include "phalanx/ops/cpu/matrix_product.h"

namespace phalanx::bench {

// With a part left out C is wrong, so the parts say what takes time and nothing else.
struct LeftOut {
  bool left_packing = false, right_packing = false;  // tiles read what the last walk has packed
  bool finishing = false;                            // C has bare sums
  bool c = false;         // sums and finished tiles go to a buffer that stays in first-level cache
  bool operands = false;  // every tile reads the same few KiB, which stay in first-level cache
};

// What a product has of the parts that can be left out: nothing packs an operand that tiles read as
// it lies, and nothing finishes plain sums.
struct ProductParts {
  bool left_packing = false, right_packing = false;
  bool finishing = false;
};
ProductParts parts_of(const cpu::CpuDevice& device, const cpu::MatrixProduct& product);

std::int64_t walk_workspace_bytes(const cpu::CpuDevice& device, const cpu::MatrixProduct& product);
// For products in fp32, whose sums are kept in C, without sums of rows; InternalError for others.
void walk(const cpu::CpuDevice& device, const cpu::MatrixProduct& product, const LeftOut& left_out,
          std::byte* workspace);

}  // namespace phalanx::bench
