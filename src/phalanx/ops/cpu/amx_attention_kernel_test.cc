// The program of AMX's and AVX-512's instructions on processors without tiles: the tile registers
// are emulated, everything else of the program is what runs. So products that are computed between
// the vectors of a softmax or of gradients meet the memory that those read and write.

#include "phalanx/ops/cpu/amx_attention_kernel.h"

#include <gtest/gtest.h>

#include "phalanx/ops/cases/compare.h"
#include "phalanx/ops/cpu/amx_attention.h"
#include "phalanx/ops/cpu/amx_twin.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/host_backend.h"

#if defined(__x86_64__)
#include "phalanx/ops/cpu/emulated_tiles.h"

// NOLINTNEXTLINE(readability-identifier-naming): a function, under another name
#define attention_kernel attention_kernel_of_emulated_tiles
// NOLINTNEXTLINE(bugprone-suspicious-include): the program itself, with other instructions
#include "phalanx/ops/cpu/amx_attention_kernel.cc"
#undef attention_kernel

namespace phalanx::cpu {
namespace {

// The CPU with attention by emulated tiles.
struct EmulatedDevice {
  CpuDevice device;
  AttentionKernel kernel = on_emulated_tiles(attention_kernel_of_emulated_tiles(Target::kAmx));
};

template <typename Op>
std::int64_t workspace_bytes_of(const EmulatedDevice& emulated, const Op& op) {
  return workspace_bytes_of(emulated.device, op);
}

template <typename Op>
void execute(EmulatedDevice& emulated, const Op& op, const Tensor& scratch) {
  const FlushToZero mode;
  if constexpr (std::is_same_v<Op, ops::AttentionForward> ||
                std::is_same_v<Op, ops::AttentionBackward>) {
    amx_attention(emulated.device, op, emulated.kernel, scratch.data());
  } else {
    execute(emulated.device, op, scratch);
  }
}

TEST(AmxAttentionKernel, OfEmulatedTilesHasTheBitsOfTheTwin) {
  if (active_target() < Target::kAvx512Bf16) GTEST_SKIP() << "no AVX-512 with bf16";
  ops::HostBackend<EmulatedDevice> emulated({make_device(2, ProductPrecision::kAmx)});
  const ForcedTarget without_tiles(Target::kAvx512);
  const auto twin = make_cpu_backend(2, ProductPrecision::kAmx);
  for (const ops::Case& row : ops::make_case_table().tests) {
    if (row.op != "attention_forward" && row.op != "attention_backward") continue;
    EXPECT_EQ(ops::compare_bits(row, DType::kBF16, {emulated}, {*twin}), "");
  }
}

}  // namespace
}  // namespace phalanx::cpu

#endif
