#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "phalanx/ops/cuda/activation.h"
#include "phalanx/ops/cuda/column_sums.h"
#include "phalanx/ops/cuda/dropout.h"
#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/linear.h"
#include "phalanx/ops/cuda/norm.h"
#include "phalanx/ops/cuda/optimizer.h"
#include "phalanx/ops/cuda/random.h"
#include "phalanx/ops/cuda/reduce.h"
#include "phalanx/ops/cuda/test_support.h"
#include "phalanx/ops/host_backend.h"

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kScratchBytes = std::int64_t{256} << 10;

struct MirrorDevice {};

// The operands of one op in device memory, while this lives. All bytes between the first and the
// last operand are copied, so that what should not change can be seen to change.
class Mirror {
 public:
  explicit Mirror(std::initializer_list<const Tensor*> operands) {
    for (const Tensor* tensor : operands) {
      if (!*tensor || tensor->count() == 0) continue;
      std::int64_t last = 0;
      for (int d = 0; d < tensor->shape.rank(); ++d) {
        last += (tensor->shape[d] - 1) * tensor->strides[d];
      }
      std::byte* end = tensor->data() + (last + 1) * size_of(tensor->dtype);
      if (begin_ == nullptr || tensor->data() < begin_) begin_ = tensor->data();
      if (end > end_) end_ = end;
    }
    if (begin_ != nullptr) begin_ -= reinterpret_cast<std::uintptr_t>(begin_) % 256;
    context_.queue = make_queue(0);
    context_.scratch = allocate(0, kScratchBytes);
    context_.scratch_bytes = kScratchBytes;
    memory_ = allocate(0, bytes());
    register_host({begin_, static_cast<std::size_t>(bytes())});
    copy(context_.queue, memory_, begin_, bytes());
  }
  ~Mirror() {
    for (std::byte* memory : more_) give_back(0, memory);
    give_back(0, memory_);
    give_back(0, context_.scratch);
    unregister_host({begin_, static_cast<std::size_t>(bytes())});
    give_back(context_.queue);
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  CudaContext& context() { return context_; }
  TypedAddress operator()(const Tensor& tensor) const {
    if (!tensor) return {};
    if (tensor.count() == 0) return {memory_, tensor.dtype};
    return {memory_ + (tensor.data() - begin_), tensor.dtype};
  }
  template <typename T>
  T* as(const Tensor& tensor) const {
    if (!tensor) return nullptr;
    PHALANX_CHECK(kDTypeOf<T> == tensor.dtype, "the tensor holds {}", name_of(tensor.dtype));
    return reinterpret_cast<T*>((*this)(tensor).at);
  }
  // Numbers beside the operands.
  std::byte* upload(const void* from, std::size_t bytes) {
    std::byte* memory = allocate(0, static_cast<std::int64_t>(bytes));
    more_.push_back(memory);
    std::byte* pinned = allocate_pinned(static_cast<std::int64_t>(bytes));
    std::memcpy(pinned, from, bytes);
    copy(context_.queue, memory, pinned, static_cast<std::int64_t>(bytes));
    wait_host(context_.queue);
    give_back_pinned(pinned);
    return memory;
  }
  template <typename T, std::size_t n>
  const T* upload(const std::array<T, n>& values) {
    return reinterpret_cast<const T*>(upload(values.data(), sizeof(values)));
  }
  // Runs what was enqueued; the operands come back.
  void finish() {
    copy(context_.queue, begin_, memory_, bytes());
    wait_host(context_.queue);
  }

 private:
  std::int64_t bytes() const { return end_ - begin_; }

  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::byte* memory_ = nullptr;
  std::vector<std::byte*> more_;
  CudaContext context_;
};

template <typename Op>
std::int64_t workspace_bytes_of(const MirrorDevice& /*device*/, const Op& /*op*/) {
  return 0;
}
template <typename Op>
void execute(MirrorDevice& /*device*/, const Op& /*op*/, const Tensor& /*scratch*/) {
  throw InternalError("the CUDA kernels do not have the op");
}

void execute(MirrorDevice& /*device*/, const ops::Fill& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.x};
  fill(mirror.context(), mirror(op.x), op.x.count(), op.value);
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::Copy& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.destination, &op.source};
  if (op.destination.contiguous() && op.source.contiguous()) {
    convert(mirror.context(), mirror(op.destination), mirror(op.source), op.source.count());
  } else {
    StridedShape shape;
    shape.dims = op.source.shape.rank();
    for (int d = 0; d < shape.dims; ++d) {
      const auto i = static_cast<std::size_t>(d);
      shape.extents[i] = op.source.shape[d];
      shape.destination[i] = op.destination.strides[d];
      shape.source[i] = op.source.strides[d];
    }
    copy_strided(mirror.context(), mirror(op.destination), mirror(op.source), shape);
  }
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::Accumulate& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.destination, &op.source};
  accumulate(mirror.context(), mirror(op.destination), mirror(op.source), op.source.count());
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::Scale& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.x};
  scale(mirror.context(), mirror(op.y), mirror(op.x), op.x.count(), op.factor);
  mirror.finish();
}

ActivationCall call_of(const Mirror& mirror, const Tensor& y, const Tensor& bias,
                       ops::ActivationKind kind) {
  return {y.shape[0], y.shape[1], kind, mirror(bias)};
}

void execute(MirrorDevice& /*device*/, const ops::BiasActivationForward& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.x, &op.bias};
  bias_activation_forward(mirror.context(), call_of(mirror, op.y, op.bias, op.kind), mirror(op.y),
                          mirror(op.x));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::BiasActivationBackward& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.dx, &op.dy, &op.x, &op.bias};
  bias_activation_backward(mirror.context(), call_of(mirror, op.dx, op.bias, op.kind),
                           mirror(op.dx), mirror(op.dy), mirror(op.x));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::GatedActivationForward& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.x, &op.bias};
  gated_activation_forward(mirror.context(), call_of(mirror, op.y, op.bias, op.kind), mirror(op.y),
                           mirror(op.x));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::GatedActivationBackward& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.dx, &op.dy, &op.x, &op.bias};
  gated_activation_backward(mirror.context(), call_of(mirror, op.dy, op.bias, op.kind),
                            mirror(op.dx), mirror(op.dy), mirror(op.x));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::TanhForward& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.x};
  tanh_forward(mirror.context(), mirror(op.y), mirror(op.x), op.x.count());
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::TanhBackward& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.dx, &op.dy, &op.y};
  tanh_backward(mirror.context(), mirror(op.dx), mirror(op.dy), mirror(op.y), op.y.count());
  mirror.finish();
}

DropoutCall call_of(const Mirror& mirror, const Dropout& dropout, const RowCoordinates& rows,
                    const Shape& shape) {
  return {shape[0] * shape[1],
          shape[2],
          dropout.probability,
          dropout.key,
          dropout.site,
          mirror.as<std::int64_t>(rows.sample),
          mirror.as<std::int32_t>(rows.position)};
}

void execute(MirrorDevice& /*device*/, const ops::BiasDropoutResidual& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.out, &op.x, &op.bias, &op.residual, &op.rows.sample, &op.rows.position};
  bias_dropout_residual(mirror.context(), call_of(mirror, op.dropout, op.rows, op.x.shape),
                        mirror(op.out), mirror(op.x), mirror(op.bias), mirror(op.residual));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::DropoutBackward& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.dx, &op.dout, &op.rows.sample, &op.rows.position};
  dropout_backward(mirror.context(), call_of(mirror, op.dropout, op.rows, op.dx.shape),
                   mirror(op.dx), mirror(op.dout));
  mirror.finish();
}

NormOperand operand_of(const Mirror& mirror, const Tensor& tensor) {
  if (!tensor) return {};
  return {mirror(tensor), tensor.strides[0], 0};
}

template <typename Op>
NormForwardCall call_of(const Mirror& mirror, const Op& op) {
  NormForwardCall call;
  call.shape = {op.x.shape[0], 1, op.x.shape[1]};
  call.y = operand_of(mirror, op.y);
  call.x = operand_of(mirror, op.x);
  call.weight = mirror(op.weight);
  call.bias = mirror(op.bias);
  call.mean = mirror.as<float>(op.mean);
  call.rstd = mirror.as<float>(op.rstd);
  call.zero_centred = op.zero_centred;
  return call;
}

void execute(MirrorDevice& /*device*/, const ops::NormForward& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.mean, &op.rstd, &op.x, &op.weight, &op.bias};
  NormForwardCall call = call_of(mirror, op);
  call.epsilon = op.epsilon;
  norm_forward(mirror.context(), call);
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::NormApply& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.mean, &op.rstd, &op.x, &op.weight, &op.bias};
  norm_apply(mirror.context(), call_of(mirror, op));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::NormBackward& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.dx,   &op.dweight, &op.dbias,  &op.dy,      &op.x,
                &op.mean, &op.rstd,    &op.weight, &op.residual};
  NormBackwardCall call;
  call.shape = {op.x.shape[0], 1, op.x.shape[1]};
  call.dx = operand_of(mirror, op.dx);
  call.dweight = mirror.as<float>(op.dweight);
  call.dbias = mirror.as<float>(op.dbias);
  call.dy = operand_of(mirror, op.dy);
  call.x = operand_of(mirror, op.x);
  call.mean = mirror.as<float>(op.mean);
  call.rstd = mirror.as<float>(op.rstd);
  call.weight = mirror(op.weight);
  call.zero_centred = op.zero_centred;
  call.residual = operand_of(mirror, op.residual);
  norm_backward(mirror.context(), call);
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::BiasGradient& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.dbias, &op.dy};
  column_sums(mirror.context(), mirror.as<float>(op.dbias), mirror(op.dy), op.dy.shape[0],
              op.dy.shape[1], op.dy.strides[0], op.accumulate);
  mirror.finish();
}

DeviceSegments segments_of(const Mirror& mirror, const ops::SegmentTable& table,
                           std::int64_t first) {
  return {table.host, mirror(table.device).at, first};
}

void execute(MirrorDevice& /*device*/, const ops::SquareSumSegments& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.sums, &op.x, &op.table.device};
  square_sum_segments(mirror.context(), {segments_of(mirror, op.table, op.first),
                                         mirror.as<double>(op.sums), mirror.as<float>(op.x)});
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::ZeroCountSegments& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.counts, &op.x, &op.table.device};
  zero_count_segments(mirror.context(), {segments_of(mirror, op.table, op.first),
                                         mirror.as<double>(op.counts), mirror.as<float>(op.x)});
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::TotalSegments& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.totals, &op.x, &op.table.device};
  total_segments(mirror.context(), segments_of(mirror, op.table, 0), mirror.as<double>(op.totals),
                 mirror.as<double>(op.x));
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::Total& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.sum, &op.x};
  total(mirror.context(), mirror.as<double>(op.sum), mirror.as<double>(op.x), op.x.count());
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::GradientFactor& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.norm,   &op.factor,          &op.skip,      &op.square_sums,
                &op.tokens, &op.expected_tokens, &op.loss_scale};
  gradient_factor(
      mirror.context(),
      {mirror.as<float>(op.norm), mirror.as<float>(op.factor), mirror.as<float>(op.skip),
       mirror.as<double>(op.square_sums), op.square_sums.count(), mirror.as<double>(op.tokens),
       mirror.as<double>(op.expected_tokens), mirror.as<float>(op.loss_scale), op.clip});
  mirror.finish();
}

template <typename Op>
OptimizerCall common_of(const Mirror& mirror, const Op& op) {
  OptimizerCall call;
  call.segments = segments_of(mirror, op.table, op.first);
  call.settings = mirror.as<double>(op.settings);
  call.factor = mirror.as<float>(op.factor);
  call.skip = mirror.as<float>(op.skip);
  call.weight = mirror.as<float>(op.weight);
  call.storage = mirror(op.storage);
  call.gradient = mirror.as<float>(op.gradient);
  return call;
}

void execute(MirrorDevice& /*device*/, const ops::AdamSegments& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.weight,       &op.storage,  &op.gradient,    &op.exp_avg, &op.exp_avg_sq,
                &op.table.device, &op.settings, &op.corrections, &op.factor,  &op.skip};
  AdamCall call;
  call.common = common_of(mirror, op);
  call.exp_avg = mirror.as<float>(op.exp_avg);
  call.exp_avg_sq = mirror.as<float>(op.exp_avg_sq);
  call.corrections = mirror.as<double>(op.corrections);
  call.beta1 = op.beta1;
  call.beta2 = op.beta2;
  call.epsilon = op.epsilon;
  adam_segments(mirror.context(), call);
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::SgdSegments& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.weight,       &op.storage,  &op.gradient, &op.momentum_buffer,
                &op.table.device, &op.settings, &op.factor,   &op.skip};
  sgd_segments(mirror.context(),
               {common_of(mirror, op), mirror.as<float>(op.momentum_buffer), op.momentum});
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::Normal& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.x};
  normal(mirror.context(),
         {mirror(op.x), op.x.shape[0], op.x.shape[1], op.x.strides[0], op.global_columns,
          op.first_row, op.first_column, op.key, op.parameter, op.deviation});
  mirror.finish();
}

// A product and what is fused with it.
void execute(MirrorDevice& /*device*/, const ops::LinearForward& op, const Tensor& /*scratch*/) {
  Mirror mirror{&op.y, &op.x, &op.weight, &op.bias, &op.activation.activated, &op.activation.bias};
  Lt lt(0);
  mirror.context().lt = &lt;
  linear_forward(mirror.context(), {op.x.shape[0], op.y.shape[1], op.x.shape[1]}, mirror(op.y),
                 mirror(op.x), mirror(op.weight), mirror(op.bias));
  if (op.activation.activated) {
    bias_activation_forward(mirror.context(),
                            call_of(mirror, op.y, op.activation.bias, op.activation.kind),
                            mirror(op.activation.activated), mirror(op.y));
  }
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::LinearInputGradient& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.dx, &op.dy, &op.weight, &op.activation.x, &op.activation.bias};
  Lt lt(0);
  mirror.context().lt = &lt;
  linear_input_gradient(mirror.context(), {op.dy.shape[0], op.dy.shape[1], op.dx.shape[1]},
                        mirror(op.dx), mirror(op.dy), mirror(op.weight));
  if (op.activation.x) {
    bias_activation_backward(mirror.context(),
                             call_of(mirror, op.dx, op.activation.bias, op.activation.kind),
                             mirror(op.dx), mirror(op.dx), mirror(op.activation.x));
  }
  mirror.finish();
}

void execute(MirrorDevice& /*device*/, const ops::LinearWeightGradient& op,
             const Tensor& /*scratch*/) {
  Mirror mirror{&op.dweight, &op.dy, &op.x, &op.dbias};
  Lt lt(0);
  mirror.context().lt = &lt;
  linear_weight_gradient(mirror.context(), {op.x.shape[0], op.dy.shape[1], op.x.shape[1]},
                         mirror.as<float>(op.dweight), mirror(op.dy), mirror(op.x), op.accumulate);
  if (op.dbias) {
    column_sums(mirror.context(), mirror.as<float>(op.dbias), mirror(op.dy), op.dy.shape[0],
                op.dy.shape[1], op.dy.strides[0], op.accumulate);
  }
  mirror.finish();
}

}  // namespace

bool has_cuda_op(const std::string& op) {
  static const std::set<std::string> names = {"fill",
                                              "copy",
                                              "accumulate",
                                              "scale",
                                              "bias_activation_forward",
                                              "bias_activation_backward",
                                              "gated_activation_forward",
                                              "gated_activation_backward",
                                              "tanh_forward",
                                              "tanh_backward",
                                              "bias_dropout_residual",
                                              "dropout_backward",
                                              "layer_norm_forward",
                                              "layer_norm_apply",
                                              "layer_norm_backward",
                                              "rms_norm_forward",
                                              "rms_norm_apply",
                                              "rms_norm_backward",
                                              "bias_gradient",
                                              "square_sum",
                                              "zero_count",
                                              "total_segments",
                                              "total",
                                              "gradient_factor",
                                              "adam",
                                              "sgd",
                                              "normal",
                                              "linear_forward",
                                              "linear_input_gradient",
                                              "linear_weight_gradient"};
  return names.contains(op);
}

std::unique_ptr<Backend> make_mirror_backend() {
  return std::make_unique<ops::HostBackend<MirrorDevice>>(MirrorDevice());
}

}  // namespace phalanx::cuda
