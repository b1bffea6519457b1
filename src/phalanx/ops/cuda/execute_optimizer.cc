#include <array>
#include <cmath>
#include <cstring>

#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"
#include "phalanx/ops/cuda/optimizer.h"
#include "phalanx/ops/cuda/pinned_memory.h"

namespace phalanx::cuda {
namespace {

// What the kernels of a single range read: a table of one segment, and numbers of the step.
constexpr std::int64_t kSegmentBytes = 32;
constexpr std::int64_t kNumbers = 4;  // rate, decay; Adam's two corrections
constexpr std::int64_t kStepBytes = kSegmentBytes + kNumbers * size_of(DType::kF32);

// The range of one op. Its table and numbers go to the scratch memory in the order of the queue.
class SingleRange {
 public:
  template <typename Op>
  SingleRange(const CudaContext& context, std::string_view name, const Op& op,
              std::array<double, 2> corrections = {}) {
    const std::array<SegmentRange, 1> range{SegmentRange{0, op.weight.count(), 0}};
    table_ = make_segment_table(range);
    std::array<std::byte, kStepBytes> bytes{};
    PHALANX_CHECK(table_.bytes.size() <= kSegmentBytes, "a segment of {} bytes",
                  table_.bytes.size());
    if (!table_.bytes.empty()) std::memcpy(bytes.data(), table_.bytes.data(), table_.bytes.size());
    const std::array<float, kNumbers> numbers{
        static_cast<float>(op.lr), static_cast<float>(op.weight_decay),
        static_cast<float>(corrections[0]), static_cast<float>(corrections[1])};
    std::memcpy(bytes.data() + kSegmentBytes, numbers.data(), sizeof(numbers));
    memory_ = take_scratch(context, name, kStepBytes);
    context.uploads->upload(context.queue, memory_, bytes);
  }

  template <typename Op>
  OptimizerCall call(const Op& op) const {
    OptimizerCall call;
    call.table = &table_;
    call.segments = memory_;
    call.settings = numbers();
    call.factor = address_as<float>(op.factor);
    call.skip = address_as<float>(op.skip);
    call.weight = address_as<float>(op.weight);
    call.storage = address_of(op.storage);
    call.gradient = address_as<float>(op.gradient);
    return call;
  }
  const float* corrections() const { return numbers() + 2; }

 private:
  const float* numbers() const { return reinterpret_cast<const float*>(memory_ + kSegmentBytes); }

  SegmentTable table_;
  std::byte* memory_ = nullptr;
};

}  // namespace

std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::Adam& /*op*/) {
  return kStepBytes;
}
std::int64_t workspace_bytes_of(const CudaSizes& /*sizes*/, const ops::Sgd& /*op*/) {
  return kStepBytes;
}

void execute(const CudaContext& context, const ops::Adam& op) {
  const auto step = static_cast<double>(op.step);
  const SingleRange range(
      context, "adam", op,
      {1.0 / (1.0 - std::pow(op.beta1, step)), 1.0 / std::sqrt(1.0 - std::pow(op.beta2, step))});
  AdamCall call;
  call.common = range.call(op);
  call.exp_avg = address_as<float>(op.exp_avg);
  call.exp_avg_sq = address_as<float>(op.exp_avg_sq);
  call.corrections = range.corrections();
  call.beta1 = op.beta1;
  call.beta2 = op.beta2;
  call.epsilon = op.epsilon;
  adam_segments(context, call);
}

void execute(const CudaContext& context, const ops::Sgd& op) {
  const SingleRange range(context, "sgd", op);
  sgd_segments(context, {range.call(op), address_as<float>(op.momentum_buffer), op.momentum});
}

}  // namespace phalanx::cuda
