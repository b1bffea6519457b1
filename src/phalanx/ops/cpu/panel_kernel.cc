#include "phalanx/ops/cpu/panel_kernel.h"

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/panel_kernels.h"

namespace phalanx::cpu {

const PanelKernel& panel_kernel(ProductPrecision family, Target target) {
  switch (family) {
    case ProductPrecision::kFp32:
      return panel_kernel_f32(target);
    case ProductPrecision::kBf16:
      return panel_kernel_bf16();
    case ProductPrecision::kAmx:
      break;
  }
  PHALANX_CHECK(false, "products of family amx2 have no panels");
  return panel_kernel_f32(target);
}

}  // namespace phalanx::cpu
