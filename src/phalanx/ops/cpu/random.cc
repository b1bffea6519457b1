// Initialisation runs once: in double, one number at a time, as base/philox.h defines it.

#include <array>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/scalar.h"

namespace phalanx::cpu {
namespace {

// `count` elements of a row from global element `first` on.
template <typename T>
void normal_row(const ops::Normal& op, std::uint64_t first, std::int64_t count, T* to) {
  std::uint64_t element = first;
  const std::uint64_t end = first + static_cast<std::uint64_t>(count);
  while (element < end) {
    const std::array<double, 4> numbers = normal_block(op.key, op.parameter, element / 4);
    for (std::uint64_t i = element % 4; i < 4 && element < end; ++i, ++element) {
      *to++ = narrow<T>(op.deviation * numbers[i]);
    }
  }
}

template <typename T>
void fill_normal(const CpuDevice& device, const ops::Normal& op) {
  const auto x = rows_of<T>(op.x);
  // A row can be as long as the tensor (a bias, a flat range), so rows are cut into tasks too.
  const Blocks columns = element_blocks(op.x.shape[1]);
  const std::int64_t tasks = op.x.shape[0] * columns.count();
  parallel_for(device.threads, tasks, [&](std::int64_t task) {
    const std::int64_t r = task / columns.count();
    const std::int64_t begin = columns.begin(task % columns.count());
    const std::int64_t end = columns.end(task % columns.count());
    const auto first = static_cast<std::uint64_t>((op.first_row + r) * op.global_columns +
                                                  op.first_column + begin);
    normal_row(op, first, end - begin, x[r] + begin);
  });
}

}  // namespace

void execute(CpuDevice& device, const ops::Normal& op, const Tensor& /*scratch*/) {
  switch (op.x.dtype) {
    case DType::kF32:
      return fill_normal<float>(device, op);
    case DType::kBF16:
      return fill_normal<bfloat16>(device, op);
    case DType::kF16:
      return fill_normal<float16>(device, op);
    default:
      throw InternalError("normal: the CPU makes f32, bf16 and f16, not {}", name_of(op.x.dtype));
  }
}

}  // namespace phalanx::cpu
