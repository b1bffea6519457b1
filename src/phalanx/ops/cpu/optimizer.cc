// Adam and SGD: one pass over all streams.

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/optimizer.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <cmath>

#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// What is the same for every element.
struct AdamFactors {
  FloatVector gradient, beta1, one_minus_beta1, beta2, one_minus_beta2;
  FloatVector correct1, correct_root2;  // 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t)
  FloatVector epsilon, lr, decay;

  HWY_INLINE explicit AdamFactors(const ops::Adam& op)
      : gradient(hn::Set(FloatTag(), *dense<float>(op.factor))),
        beta1(of(op.beta1)),
        one_minus_beta1(of(1.0 - op.beta1)),
        beta2(of(op.beta2)),
        one_minus_beta2(of(1.0 - op.beta2)),
        correct1(of(1.0 / (1.0 - std::pow(op.beta1, static_cast<double>(op.step))))),
        correct_root2(of(1.0 / std::sqrt(1.0 - std::pow(op.beta2, static_cast<double>(op.step))))),
        epsilon(of(op.epsilon)),
        lr(of(op.lr)),
        decay(of(op.weight_decay)) {}

 private:
  static HWY_INLINE FloatVector of(double value) {
    return hn::Set(FloatTag(), static_cast<float>(value));
  }
};

template <typename T>
void update(const CpuDevice& device, const ops::Adam& op) {
  float* weight = dense<float>(op.weight);
  float* exp_avg = dense<float>(op.exp_avg);
  float* exp_avg_sq = dense<float>(op.exp_avg_sq);
  const float* gradient = dense<float>(op.gradient);
  T* storage = dense<T>(op.storage);
  const Blocks blocks = element_blocks(op.weight.count());
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const AdamFactors by(op);
    for_vectors(blocks.begin(block), blocks.end(block), [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto g = hn::Mul(lanes.load(gradient + i), by.gradient);
      const auto m = hn::MulAdd(by.beta1, lanes.load(exp_avg + i), hn::Mul(by.one_minus_beta1, g));
      const auto v = hn::MulAdd(by.beta2, lanes.load(exp_avg_sq + i),
                                hn::Mul(hn::Mul(by.one_minus_beta2, g), g));
      const auto root = hn::MulAdd(hn::Sqrt(v), by.correct_root2, by.epsilon);
      const auto w = lanes.load(weight + i);
      const auto change = hn::MulAdd(by.decay, w, hn::Div(hn::Mul(m, by.correct1), root));
      const auto updated = hn::NegMulAdd(by.lr, change, w);
      lanes.store(m, exp_avg + i);
      lanes.store(v, exp_avg_sq + i);
      lanes.store(updated, weight + i);
      if (storage != nullptr) lanes.store(updated, storage + i);
    });
  });
}

void adam(const CpuDevice& device, const ops::Adam& op) {
  with_storage(op.storage ? op.storage.dtype : DType::kF32,
               [&](auto type) HWY_ATTR { update<decltype(type)>(device, op); });
}

struct SgdFactors {
  FloatVector gradient, momentum, lr, decay;

  HWY_INLINE explicit SgdFactors(const ops::Sgd& op)
      : gradient(hn::Set(FloatTag(), *dense<float>(op.factor))),
        momentum(hn::Set(FloatTag(), static_cast<float>(op.momentum))),
        lr(hn::Set(FloatTag(), static_cast<float>(op.lr))),
        decay(hn::Set(FloatTag(), static_cast<float>(op.weight_decay))) {}
};

template <typename T>
void descend(const CpuDevice& device, const ops::Sgd& op) {
  float* weight = dense<float>(op.weight);
  float* buffer = dense<float>(op.momentum_buffer);
  const float* gradient = dense<float>(op.gradient);
  T* storage = dense<T>(op.storage);
  const Blocks blocks = element_blocks(op.weight.count());
  parallel_for(device.threads, blocks.count(), [&](std::int64_t block) HWY_ATTR {
    const SgdFactors by(op);
    for_vectors(blocks.begin(block), blocks.end(block), [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto w = lanes.load(weight + i);
      const auto g = hn::Mul(lanes.load(gradient + i), by.gradient);
      auto change = hn::MulAdd(by.decay, w, g);
      if (buffer != nullptr) {
        change = hn::MulAdd(by.momentum, lanes.load(buffer + i), change);
        lanes.store(change, buffer + i);
      }
      const auto updated = hn::NegMulAdd(by.lr, change, w);
      lanes.store(updated, weight + i);
      if (storage != nullptr) lanes.store(updated, storage + i);
    });
  });
}

void sgd(const CpuDevice& device, const ops::Sgd& op) {
  with_storage(op.storage ? op.storage.dtype : DType::kF32,
               [&](auto type) HWY_ATTR { descend<decltype(type)>(device, op); });
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(adam);
HWY_EXPORT(sgd);

void execute(CpuDevice& device, const ops::Adam& op, const Tensor& /*scratch*/) {
  if (*dense<float>(op.skip) != 0.0F) return;
  HWY_DYNAMIC_DISPATCH(adam)(device, op);
}

void execute(CpuDevice& device, const ops::Sgd& op, const Tensor& /*scratch*/) {
  if (*dense<float>(op.skip) != 0.0F) return;
  HWY_DYNAMIC_DISPATCH(sgd)(device, op);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
