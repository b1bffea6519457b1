#include "language_model.h"

#include <cstring>
#include <string>
#include <utility>

#include "phalanx/model/chunk.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/optim/optimizer.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabulary = 27;
constexpr std::int64_t kPadded = 32;
constexpr std::int64_t kLayers = 2;
constexpr int kMicrobatches = 2;
constexpr nn::BatchShape kShape{.sequence = 8, .micro_batch = 3};
constexpr double kRowsOfStep = kMicrobatches * kShape.sequence * kShape.micro_batch;  // of a step
constexpr double kLossScale = 256.0;

nn::TransformerConfig config_of(const LanguageModel& model) {
  nn::TransformerConfig config = nn::test_config();
  if (model.llama) config = nn::llama_config(config);
  config.num_layers = kLayers;
  config.hidden = 24;
  config.ffn_hidden = 40;
  config.heads = 3;
  config.query_groups = 3;
  config.head_size = 8;
  config.init_deviation = 0.1;
  config.hidden_dropout = model.llama ? 0.0 : 0.1;
  config.dtype = model.storage;
  return config;
}

std::vector<std::unique_ptr<nn::Unit>> units_of(const LanguageModel& model,
                                                const nn::TransformerConfig& config,
                                                nn::ParamTable& table) {
  const bool tied = !model.llama;
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<nn::Embedding>(table, kVocabulary, kPadded, kShape.sequence,
                                                  nn::EmbeddingSharing{.words = tied},
                                                  nn::kTestEmbeddingColumns, config));
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    if (model.attention) {
      units.push_back(std::make_unique<nn::TransformerLayer>(table, layer, layer, config));
      continue;
    }
    const auto make = [layer](nn::ParamTable& parameters, std::vector<ParamId>& owned,
                              nn::SavedSlots& slots, const nn::TransformerConfig& settings) {
      return nn::mlp_sublayer(parameters, owned, slots, fmt::format("decoder.layers.{}", layer),
                              layer, settings);
    };
    units.push_back(std::make_unique<nn::SublayerUnit>(table, config, make));
  }
  using Output = nn::LanguageModelHead::Output;
  units.push_back(std::make_unique<nn::LanguageModelHead>(
      table, tied ? Output::kTied : Output::kOwn, kVocabulary, kPadded, nn::kTestTargetColumns,
      config));
  return units;
}

class Run {
 public:
  Run(const LanguageModel& model, TrainingMachine& machine)
      : model_(model),
        machine_(machine),
        chunk_(units_of(model, config_, table_)),
        parameters_(StateLayout(table_), machine.tensors(), machine.tensors()),
        gradients_(parameters_.states(), DType::kF32, kMicrobatches * kShape.rows(),
                   machine.tensors()),
        optimizer_(parameters_, gradients_, {.rule = AdamRule{}, .clip_grad = 1.0}, {},
                   machine.tensors(), machine.tensors()) {
    parameters_.initialise(context(), random_key(5, RandomPurpose::kInitialisation));
    gradients_.initialise(context());
    optimizer_.initialise(context());
    for (const auto& saved : chunk_.saved_tensors(kShape, false)) {
      saved_.push_back(allocate(saved.dtype, saved.shape));
    }
    for (auto& batch : batches_) batch = make_batch();
    ops::fill(context(), {.x = loss_scale_, .value = kLossScale});
  }

  TrainingResult train() {
    TrainingResult result;
    std::optional<ReadBack> before;
    const auto note = [&] {
      double numbers[2];
      std::memcpy(numbers, before->wait().data(), sizeof(numbers));
      result.losses.push_back(numbers[0] / numbers[1]);
    };
    for (int step = 0; step < model_.steps; ++step) {
      ReadBack loss = run_step(step);
      if (before) note();
      before = std::move(loss);
    }
    note();
    machine_.backend().throw_faults(context().queue);
    result.weights.resize(static_cast<std::size_t>(parameters_.flat().bytes()));
    machine_.backend().read_back(context().queue, parameters_.flat(), result.weights);
    result.memory = machine_.use();
    return result;
  }

 private:
  Context& context() { return machine_.context(); }
  Tensor allocate(DType dtype, const Shape& shape) {
    return machine_.tensors().allocate(dtype, shape);
  }

  nn::Batch make_batch() {
    const Shape shape{kShape.sequence, kShape.micro_batch};
    const auto numbers = [&] { return allocate(DType::kI32, shape); };
    nn::Batch batch;
    batch.columns = {numbers(), numbers(), numbers(), allocate(DType::kF32, shape)};
    batch.rows[0] = {
        .sample = allocate(DType::kI64, shape), .position = numbers(), .document = numbers()};
    return batch;
  }

  // Sequences in which every word follows from the one before.
  void bring(const nn::Batch& batch, int microbatch) {
    std::vector<std::int32_t> tokens, positions, labels, documents;
    std::vector<float> mask;
    std::vector<std::int64_t> samples;
    for (std::int64_t s = 0; s < kShape.sequence; ++s) {
      for (std::int64_t b = 0; b < kShape.micro_batch; ++b) {
        const auto sample = kShape.micro_batch * microbatch + b;
        const auto word = [&](std::int64_t place) {
          return static_cast<std::int32_t>((sample * 5 + place * 4) % kVocabulary);
        };
        tokens.push_back(word(s));
        positions.push_back(static_cast<std::int32_t>(s));
        labels.push_back(word(s + 1));
        documents.push_back(0);
        mask.push_back((s + b) % 7 == 3 ? 0.0F : 1.0F);
        samples.push_back(sample);
      }
    }
    const auto upload = [&](const Tensor& to, const auto& values) {
      machine_.upload(StreamKind::kCopyIn, to, values);
    };
    upload(batch[0], tokens);
    upload(batch[1], positions);
    upload(batch[2], labels);
    upload(batch[3], mask);
    upload(batch.rows[0].sample, samples);
    upload(batch.rows[0].position, positions);
    upload(batch.rows[0].document, documents);
  }

  ReadBack run_step(int step) {
    // The loss of the step before has left.
    machine_.order(StreamKind::kCopyOut, StreamKind::kCompute);
    ops::fill(context(), {.x = loss_sums_, .value = 0.0});
    gradients_.begin_update();
    for (int i = 0; i < kMicrobatches; ++i) run_microbatch(step * kMicrobatches + i);
    machine_.order(StreamKind::kCompute, StreamKind::kCopyOut);
    ReadBack loss = machine_.backend().read_later(machine_.queue(StreamKind::kCopyOut), loss_sums_);
    gradients_.join_all(context());
    gradients_.expect_complete();
    // A steep descent magnifies other roundings.
    const bool steep = !model_.attention || TrainingMachine::rounds_as_devices(model_.storage);
    optimizer_.step(context(), {.lr = steep ? 0.02 : 0.005,
                                .weight_decay = 0.01,
                                .step = step + 1,
                                .tokens = loss_.count,
                                .expected_tokens = kRowsOfStep,
                                .loss_scale = loss_scale_});
    return loss;
  }

  void run_microbatch(int microbatch) {
    const auto slot = static_cast<std::size_t>(microbatch % 2);
    if (microbatch >= 2) {
      machine_.backend().wait(machine_.queue(StreamKind::kCopyIn), free_[slot]);
    }
    bring(batches_[slot], microbatch);
    machine_.order(StreamKind::kCopyIn, StreamKind::kCompute);
    const nn::Weights weights = parameters_.weights();
    nn::Pass pass{.ops = context(),
                  .weights = weights,
                  .batch = batches_[slot],
                  .shapes = kShape,
                  .region = {},
                  .loss_settings = {.loss_scale = loss_scale_},
                  .losses = {&loss_, 1}};
    chunk_.forward(pass, saved_, hooks_, microbatch);
    chunk_.backward(pass, saved_, gradients_.gradients(), hooks_, microbatch);
    free_[slot] = machine_.backend().record(context().queue);
  }

  LanguageModel model_;
  TrainingMachine& machine_;
  nn::TransformerConfig config_ = config_of(model_);
  nn::ParamTable table_;
  Chunk chunk_;
  ParameterStore parameters_;
  GradientStore gradients_;
  Optimizer optimizer_;
  nn::UnitHooks hooks_;
  std::vector<Tensor> saved_;
  nn::Batch batches_[2];
  Event free_[2];
  Tensor loss_sums_ = allocate(DType::kF64, {2});
  nn::LossTerm loss_ = {.sum = loss_sums_.slice(0, 0, 1),
                        .count = loss_sums_.slice(0, 1, 1),
                        .factor = 1.0 / kRowsOfStep};
  Tensor loss_scale_ = allocate(DType::kF32, {1});
};

}  // namespace

TrainingResult LanguageModel::train(TrainingMachine& machine) const {
  return Run(*this, machine).train();
}

}  // namespace phalanx
