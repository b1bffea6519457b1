#pragma once
// The CPU's implementation of every op, one source file per family with the family's name. Scratch
// has at least workspace_bytes_of bytes; ops without an overload need none.

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

template <typename Op>
std::int64_t workspace_bytes_of(const CpuDevice& /*device*/, const Op& /*op*/) {
  return 0;
}
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearInputGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::LinearWeightGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::BiasGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::GroupedLinearForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::GroupedLinearInputGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device,
                                const ops::GroupedLinearWeightGradient& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::SortPairs& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::NormBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::AttentionBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::UnfusedAttentionBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::RelativeBiasForward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::RelativeBiasBackward& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::CrossEntropy& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::RouterCapacity& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::SinkhornChoice& op);
std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::BalanceStatistics& op);

#define PHALANX_EXECUTE(Op) \
  void execute(CpuDevice& device, const ops::Op& op, const Tensor& scratch);
PHALANX_OPS(PHALANX_EXECUTE)
#undef PHALANX_EXECUTE

// execute() of an op that needs no scratch, by the kernel for this processor. In HWY_ONCE.
#define PHALANX_KERNEL(Op, kernel)                                                \
  HWY_EXPORT(kernel);                                                             \
  void execute(CpuDevice& device, const ops::Op& op, const Tensor& /*scratch*/) { \
    HWY_DYNAMIC_DISPATCH(kernel)(device, op);                                     \
  }

}  // namespace phalanx::cpu
