#include "phalanx/inference/scoring.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "phalanx/base/text_batches.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/model/gpt.h"

namespace phalanx {
namespace {

// How many tokens of a text the model reads. The last one is read only for the logits behind it.
std::int64_t inputs_of(std::int64_t tokens, const ScoreOptions& options) {
  return options.logits ? tokens : tokens - 1;
}

// Documents are marked as in the training; the loss of every token counts. A text is one
// conversation, in which end-of-document may end every turn.
GptBatchOptions batch_options(const DataConfig& data, std::int32_t end_of_document) {
  if (data.sft) return {};
  return {.eod = end_of_document,
          .eod_mask_loss = false,
          .reset_position_ids = data.reset_position_ids || packs_documents(data),
          .reset_attention_mask = separates_documents(data)};
}

// The loss of each input, and the last row's logits. `tokens` are the inputs and the last one's
// label. Only the first `real` of them are not padding; losses of padding mean nothing.
InferenceModel::Answer forward(InferenceModel& model, const GptBatchOptions& options,
                               std::span<const std::int32_t> tokens, std::int64_t real,
                               bool wants_logits) {
  const std::int64_t rows = std::ssize(tokens) - 1;
  const BatchSchema schema = gpt_batch_schema(rows);
  Sample sample(schema);
  fill_gpt_sample(tokens, real, options, schema, sample);
  HostBatch host(schema, 1);
  host.put(0, 0, sample);
  return model.answer(host,
                      {.losses = 1,
                       .row_losses = rows,
                       .logits = wants_logits ? Shape{1, model.padded_vocabulary()} : Shape{}});
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

Scorer::Scorer(const TrainConfig& config, const GptConfig& model,
               const CheckpointReader& checkpoint, const DeviceChoice& device,
               std::int32_t end_of_document, std::span<const std::int64_t> lengths,
               const ScoreOptions& options)
    : options_(options),
      batch_(batch_options(config.data, end_of_document)),
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
  check_gpt_options(batch_);
  model_ = load_rehearsed(
      config, GptModel(model, model.max_positions), checkpoint, device,
      "Score shorter texts, each by itself, or end other programs", [&](InferenceModel& rehearsal) {
        for (const std::int64_t inputs : windows) {
          const std::vector<std::int32_t> tokens(static_cast<std::size_t>(inputs) + 1, 0);
          forward(rehearsal, batch_, tokens, inputs + 1, options_.logits);
        }
      });
}

Scorer::~Scorer() = default;

TextScore Scorer::score(std::span<const std::int32_t> tokens) {
  const std::int64_t length = std::ssize(tokens);
  TextScore result;
  for (const auto& window :
       score_windows(inputs_of(length, options_), positions_, options_.stride)) {
    // With logits the last input has no label.
    const std::int64_t real = std::min(window.inputs + 1, length - window.begin);
    const auto begin = tokens.begin() + window.begin;
    std::vector<std::int32_t> seen(begin, begin + real);
    seen.resize(static_cast<std::size_t>(window.inputs) + 1, 0);
    InferenceModel::Answer answer = forward(*model_, batch_, seen, real, options_.logits);
    for (std::int64_t i = window.first - window.begin; i < real - 1; ++i) {
      const float loss = answer.row_losses[static_cast<std::size_t>(i)];
      if (!std::isfinite(loss)) {
        throw DataError("the probability of token {} is not a number: the weights are not sound",
                        window.begin + i + 1);
      }
      result.log_probabilities.push_back(0.0F - loss);
      result.loss += static_cast<double>(loss);
    }
    result.logits = std::move(answer.logits);
    if (options_.on_window) options_.on_window(window.begin + window.inputs);
  }
  if (options_.logits) result.logits.resize(static_cast<std::size_t>(vocabulary_));
  result.loss /= static_cast<double>(length - 1);
  return result;
}

}  // namespace phalanx
