#pragma once
// Fused attention of bf16 in the family `amx2`: 32 query rows of one key/value head are a strip,
// 128 keys a block. Masks, bias, dropout and the cut into tasks are those of the other families
// (attention_blocks.h, attention_cut.h); all products, softmax and its gradient are
// amx_attention_kernel.h's. Sums go block by block of keys and, in the backward, 128 queries by 128
// queries, so bits do not depend on threads.

#include <cstddef>
#include <cstdint>

#include "phalanx/ops/attention.h"
#include "phalanx/ops/cpu/amx_attention_kernel.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

inline constexpr std::int64_t kTileKeys = 128;  // of a block
// Rows of elements that fill whole steps of depth.
constexpr std::int64_t tile_width(std::int64_t width) { return (width + 31) / 32 * 32; }

// Whether the device's family computes this attention in tiles.
inline bool attends_in_tiles(const CpuDevice& device, const ops::AttentionInputs& in) {
  return device.products == ProductPrecision::kAmx && in.query.dtype == DType::kBF16;
}

std::int64_t amx_workspace_bytes(const CpuDevice& device, const ops::AttentionForward& op);
std::int64_t amx_workspace_bytes(const CpuDevice& device, const ops::AttentionBackward& op);
void amx_attention(const CpuDevice& device, const ops::AttentionForward& op,
                   const AttentionKernel& kernel, std::byte* workspace);
void amx_attention(const CpuDevice& device, const ops::AttentionBackward& op,
                   const AttentionKernel& kernel, std::byte* workspace);

}  // namespace phalanx::cpu
