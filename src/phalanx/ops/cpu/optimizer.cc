// Adam and SGD: one pass over all streams.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/optimizer.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/segment_blocks.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

HWY_INLINE FloatVector all_lanes(double value) {
  return hn::Set(FloatTag(), static_cast<float>(value));
}

// What is the same for every element.
struct AdamFactors {
  FloatVector gradient, beta1, one_minus_beta1, beta2, one_minus_beta2;
  FloatVector correct1, correct_root2, epsilon;

  HWY_INLINE explicit AdamFactors(const ops::AdamSegments& op)
      : gradient(hn::Set(FloatTag(), *dense<float>(op.factor))),
        beta1(all_lanes(op.beta1)),
        one_minus_beta1(all_lanes(1.0 - op.beta1)),
        beta2(all_lanes(op.beta2)),
        one_minus_beta2(all_lanes(1.0 - op.beta2)),
        correct1(all_lanes(dense<double>(op.corrections)[0])),
        correct_root2(all_lanes(dense<double>(op.corrections)[1])),
        epsilon(all_lanes(op.epsilon)) {}
};

// What is the same in a segment.
struct SegmentFactors {
  FloatVector lr, decay;

  HWY_INLINE SegmentFactors(const Tensor& settings, const ops::Segment& segment)
      : lr(all_lanes(dense<double>(settings)[2 * segment.group])),
        decay(all_lanes(dense<double>(settings)[2 * segment.group + 1])) {}
};

// Calls body(task's segment, first element, last element), counted from the operands' first, on all
// threads.
template <typename Op, typename Body>
HWY_INLINE void update_segments(const CpuDevice& device, const Op& op, const Body& body) {
  const Blocks tasks = segment_tasks(op.table);
  parallel_for(device.threads, tasks.count(), [&](std::int64_t task) HWY_ATTR {
    for_each_segment(op.table, tasks, task,
                     [&](const ops::Segment& segment, std::int64_t first, std::int64_t last)
                         HWY_ATTR {
                           const ElementRange range = elements_of_blocks(segment, first, last);
                           body(segment, range.begin - op.first, range.end - op.first);
                         });
  });
}

template <typename T>
void update(const CpuDevice& device, const ops::AdamSegments& op) {
  float* weight = dense<float>(op.weight);
  float* exp_avg = dense<float>(op.exp_avg);
  float* exp_avg_sq = dense<float>(op.exp_avg_sq);
  const float* gradient = dense<float>(op.gradient);
  T* storage = dense<T>(op.storage);
  update_segments(
      device, op, [&](const ops::Segment& segment, std::int64_t begin, std::int64_t end) HWY_ATTR {
        const AdamFactors by(op);
        const SegmentFactors of(op.settings, segment);
        for_vectors(begin, end, [&](std::int64_t i, auto lanes) HWY_ATTR {
          const auto g = hn::Mul(lanes.load(gradient + i), by.gradient);
          const auto m =
              hn::MulAdd(by.beta1, lanes.load(exp_avg + i), hn::Mul(by.one_minus_beta1, g));
          const auto v = hn::MulAdd(by.beta2, lanes.load(exp_avg_sq + i),
                                    hn::Mul(hn::Mul(by.one_minus_beta2, g), g));
          const auto root = hn::MulAdd(hn::Sqrt(v), by.correct_root2, by.epsilon);
          const auto w = lanes.load(weight + i);
          const auto change = hn::MulAdd(of.decay, w, hn::Div(hn::Mul(m, by.correct1), root));
          const auto updated = hn::NegMulAdd(of.lr, change, w);
          lanes.store(m, exp_avg + i);
          lanes.store(v, exp_avg_sq + i);
          lanes.store(updated, weight + i);
          if (storage != nullptr) lanes.store(updated, storage + i);
        });
      });
}

void adam(const CpuDevice& device, const ops::AdamSegments& op) {
  with_storage(op.storage ? op.storage.dtype : DType::kF32,
               [&](auto type) HWY_ATTR { update<decltype(type)>(device, op); });
}

template <typename T>
void descend(const CpuDevice& device, const ops::SgdSegments& op) {
  float* weight = dense<float>(op.weight);
  float* buffer = dense<float>(op.momentum_buffer);
  const float* gradient = dense<float>(op.gradient);
  T* storage = dense<T>(op.storage);
  update_segments(device, op,
                  [&](const ops::Segment& segment, std::int64_t begin, std::int64_t end) HWY_ATTR {
                    const FloatVector factor = hn::Set(FloatTag(), *dense<float>(op.factor));
                    const FloatVector momentum = all_lanes(op.momentum);
                    const SegmentFactors of(op.settings, segment);
                    for_vectors(begin, end, [&](std::int64_t i, auto lanes) HWY_ATTR {
                      const auto w = lanes.load(weight + i);
                      const auto g = hn::Mul(lanes.load(gradient + i), factor);
                      auto change = hn::MulAdd(of.decay, w, g);
                      if (buffer != nullptr) {
                        change = hn::MulAdd(momentum, lanes.load(buffer + i), change);
                        lanes.store(change, buffer + i);
                      }
                      const auto updated = hn::NegMulAdd(of.lr, change, w);
                      lanes.store(updated, weight + i);
                      if (storage != nullptr) lanes.store(updated, storage + i);
                    });
                  });
}

void sgd(const CpuDevice& device, const ops::SgdSegments& op) {
  with_storage(op.storage ? op.storage.dtype : DType::kF32,
               [&](auto type) HWY_ATTR { descend<decltype(type)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(adam);
HWY_EXPORT(sgd);

void execute(CpuDevice& device, const ops::AdamSegments& op, const Tensor& /*scratch*/) {
  if (*dense<float>(op.skip) != 0.0F) return;
  HWY_DYNAMIC_DISPATCH(adam)(device, op);
}

void execute(CpuDevice& device, const ops::SgdSegments& op, const Tensor& /*scratch*/) {
  if (*dense<float>(op.skip) != 0.0F) return;
  HWY_DYNAMIC_DISPATCH(sgd)(device, op);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
