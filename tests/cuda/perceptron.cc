#include "perceptron.h"

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "phalanx/base/philox.h"
#include "phalanx/ops/ref/access.h"

namespace phalanx {
namespace {

constexpr std::int64_t kRows = 24;
constexpr std::int64_t kIn = 12;
constexpr std::int64_t kHidden = 40;
constexpr std::int64_t kOut = 12;
constexpr double kRate = 0.02;
constexpr double kLossScale = 64.0;

struct Parameter {
  Tensor weight;   // f32
  Tensor storage;  // what passes read
  Tensor gradient, exp_avg, exp_avg_sq;
  ops::SegmentTable all;  // its elements as one segment
};

class Run {
 public:
  Run(const Perceptron& settings, TrainingMachine& machine)
      : settings_(settings),
        machine_(machine),
        memory_(machine.tensors()),
        first_(parameter({kHidden, kIn}, 0.3, 0)),
        first_bias_(parameter({kHidden}, 0.0, 1)),
        norm_(parameter({kHidden}, 0.0, 2, 1.0)),
        norm_bias_(parameter({kHidden}, 0.0, 3)),
        second_(parameter({kOut, kHidden}, 0.2, 4)),
        second_bias_(parameter({kOut}, 0.0, 5)) {
    for (auto& batch : batches_) batch = {stored({kRows, kIn}), stored({kRows, kOut})};
    squares_ = memory_.allocate(DType::kF64, {6});
    upload(settings_of_step_, std::array{kRate, 0.01});
    ops::fill(context(), {.x = loss_scale_, .value = kLossScale});
  }

  TrainingResult train() {
    TrainingResult result;
    std::optional<ReadBack> before;
    const auto note = [&] {
      double loss = 0.0;
      std::memcpy(&loss, before->wait().data(), sizeof(loss));
      result.losses.push_back(loss / kRows);
    };
    for (int step = 0; step < settings_.steps; ++step) {
      bring_batch(step);
      ReadBack loss = compute(step);
      // The host is a step behind.
      if (before) note();
      before = std::move(loss);
    }
    note();
    result.weights.resize(static_cast<std::size_t>(second_.weight.bytes()));
    machine_.backend().read_back(machine_.queue(StreamKind::kCompute), second_.weight,
                                 result.weights);
    result.memory = machine_.use();
    return result;
  }

 private:
  struct Batch {
    Tensor x, target;
  };

  Context& context() { return machine_.context(); }
  bool waits(MissingWait wait) const { return settings_.missing != wait; }
  Tensor stored(const Shape& shape) { return memory_.allocate(settings_.storage, shape); }
  Tensor full(const Shape& shape) { return memory_.allocate(DType::kF32, shape); }

  Parameter parameter(const Shape& shape, double deviation, std::uint64_t number,
                      double centre = 0.0) {
    Parameter made{full(shape), {}, full(shape), full(shape), full(shape), all_of(shape.count())};
    made.storage = settings_.storage == DType::kF32 ? made.weight : stored(shape);
    if (deviation > 0.0) {
      ops::normal(context(), {.x = made.weight,
                              .key = random_key(5, RandomPurpose::kInitialisation),
                              .parameter = number,
                              .deviation = deviation,
                              .global_columns = shape[1]});
    } else {
      ops::fill(context(), {.x = made.weight, .value = centre});
    }
    if (made.storage.dtype != DType::kF32) {
      ops::copy(context(), {.destination = made.storage, .source = made.weight});
    }
    for (const Tensor& state : {made.exp_avg, made.exp_avg_sq}) {
      ops::fill(context(), {.x = state, .value = 0.0});
    }
    return made;
  }

  ops::SegmentTable all_of(std::int64_t count) {
    const ops::Segment& row = rows_.emplace_back(ops::Segment{.count = count});
    const ops::SegmentTable table{{&row, 1}, ops::allocate_segments(memory_, 1)};
    ops::upload_segments(context(), table);
    return table;
  }
  void upload(const Tensor& to, std::span<const double> numbers) {
    machine_.backend().upload(context().queue, to, std::as_bytes(numbers));
  }

  // Numbers of a step, and their squares. The host's memory is used again at once.
  void bring_batch(int step) {
    const Batch& batch = batches_[static_cast<std::size_t>(step % 2)];
    if (waits(MissingWait::kBatchIsFree) && step >= 2) {
      machine_.backend().wait(machine_.queue(StreamKind::kCopyIn),
                              batch_free_[static_cast<std::size_t>(step % 2)]);
    }
    for (const Tensor& tensor : {batch.x, batch.target}) {
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        const double x = std::sin(static_cast<double>(i) + 0.7 * (step % 5));
        ref::store(numbers_.data() + i * size_of(tensor.dtype), tensor.dtype,
                   tensor.offset == batch.x.offset ? x : x * x);
      }
      machine_.backend().upload(machine_.queue(StreamKind::kCopyIn), tensor, numbers_);
    }
    if (waits(MissingWait::kBatchHasArrived)) {
      machine_.order(StreamKind::kCopyIn, StreamKind::kCompute);
    }
  }

  ReadBack compute(int step) {
    const Batch& batch = batches_[static_cast<std::size_t>(step % 2)];
    forward(batch);
    if (waits(MissingWait::kLossHasLeft)) {
      machine_.order(StreamKind::kCopyOut, StreamKind::kCompute);
    }
    measure();
    ReadBack loss = send_loss();
    backward(batch);
    batch_free_[static_cast<std::size_t>(step % 2)] =
        machine_.backend().record(machine_.queue(StreamKind::kCompute));
    update(step + 1);
    return loss;
  }

  void forward(const Batch& batch) {
    ops::linear_forward(context(), {.y = hidden_,
                                    .x = batch.x,
                                    .weight = first_.storage,
                                    .bias = first_bias_.storage,
                                    .activation = {.activated = activated_, .bias = {}}});
    ops::norm_forward(context(), {.y = normed_,
                                  .mean = mean_,
                                  .rstd = rstd_,
                                  .x = activated_,
                                  .weight = norm_.storage,
                                  .bias = norm_bias_.storage});
    ops::linear_forward(
        context(),
        {.y = y_, .x = normed_, .weight = second_.storage, .bias = second_bias_.storage});
    // difference = y - target
    ops::scale(context(), {.y = difference_, .x = batch.target, .factor = -1.0});
    ops::accumulate(context(), {.destination = difference_, .source = y_});
  }

  // The sum of squared differences.
  void measure() {
    ops::copy(context(), {.destination = wide_, .source = flat(difference_)});
    ops::square_sum_segments(context(), {.sums = block_sums_, .x = wide_, .table = all_outputs_});
    ops::total(context(), {.sum = loss_, .x = block_sums_.slice(0, 0, 1)});
  }

  void backward(const Batch& batch) {
    ops::scale(context(), {.y = dy_, .x = difference_, .factor = 2.0 * kLossScale / kRows});
    ops::linear_input_gradient(context(), {.dx = dnormed_, .dy = dy_, .weight = second_.storage});
    weight_gradient(second_, second_bias_, dy_, normed_);
    ops::norm_backward(context(), {.dx = dactivated_,
                                   .dweight = norm_.gradient,
                                   .dbias = norm_bias_.gradient,
                                   .dy = dnormed_,
                                   .x = activated_,
                                   .mean = mean_,
                                   .rstd = rstd_,
                                   .weight = norm_.storage});
    ops::bias_activation_backward(context(),
                                  {.dx = dactivated_, .dy = dactivated_, .x = hidden_, .bias = {}});
    weight_gradient(first_, first_bias_, dactivated_, batch.x);
  }

  void weight_gradient(const Parameter& weight, const Parameter& bias, const Tensor& dy,
                       const Tensor& x) {
    ops::linear_weight_gradient(context(), {.dweight = weight.gradient,
                                            .dy = dy,
                                            .x = x,
                                            .accumulate = false,
                                            .dbias = bias.gradient});
  }

  void update(std::int64_t step) {
    const Parameter* all[] = {&first_, &first_bias_, &norm_, &norm_bias_, &second_, &second_bias_};
    for (std::int64_t i = 0; i < 6; ++i) {
      const Tensor gradient = flat(all[i]->gradient);
      const Tensor sums = block_sums_.slice(0, 0, ops::sum_blocks(0, gradient.count()));
      ops::square_sum_segments(context(), {.sums = sums, .x = gradient, .table = all[i]->all});
      ops::total(context(), {.sum = squares_.slice(0, i, 1), .x = sums});
    }
    ops::gradient_factor(context(), {.norm = gradient_norm_,
                                     .factor = factor_,
                                     .skip = skip_,
                                     .square_sums = squares_,
                                     .tokens = {},
                                     .expected_tokens = {},
                                     .loss_scale = loss_scale_,
                                     .clip = 1.0});
    upload(corrections_, ops::adam_corrections(0.9, 0.999, step));
    for (const Parameter* parameter : all) {
      const bool has_storage = settings_.storage != DType::kF32;
      ops::adam_segments(context(), {.weight = flat(parameter->weight),
                                     .storage = has_storage ? flat(parameter->storage) : Tensor{},
                                     .gradient = flat(parameter->gradient),
                                     .exp_avg = flat(parameter->exp_avg),
                                     .exp_avg_sq = flat(parameter->exp_avg_sq),
                                     .table = parameter->all,
                                     .settings = settings_of_step_,
                                     .corrections = corrections_,
                                     .factor = factor_,
                                     .skip = skip_});
    }
  }

  static Tensor flat(const Tensor& tensor) { return tensor.reshape({tensor.count()}); }

  ReadBack send_loss() {
    if (waits(MissingWait::kLossIsThere)) {
      machine_.order(StreamKind::kCompute, StreamKind::kCopyOut);
    }
    return machine_.backend().read_later(machine_.queue(StreamKind::kCopyOut), loss_);
  }

  Perceptron settings_;
  TrainingMachine& machine_;
  Arena& memory_;
  std::deque<ops::Segment> rows_;  // of the tables
  Parameter first_, first_bias_, norm_, norm_bias_, second_, second_bias_;
  Batch batches_[2];
  Event batch_free_[2];
  std::vector<std::byte> numbers_ =
      std::vector<std::byte>(static_cast<std::size_t>(kRows * kIn * size_of(settings_.storage)));
  Tensor hidden_ = stored({kRows, kHidden});
  Tensor activated_ = stored({kRows, kHidden});
  Tensor normed_ = stored({kRows, kHidden});
  Tensor mean_ = full({kRows});
  Tensor rstd_ = full({kRows});
  Tensor y_ = stored({kRows, kOut});
  Tensor difference_ = stored({kRows, kOut});
  Tensor wide_ = full({kRows * kOut});
  Tensor dy_ = stored({kRows, kOut});
  Tensor dnormed_ = stored({kRows, kHidden});
  Tensor dactivated_ = stored({kRows, kHidden});
  ops::SegmentTable all_outputs_ = all_of(kRows * kOut);
  Tensor settings_of_step_ = memory_.allocate(DType::kF64, {1, 2});
  Tensor corrections_ = memory_.allocate(DType::kF64, {2});
  Tensor block_sums_ = memory_.allocate(DType::kF64, {4});
  Tensor loss_ = memory_.allocate(DType::kF64, {1});
  Tensor squares_;
  Tensor gradient_norm_ = full({1});
  Tensor factor_ = full({1});
  Tensor skip_ = full({1});
  Tensor loss_scale_ = full({1});
};

static_assert(kIn == kOut, "a batch and its targets have as many numbers");

}  // namespace

TrainingResult Perceptron::train(TrainingMachine& machine) const {
  return Run(*this, machine).train();
}

}  // namespace phalanx
