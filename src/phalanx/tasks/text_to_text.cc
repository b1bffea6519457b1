#include "phalanx/tasks/text_to_text.h"

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/data/sentence_dataset.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/rank/batch_memory.h"

namespace phalanx {
namespace {

using Ids = std::span<const std::int32_t>;

// The tokens of one pass; the rest of the schema's rows is padding, as T5Samples have it.
struct Tokens {
  Ids text, decoder, labels;
};

Sample sample_of(const BatchSchema& schema, const Tokens& tokens) {
  Sample sample(schema);  // zeros: [PAD]
  const auto column = [&](const char* name) {
    return sample.column<std::int32_t>(schema.index(name));
  };
  std::ranges::copy(tokens.text, column("tokens").begin());
  fill_coordinates(column("position"), column("position_ids"), column("document"),
                   std::ssize(tokens.text));
  std::ranges::copy(tokens.decoder, column("decoder_tokens").begin());
  fill_coordinates(column("decoder_position"), column("decoder_position_ids"),
                   column("decoder_document"), std::ssize(tokens.decoder));
  std::ranges::fill(column("labels"), -1);
  std::ranges::copy(tokens.labels, column("labels").begin());
  std::ranges::fill(sample.column<float>(schema.index("loss_mask")).first(std::size(tokens.labels)),
                    1.0F);
  return sample;
}

}  // namespace

// The model on one backend, and a pass through it.
struct TextToText::Engine {
  Engine(const T5Config& config, std::unique_ptr<Backend> backend, InferenceArenas arenas)
      : model(T5Model(config), std::move(backend), std::move(arenas)) {}

  // Fills `losses` with those of the decoder's rows, or else `logits` with the last row's.
  void forward(const BatchSchema& schema, const Tokens& tokens, std::span<float> losses,
               std::span<float> logits) {
    HostBatch host(schema, 1);
    host.put(0, 0, sample_of(schema, tokens));
    Arena& workspace = model.arenas().workspace;
    const WorkspaceScope scope(workspace);
    const BatchMemory memory(schema, 1, 1, workspace);
    memory.upload(model.context(), 0, host);
    if (losses.empty()) {
      const Tensor last = workspace.allocate(DType::kF32, {1, model.padded_vocabulary()});
      model.infer(memory[0], {.logits = last});
      model.read_back(last.slice(1, 0, std::ssize(logits)), logits);
      return;
    }
    // The head adds a sum up, too; nobody reads it.
    const Tensor sums = workspace.allocate(DType::kF64, {2});
    ops::fill(model.context(), {.x = sums, .value = 0.0});
    const nn::LossTerm term{.sum = sums.slice(0, 0, 1), .count = sums.slice(0, 1, 1)};
    const Tensor rows = workspace.allocate(DType::kF32, {std::ssize(losses)});
    model.infer(memory[0], {.losses = {&term, 1}, .row_losses = rows});
    model.read_back(rows, losses);
  }

  // Without padding: nobody sees it, and these need not be the very bits of training.
  void logits(Ids text, Ids target, std::span<float> result) {
    forward(t5_batch_schema(std::ssize(text), std::ssize(target)), {text, target, {}}, {}, result);
  }

  InferenceModel model;
};

TextToText::TextToText(const TrainConfig& config, const T5Config& model,
                       const CheckpointReader& checkpoint, const DeviceChoice& device,
                       const AnswerSizes& answers)
    : model_(model), answers_(answers) {
  PHALANX_CHECK(answers.text <= model.sequence && answers.most <= model.decoder_sequence,
                "{} tokens and an answer of {}, of a model of {} and {}", answers.text,
                answers.most, model.sequence, model.decoder_sequence);
  const std::int64_t threads = config.layout.threads_per_rank;
  Engine rehearsal(model, device.make_planning_backend(threads), InferenceArenas::planning());
  if (answers.text > 0) {
    const std::vector<std::int32_t> text(static_cast<std::size_t>(answers.text), 0);
    const std::vector<std::int32_t> target(static_cast<std::size_t>(answers.most), 0);
    std::vector<float> result(static_cast<std::size_t>(model.vocabulary));
    for (std::size_t rows = 1; rows <= target.size(); ++rows) {
      rehearsal.logits(text, Ids(target).first(rows), result);
    }
  } else {
    std::vector<float> losses(static_cast<std::size_t>(model.decoder_sequence));
    rehearsal.forward(t5_batch_schema(model.sequence, model.decoder_sequence), {}, losses, {});
  }
  expect_room(config, rehearsal.model.arenas(), "End other programs");
  engine_ = std::make_unique<Engine>(model, device.make_backend(threads),
                                     rehearsal.model.arenas().sized());
  engine_->model.load(checkpoint);
}

TextToText::~TextToText() = default;

TextScore TextToText::score(std::span<const std::int32_t> text,
                            std::span<const std::int32_t> target) {
  const std::int64_t scored = std::ssize(target) - 1;
  PHALANX_CHECK(answers_.text == 0 && !text.empty() && std::ssize(text) <= model_.sequence &&
                    scored > 0 && scored <= model_.decoder_sequence,
                "{} tokens and a target of {}, of a model of {} and {}", text.size(), scored,
                model_.sequence, model_.decoder_sequence);
  std::vector<float> losses(static_cast<std::size_t>(model_.decoder_sequence));
  const auto count = static_cast<std::size_t>(scored);
  engine_->forward(t5_batch_schema(model_.sequence, model_.decoder_sequence),
                   {text, target.first(count), target.subspan(1)}, losses, {});
  TextScore result;
  for (const float loss : std::span(losses).first(count)) {
    if (!std::isfinite(loss)) {
      throw DataError(
          "the probability of token {} of the target is not a number: the weights are not sound",
          result.log_probabilities.size() + 1);
    }
    result.log_probabilities.push_back(0.0F - loss);
    result.loss += static_cast<double>(loss);
  }
  result.loss /= static_cast<double>(scored);
  return result;
}

std::vector<float> TextToText::logits(std::span<const std::int32_t> text,
                                      std::span<const std::int32_t> target) {
  PHALANX_CHECK(!text.empty() && std::ssize(text) == answers_.text && !target.empty() &&
                    std::ssize(target) <= answers_.most,
                "{} tokens and {} of the answer, planned for {} and {}", text.size(), target.size(),
                answers_.text, answers_.most);
  std::vector<float> result(static_cast<std::size_t>(model_.vocabulary));
  engine_->logits(text, target, result);
  return result;
}

std::vector<std::int32_t> TextToText::generate(std::span<const std::int32_t> text,
                                               const TargetTokens& special,
                                               const SamplingOptions& options) {
  std::vector<std::int32_t> target = {special.begin};
  while (std::ssize(target) <= answers_.most) {
    const std::int32_t next = sample_token(logits(text, target), options, target.size(), target);
    if (std::ranges::find(special.ends, next) != special.ends.end()) break;
    target.push_back(next);
  }
  target.erase(target.begin());
  return target;
}

}  // namespace phalanx
