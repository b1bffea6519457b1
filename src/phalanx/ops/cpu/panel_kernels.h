#pragma once
// The kernels that panel_kernel() chooses from; each has its own file.

#include "phalanx/ops/cpu/panel_kernel.h"

namespace phalanx::cpu {

const PanelKernel& panel_kernel_f32(Target target);  // Highway: AVX2, AVX-512
const PanelKernel& panel_kernel_bf16();              // AVX512_BF16: pairs of bf16, summed in fp32

}  // namespace phalanx::cpu
