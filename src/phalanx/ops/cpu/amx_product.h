#pragma once
// Matrix products of family `amx2`: bf16 by bf16 on tiles. It follows a plan (amx_plan.h), packs
// operands (amx_packing.h), runs tiles (amx_tiles.h), and finished tiles pass the product's
// epilogue.

#include "phalanx/ops/cpu/amx_tiles.h"
#include "phalanx/ops/cpu/matrix_product.h"

namespace phalanx::cpu {

// The product has elements and depth.
std::int64_t amx_workspace_bytes(const CpuDevice& device, const MatrixProduct& product);
std::int64_t most_amx_workspace_bytes(const CpuDevice& device, const MatrixProduct& most);
void multiply_amx(const CpuDevice& device, const MatrixProduct& product, const TileKernel& kernel,
                  std::byte* workspace);

// Blocks of depth in which this family sums the rows of A: every block of a product has whole ones.
inline constexpr std::int64_t kAmxRowSumsBlock = 512;

}  // namespace phalanx::cpu
