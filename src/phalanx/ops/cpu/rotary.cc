// Rotary positions. All heads of a row of the batch share a row of the table.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/rotary.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <vector>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/kernel_type.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"
#include "phalanx/ops/fault.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// The rotation of one head: `pairs` cosines, then `pairs` sines. A negative sign rotates back.
struct HeadRotation {
  const float* cosines;
  std::int64_t pairs;
  float sign;
};

template <typename T>
HWY_INLINE void rotate_halves(const T* x, T* y, const HeadRotation& rotation) {
  const auto sign = hn::Set(FloatTag(), rotation.sign);
  const std::int64_t pairs = rotation.pairs;
  for_vectors(0, pairs, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto cosine = lanes.load(rotation.cosines + i);
    const auto sine = hn::Mul(sign, lanes.load(rotation.cosines + pairs + i));
    const auto first = lanes.load(x + i);
    const auto second = lanes.load(x + pairs + i);
    lanes.store(hn::NegMulAdd(second, sine, hn::Mul(first, cosine)), y + i);
    lanes.store(hn::MulAdd(first, sine, hn::Mul(second, cosine)), y + pairs + i);
  });
}

// Separates and rejoins the pairs of neighbours, a piece of the head at a time.
template <typename T>
HWY_INLINE void rotate_neighbours(const T* x, T* y, const HeadRotation& rotation) {
  constexpr std::int64_t kPiece = 64;
  HWY_ALIGN float values[2 * kPiece];
  for (std::int64_t begin = 0; begin < rotation.pairs; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, rotation.pairs - begin);
    const float* cosines = rotation.cosines + begin;
    const float* sines = cosines + rotation.pairs;
    convert(x + 2 * begin, values, 2 * count);
    for (std::int64_t i = 0; i < count; ++i) {
      const float first = values[2 * i];
      const float second = values[2 * i + 1];
      const float sine = rotation.sign * sines[i];
      values[2 * i] = first * cosines[i] - second * sine;
      values[2 * i + 1] = second * cosines[i] + first * sine;
    }
    convert(values, y + 2 * begin, 2 * count);
  }
}

// Where the heads of a row of the batch lie.
struct HeadGrid {
  explicit HeadGrid(const Tensor& tensor) {
    const int last = tensor.shape.rank() - 1;
    row = tensor.strides[0];
    sample = tensor.strides[1];
    inner = tensor.shape[last - 1];
    head = tensor.strides[last - 1];
    outer = last == 4 ? tensor.shape[2] : 1;
    group = last == 4 ? tensor.strides[2] : 0;
  }

  std::int64_t row, sample, group, head;
  std::int64_t outer, inner;
};

template <typename T>
void rotate_as(const CpuDevice& device, const ops::Rotate& op) {
  const HeadGrid from(op.x);
  const HeadGrid to(op.y);
  const T* x = op.x.as<T>();
  T* y = op.y.as<T>();
  const float* table = dense<float>(op.table);
  const std::int32_t* position = op.position.as<std::int32_t>();
  const std::int64_t batch = op.x.shape[1];
  const std::int64_t width = op.x.shape.back();
  const std::int64_t rotated = op.table.shape[1];
  const Blocks blocks = row_blocks(op.x.shape[0] * batch, from.outer * from.inner * width);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const std::int64_t s = r / batch;
      const std::int64_t b = r % batch;
      const std::int32_t p = position[s * op.position.strides[0] + b * op.position.strides[1]];
      const HeadRotation rotation{table + p * rotated, rotated / 2, op.inverse ? -1.0F : 1.0F};
      for (std::int64_t g = 0; g < from.outer; ++g) {
        for (std::int64_t h = 0; h < from.inner; ++h) {
          const T* source = x + s * from.row + b * from.sample + g * from.group + h * from.head;
          T* destination = y + s * to.row + b * to.sample + g * to.group + h * to.head;
          if (op.interleaved) {
            rotate_neighbours(source, destination, rotation);
          } else {
            rotate_halves(source, destination, rotation);
          }
          if (source != destination) {
            std::copy(source + rotated, source + width, destination + rotated);
          }
        }
      }
    }
  });
}

void rotate(const CpuDevice& device, const ops::Rotate& op) {
  with_storage(op.x.dtype, [&](auto type) { rotate_as<decltype(type)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(rotate);

// Runs once, in plain double, so the angles do not depend on the machine's vectors.
void execute(CpuDevice& device, const ops::RotaryTable& op, const Tensor& /*scratch*/) {
  const std::vector<double> theta = ops::rotary_frequencies(op.rotary, DType::kF32);
  const auto step = static_cast<float>(1.0 / op.rotary.interpolation);
  const auto factor = static_cast<float>(op.rotary.attention_factor);
  const std::int64_t pairs = op.rotary.dimensions / 2;
  float* table = dense<float>(op.table);
  const Blocks blocks = row_blocks(op.table.shape[0], op.rotary.dimensions);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t p = blocks.begin(block); p < blocks.end(block); ++p) {
      const float position = static_cast<float>(p) * step;
      float* row = table + p * 2 * pairs;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float angle = position * static_cast<float>(theta[static_cast<std::size_t>(i)]);
        row[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * factor;
        row[pairs + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * factor;
      }
    }
  });
}

void execute(CpuDevice& device, const ops::Rotate& op, const Tensor& /*scratch*/) {
  expect_kernel_type(op.x.dtype);
  const auto* position = op.position.as<std::int32_t>();
  for (std::int64_t s = 0; s < op.position.shape[0]; ++s) {
    for (std::int64_t b = 0; b < op.position.shape[1]; ++b) {
      const std::int32_t p = position[s * op.position.strides[0] + b * op.position.strides[1]];
      ops::expect_in_range<ops::Rotate>(s * op.position.shape[1] + b, p, op.table.shape[0]);
    }
  }
  HWY_DYNAMIC_DISPATCH(rotate)(device, op);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
