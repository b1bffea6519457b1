// Initialisation runs once: in double, one number at a time, as base/philox.h defines it.

#include <array>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/scalar.h"

namespace phalanx::cpu {
namespace {

std::array<double, 4> block_of(const ops::Normal& op, std::uint64_t block) {
  std::array<double, 4> numbers = normal_block(op.key, op.parameter, block);
  for (double& number : numbers) number *= op.deviation;
  return numbers;
}
std::array<double, 4> block_of(const ops::Uniform& op, std::uint64_t block) {
  std::array<double, 4> numbers = uniform_block(op.key, op.parameter, block);
  for (double& number : numbers) number *= op.bound;
  return numbers;
}

// `count` elements of a row from global element `first` on.
template <typename T, typename Op>
void draw_row(const Op& op, std::uint64_t first, std::int64_t count, T* to) {
  std::uint64_t element = first;
  const std::uint64_t end = first + static_cast<std::uint64_t>(count);
  while (element < end) {
    const std::array<double, 4> numbers = block_of(op, element / 4);
    for (std::uint64_t i = element % 4; i < 4 && element < end; ++i, ++element) {
      *to++ = narrow<T>(numbers[i]);
    }
  }
}

template <typename T, typename Op>
void draw(const CpuDevice& device, const Op& op) {
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
    draw_row(op, first, end - begin, x[r] + begin);
  });
}

template <typename Op>
void draw_any(const char* name, const CpuDevice& device, const Op& op) {
  switch (op.x.dtype) {
    case DType::kF32:
      return draw<float>(device, op);
    case DType::kBF16:
      return draw<bfloat16>(device, op);
    case DType::kF16:
      return draw<float16>(device, op);
    default:
      throw InternalError("{}: the CPU makes f32, bf16 and f16, not {}", name, name_of(op.x.dtype));
  }
}

}  // namespace

void execute(CpuDevice& device, const ops::Normal& op, const Tensor& /*scratch*/) {
  draw_any("normal", device, op);
}

void execute(CpuDevice& device, const ops::Uniform& op, const Tensor& /*scratch*/) {
  draw_any("uniform", device, op);
}

}  // namespace phalanx::cpu
