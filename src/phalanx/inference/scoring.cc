#include "phalanx/inference/scoring.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "phalanx/base/text_batches.h"
#include "phalanx/data/gpt_columns.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/model/gpt.h"
#include "phalanx/rank/batch_memory.h"

namespace phalanx {
namespace {

// Tokens of a text that are read: the last has no successor whose probability is asked, only with
// logits is it.
std::int64_t inputs_of(std::int64_t tokens, const ScoreOptions& options) {
  return options.logits ? tokens : tokens - 1;
}

// What the model is told about documents is what it was trained with; the loss of every token
// counts.
GptBatchOptions batch_options(const DataConfig& data, std::int32_t end_of_document) {
  return {.eod = end_of_document,
          .eod_mask_loss = false,
          .reset_position_ids = data.reset_position_ids,
          .reset_attention_mask = data.reset_attention_mask};
}

}  // namespace

std::vector<ScoreWindow> score_windows(std::int64_t inputs, std::int64_t positions,
                                       std::int64_t stride) {
  std::vector<ScoreWindow> windows;
  std::int64_t read = 0;
  for (std::int64_t begin = 0; read < inputs; begin += stride) {
    const std::int64_t end = std::min(begin + positions, inputs);
    windows.push_back({.begin = begin, .inputs = end - begin, .first = read});
    read = end;
  }
  return windows;
}

// The model on one backend, and a window on its way through it.
struct Scorer::Engine {
  Engine(const GptConfig& config, std::unique_ptr<Backend> backend, InferenceArenas arenas,
         const GptBatchOptions& the_options)
      : model(GptModel(config, config.max_positions), std::move(backend), std::move(arenas)),
        options(the_options) {}

  // `losses` gets that of each input; those of padding mean nothing. `tokens` are the inputs and
  // the last one's label, of which the first `real` are not padding.
  void forward(std::span<const std::int32_t> tokens, std::int64_t real, std::span<float> losses,
               std::span<float> logits) {
    const std::int64_t rows = std::ssize(tokens) - 1;
    const BatchSchema schema = gpt_batch_schema(rows);
    Sample sample(schema);
    fill_gpt_sample(tokens, real, options, schema, sample);
    HostBatch host(schema, 1);
    host.put(0, 0, sample);
    Arena& workspace = model.arenas().workspace;
    const WorkspaceScope scope(workspace);
    const BatchMemory memory(schema, 1, 1, workspace);
    memory.upload(model.context(), 0, host);
    // The head adds a sum up, too; nobody reads it.
    const Tensor sums = workspace.allocate(DType::kF64, {2});
    ops::fill(model.context(), {.x = sums, .value = 0.0});
    const Tensor row_losses = workspace.allocate(DType::kF32, {rows});
    const Tensor last =
        logits.empty() ? Tensor{} : workspace.allocate(DType::kF32, {1, model.padded_vocabulary()});
    const nn::LossTerm loss{.sum = sums.slice(0, 0, 1), .count = sums.slice(0, 1, 1)};
    model.infer(memory[0], {.losses = {&loss, 1}, .logits = last, .row_losses = row_losses});
    model.read_back(row_losses, losses);
    if (!logits.empty()) {
      model.read_back(last.slice(1, 0, static_cast<std::int64_t>(logits.size())), logits);
    }
  }

  InferenceModel model;
  GptBatchOptions options;
};

Scorer::Scorer(const TrainConfig& config, const GptConfig& model,
               const CheckpointReader& checkpoint, const DeviceChoice& device,
               std::int32_t end_of_document, std::span<const std::int64_t> lengths,
               const ScoreOptions& options)
    : options_(options),
      positions_(options.positions > 0 ? options.positions : model.max_positions),
      vocabulary_(model.vocabulary) {
  std::set<std::int64_t> windows;
  for (const std::int64_t length : lengths) {
    const std::int64_t inputs = inputs_of(length, options_);
    PHALANX_CHECK(length > 1 && (inputs <= positions_ || options_.stride > 0),
                  "a text of {} tokens in {} positions", length, positions_);
    for (const auto& window : score_windows(inputs, positions_, options_.stride)) {
      windows.insert(window.inputs);
    }
  }
  const std::int64_t threads = config.layout.threads_per_rank;
  const GptBatchOptions batch = batch_options(config.data, end_of_document);
  check_gpt_options(batch);
  Engine rehearsal(model, device.make_planning_backend(threads), InferenceArenas::planning(),
                   batch);
  std::vector<float> logits(options_.logits ? static_cast<std::size_t>(vocabulary_) : 0);
  for (const std::int64_t inputs : windows) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(inputs) + 1, 0);
    std::vector<float> losses(static_cast<std::size_t>(inputs));
    rehearsal.forward(tokens, inputs + 1, losses, logits);
  }
  expect_room(config, rehearsal.model.arenas(),
              "Score shorter texts, each by itself, or end other programs");
  engine_ = std::make_unique<Engine>(model, device.make_backend(threads),
                                     rehearsal.model.arenas().sized(), batch);
  engine_->model.load(checkpoint);
}

Scorer::~Scorer() = default;

TextScore Scorer::score(std::span<const std::int32_t> tokens) {
  const std::int64_t length = std::ssize(tokens);
  TextScore result;
  result.logits.resize(options_.logits ? static_cast<std::size_t>(vocabulary_) : 0);
  for (const auto& window :
       score_windows(inputs_of(length, options_), positions_, options_.stride)) {
    // With logits the last input has no label.
    const std::int64_t real = std::min(window.inputs + 1, length - window.begin);
    const auto begin = tokens.begin() + window.begin;
    std::vector<std::int32_t> seen(begin, begin + real);
    seen.resize(static_cast<std::size_t>(window.inputs) + 1, 0);
    std::vector<float> losses(static_cast<std::size_t>(window.inputs));
    engine_->forward(seen, real, losses, result.logits);
    for (std::int64_t i = window.first - window.begin; i < real - 1; ++i) {
      const float loss = losses[static_cast<std::size_t>(i)];
      if (!std::isfinite(loss)) {
        throw DataError("the probability of token {} is not a number: the weights are not sound",
                        window.begin + i + 1);
      }
      result.log_probabilities.push_back(0.0F - loss);
      result.loss += static_cast<double>(loss);
    }
    if (options_.on_window) options_.on_window(window.begin + window.inputs);
  }
  result.loss /= static_cast<double>(length - 1);
  return result;
}

}  // namespace phalanx
