#include "delayed_updates.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::int64_t kArenaBytes = 64 << 20;

// Without vocabulary padding nothing hides a difference; with it, padding is zero on both sides.
bool equals_stored(const CheckpointReader& checkpoint, const ParamSpec& spec, const Tensor& values,
                   std::string_view prefix) {
  Arena arena("stored", values.bytes() + kArenaAlignment);
  const Tensor stored = arena.allocate(values.dtype, values.shape);
  std::memset(stored.data(), 0, static_cast<std::size_t>(stored.bytes()));
  checkpoint.read(global_tensor(spec, stored, prefix));
  return std::memcmp(stored.data(), values.data(), static_cast<std::size_t>(values.bytes())) == 0;
}

}  // namespace

DelayedUpdates::DelayedUpdates(const RunSetup& setup, DelayRule rule)
    : setup_(setup),
      rule_(std::move(rule)),
      shape_{.sequence = setup.config.data.seq_length,
             .micro_batch = setup.config.layout.micro_batch_size},
      memory_("memory", kArenaBytes),
      workspace_("workspace", kArenaBytes),
      backend_(setup.device.choice().make_backend(setup.config.layout.threads_per_rank)),
      context_{.backend = *backend_, .workspace = workspace_, .queue = {}, .recorder = nullptr},
      chunk_(setup.model->build_chunk(setup.model->whole(), table_)),
      parameters_(StateLayout(table_), memory_, memory_) {
  const DType full = nn::full_precision(setup.model->transformer().dtype);
  for (int r = 0; r < data_parallel_size(setup.config.layout); ++r) {
    replicas_.push_back(
        {.stream = RunData::Stream(*setup.data, SplitKind::kTrain, 0, {.data = r}),
         .gradients = GradientStore(parameters_.states(), full, shape_.rows(), memory_),
         .losses = {.sum = memory_.allocate(DType::kF64, {1}),
                    .count = memory_.allocate(DType::kF64, {1})}});
  }
  optimizer_ = std::make_unique<Optimizer>(parameters_, replicas_.front().gradients,
                                           optimizer_settings(setup.config.optimizer),
                                           OptimizerGroups{}, memory_, memory_);
  for (const SavedTensor& block : chunk_.saved_tensors(shape_, false)) {
    saved_.push_back(memory_.allocate(block.dtype, block.shape));
  }
  batch_ = BatchMemory(gpt_batch_schema(shape_.sequence), {}, shape_.micro_batch, 1, memory_);
  loss_scale_ = memory_.allocate(full, {1});
  ops::fill(context_, {.x = loss_scale_, .value = 1.0});
  stale_flat_ = memory_.allocate(parameters_.flat().dtype, parameters_.flat().shape);
  for (ParamId id = 0; id < table_.size(); ++id) {
    const std::int64_t offset = parameters_.states().flat().offsets[static_cast<std::size_t>(id)];
    const Shape& extent = table_[id].local_shape;
    stale_.push_back(stale_flat_.slice(0, offset, extent.count()).reshape(extent));
  }
}

// The embedding is on the first stage, what comes behind the layers on the last.
int DelayedUpdates::stage_of(const std::string& parameter) const {
  constexpr std::string_view kLayers = "decoder.layers.";
  if (parameter.starts_with("embedding.")) return 0;
  if (!parameter.starts_with(kLayers)) return rule_.stages - 1;
  int layer = 0;
  std::from_chars(parameter.data() + kLayers.size(), parameter.data() + parameter.size(), layer);
  return layer * rule_.stages / static_cast<int>(setup_.model->transformer().num_layers);
}

void DelayedUpdates::train() {
  parameters_.initialise(context_, setup_.model->transformer().init_key);
  for (Replica& replica : replicas_) replica.gradients.initialise(context_);
  optimizer_->initialise(context_);
  for (std::int64_t i = 0; i < setup_.length.last_iteration(); ++i) iteration(i);
}

void DelayedUpdates::iteration(std::int64_t iteration) {
  if (iteration % rule_.drain_interval == 0) {
    history_.clear();
    remember_weights();
    microbatches_ = 0;
  }
  const TrainConfig& config = setup_.config;
  const std::int64_t updates = num_microbatches(config.layout) / rule_.microbatches_per_update;
  const std::int64_t samples = iteration * config.layout.global_batch_size;
  const auto replicas = static_cast<std::int64_t>(replicas_.size());
  double loss = 0.0;
  double tokens = 0.0;
  for (std::int64_t u = 0; u < updates; ++u) {
    begin_update();
    for (int m = 0; m < rule_.microbatches_per_update; ++m) {
      for (Replica& replica : replicas_) microbatch(microbatches_, replica);
      ++microbatches_;
    }
    add_replicas();
    const nn::LossTerm& sums = replicas_.front().losses;
    const LearningRates rates = setup_.schedule.learning_rates(samples);
    optimizer_->step(context_, {.lr = rates.rate,
                                .decoupled_lr = rates.decoupled,
                                .weight_decay = setup_.schedule.weight_decay(samples),
                                .step = iteration * updates + u + 1,
                                .tokens = sums.count,
                                .expected_tokens = static_cast<double>(
                                    replicas * rule_.microbatches_per_update * shape_.rows()),
                                .loss_scale = loss_scale_});
    remember_weights();
    loss += sums.sum.span<double>()[0];
    tokens += sums.count.span<double>()[0];
  }
  losses_.push_back(static_cast<float>(loss / tokens));
}

void DelayedUpdates::begin_update() {
  for (Replica& replica : replicas_) {
    replica.gradients.clear(context_);
    ops::fill(context_, {.x = replica.losses.sum, .value = 0.0});
    ops::fill(context_, {.x = replica.losses.count, .value = 0.0});
  }
}

void DelayedUpdates::microbatch(int number, Replica& replica) {
  assemble_weights(number);
  batch_.upload(context_, 0, replica.stream.source()(number));
  const auto replicas = static_cast<std::int64_t>(replicas_.size());
  const auto tokens = static_cast<double>(replicas * rule_.microbatches_per_update * shape_.rows());
  replica.losses.factor = 1.0 / tokens;
  const nn::Weights weights{stale_};
  nn::Pass pass{
      .ops = context_,
      .weights = weights,
      .batch = batch_[0],
      .shapes = shape_,
      .region = {},
      .training = true,
      .loss_settings = {.loss_scale = loss_scale_},
      .losses = {&replica.losses, 1},
  };
  nn::UnitHooks hooks;
  chunk_.forward(pass, saved_, hooks, number);
  chunk_.backward(pass, saved_, replica.gradients.gradients(), hooks, number);
}

void DelayedUpdates::assemble_weights(int microbatch) {
  for (ParamId id = 0; id < table_.size(); ++id) {
    const int version = rule_.version(microbatch, stage_of(table_[id].name));
    const Tensor& to = stale_[static_cast<std::size_t>(id)];
    const auto offset = static_cast<std::size_t>(to.data() - stale_flat_.data());
    std::memcpy(to.data(), history_.at(static_cast<std::size_t>(version)).data() + offset,
                static_cast<std::size_t>(to.bytes()));
  }
}

void DelayedUpdates::remember_weights() {
  const Tensor& newest = parameters_.flat();
  const auto* bytes = reinterpret_cast<const std::byte*>(newest.data());
  history_.emplace_back(bytes, bytes + newest.bytes());
}

// In the order of the ranks.
void DelayedUpdates::add_replicas() {
  const Replica& first = replicas_.front();
  const auto add = [](const auto& to, const auto& from) {
    std::ranges::transform(to, from, to.begin(), std::plus<>());
  };
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    const Replica& other = replicas_[r];
    add(first.gradients.flat().span<float>(), other.gradients.flat().span<float>());
    add(first.losses.sum.span<double>(), other.losses.sum.span<double>());
    add(first.losses.count.span<double>(), other.losses.count.span<double>());
  }
}

std::vector<std::string> DelayedUpdates::differences(const CheckpointReader& checkpoint) const {
  std::vector<std::string> names;
  for (const Segment& segment : parameters_.states().segments()) {
    const ParamSpec& spec = table_[segment.id];
    const auto compare = [&](const Tensor& values, std::string_view prefix) {
      if (!equals_stored(checkpoint, spec, values, prefix)) {
        names.push_back(std::string(prefix) + spec.name);
      }
    };
    compare(parameters_.weight(segment), "");
    if (parameters_.has_main_parameters()) compare(parameters_.main(segment), kMainParamPrefix);
    for (const auto name : optimizer_->state_names()) {
      compare(optimizer_->state(name, segment), state_prefix(name));
    }
  }
  return names;
}

}  // namespace phalanx
