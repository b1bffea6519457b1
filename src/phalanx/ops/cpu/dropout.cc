// Dropout at the end of a sub-layer, a chunk of a row at a time: first what the elements are
// multiplied by, then the sum.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/pairs-inl.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Rows of residual + dropout(x + bias), of bf16 in pairs where nothing is dropped.
template <typename T, typename Stream>
struct ResidualSum {
  std::int64_t columns;
  Rows<T> x;
  Rows<Stream> residual, out;
  const T* bias;
  HiddenDropout dropout;

  explicit ResidualSum(const ops::BiasDropoutResidual& op)
      : columns(op.x.shape[2]),
        x(rows_of<T>(op.x)),
        residual(rows_of<Stream>(op.residual)),
        out(rows_of<Stream>(op.out)),
        bias(dense<T>(op.bias)),
        dropout(op.dropout, op.rows) {}

  // Row r of out.
  HWY_INLINE void write(std::int64_t r) const {
    if (!dropout.keeps_all()) return write_dropped(r);
    if (bias == nullptr) {
      const auto sum = [](FloatVector more, FloatVector value)
                           HWY_ATTR { return hn::Add(more, value); };
      map(0, columns, sum, out[r], residual[r], x[r]);
    } else {
      const auto sum = [](FloatVector more, FloatVector value, FloatVector shift)
                           HWY_ATTR { return hn::Add(more, round_to<T>(hn::Add(value, shift))); };
      map(0, columns, sum, out[r], residual[r], x[r], bias);
    }
  }

 private:
  HWY_INLINE void write_dropped(std::int64_t r) const {
    dropout.for_row(r, columns, [&](std::int64_t i, auto lanes, auto drop) HWY_ATTR {
      auto value = lanes.load(x[r] + i);
      if (bias != nullptr) value = round_to<T>(hn::Add(value, lanes.load(bias + i)));
      value = round_to<T>(drop(value));
      lanes.store(hn::Add(lanes.load(residual[r] + i), value), out[r] + i);
    });
  }
};

template <typename T, typename Stream>
void add_dropped(const CpuDevice& device, const ops::BiasDropoutResidual& op) {
  const ResidualSum<T, Stream> sum(op);
  const Blocks blocks = row_blocks(op.x.shape[0] * op.x.shape[1], sum.columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) sum.write(r);
  });
}

template <typename T, typename Stream>
void backward(const CpuDevice& device, const ops::DropoutBackward& op) {
  const std::int64_t columns = op.dout.shape[2];
  const auto dout = rows_of<Stream>(op.dout);
  const auto dx = rows_of<T>(op.dx);
  const HiddenDropout dropout(op.dropout, op.rows);
  const Blocks blocks = row_blocks(op.dout.shape[0] * op.dout.shape[1], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    if constexpr (std::is_same_v<T, Stream>) {
      if (op.dropout.probability <= 0.0) {
        const std::int64_t count = (blocks.end(block) - blocks.begin(block)) * columns;
        std::memmove(dx[blocks.begin(block)], dout[blocks.begin(block)],
                     static_cast<std::size_t>(count) * sizeof(T));
        return;
      }
    }
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      dropout.for_row(r, columns, [&](std::int64_t i, auto lanes, auto drop) HWY_ATTR {
        lanes.store(drop(lanes.load(dout[r] + i)), dx[r] + i);
      });
    }
  });
}

void bias_dropout_residual(const CpuDevice& device, const ops::BiasDropoutResidual& op) {
  with_stream(op.x.dtype, op.out.dtype, [&](auto type, auto stream) HWY_ATTR {
    add_dropped<decltype(type), decltype(stream)>(device, op);
  });
}
void dropout_backward(const CpuDevice& device, const ops::DropoutBackward& op) {
  with_stream(op.dx.dtype, op.dout.dtype, [&](auto type, auto stream) HWY_ATTR {
    backward<decltype(type), decltype(stream)>(device, op);
  });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

PHALANX_KERNEL(BiasDropoutResidual, bias_dropout_residual)
PHALANX_KERNEL(DropoutBackward, dropout_backward)

void execute(CpuDevice& device, const ops::Jitter& op, const Tensor& /*scratch*/) {
  const std::int64_t columns = op.x.shape[2];
  const auto* x = dense<float>(op.x);
  auto* y = dense<float>(op.y);
  const auto* samples = dense<std::int64_t>(op.rows.sample);
  const auto* positions = dense<std::int32_t>(op.rows.position);
  const auto epsilon = static_cast<float>(op.epsilon);
  const Blocks blocks = row_blocks(op.x.shape[0] * op.x.shape[1], columns);
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) {
    for (std::int64_t r = blocks.begin(block); r < blocks.end(block); ++r) {
      const auto sample = static_cast<std::uint64_t>(samples[r]);
      const PhiloxKey key = dropout_sample_key(op.key, sample);
      const auto position = static_cast<std::uint32_t>(positions[r]);
      for (std::int64_t i = 0; i < columns; i += 4) {
        const PhiloxWords words = philox4x32(
            key, dropout_counter(sample, op.site, position, static_cast<std::uint32_t>(i)));
        const std::int64_t end = std::min<std::int64_t>(columns - i, 4);
        for (std::int64_t e = 0; e < end; ++e) {
          const std::int64_t at = r * columns + i + e;
          y[at] = x[at] * jitter_factor(words[static_cast<std::size_t>(e)], epsilon);
        }
      }
    }
  });
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
