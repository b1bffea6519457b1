#include "phalanx/tasks/text_to_text.h"

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/data/sentence_dataset.h"
#include "phalanx/inference/inference_model.h"

namespace phalanx {
namespace {

using Ids = std::span<const std::int32_t>;

// The tokens of one pass. Other rows of the schema are padding, as in a T5Sample.
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

// The losses of the decoder's rows, padded as training pads.
std::vector<float> row_losses(InferenceModel& model, const T5Config& config, const Tokens& tokens) {
  const BatchSchema schema = t5_batch_schema(config.sequence, config.decoder_sequence);
  HostBatch host(schema, 1);
  host.put(0, 0, sample_of(schema, tokens));
  return model.answer(host, {.losses = 1, .row_losses = config.decoder_sequence}).row_losses;
}

// The logits of the decoder's last row, without padding: they need not have the bits of training.
std::vector<float> last_logits(InferenceModel& model, Ids text, Ids target) {
  const BatchSchema schema = t5_batch_schema(std::ssize(text), std::ssize(target));
  HostBatch host(schema, 1);
  host.put(0, 0, sample_of(schema, {text, target, {}}));
  return model.answer(host, {.logits = {1, model.padded_vocabulary()}}).logits;
}

}  // namespace

TextToText::TextToText(const TrainConfig& config, const T5Config& model,
                       const CheckpointReader& checkpoint, const DeviceChoice& device,
                       const AnswerSizes& answers)
    : config_(model), answers_(answers) {
  PHALANX_CHECK(answers.text <= model.sequence && answers.most <= model.decoder_sequence,
                "{} tokens and an answer of {}, of a model of {} and {}", answers.text,
                answers.most, model.sequence, model.decoder_sequence);
  const auto rehearse = [&](InferenceModel& rehearsal) {
    if (answers.text == 0) {
      row_losses(rehearsal, model, {});
      return;
    }
    const std::vector<std::int32_t> text(static_cast<std::size_t>(answers.text), 0);
    const std::vector<std::int32_t> target(static_cast<std::size_t>(answers.most), 0);
    for (std::size_t rows = 1; rows <= target.size(); ++rows) {
      last_logits(rehearsal, text, Ids(target).first(rows));
    }
  };
  model_ =
      load_rehearsed(config, T5Model(model), checkpoint, device, "End other programs", rehearse);
}

TextToText::~TextToText() = default;

TextScore TextToText::score(std::span<const std::int32_t> text,
                            std::span<const std::int32_t> target) {
  const std::int64_t scored = std::ssize(target) - 1;
  PHALANX_CHECK(answers_.text == 0 && !text.empty() && std::ssize(text) <= config_.sequence &&
                    scored > 0 && scored <= config_.decoder_sequence,
                "{} tokens and a target of {}, of a model of {} and {}", text.size(), scored,
                config_.sequence, config_.decoder_sequence);
  const auto count = static_cast<std::size_t>(scored);
  const std::vector<float> losses =
      row_losses(*model_, config_, {text, target.first(count), target.subspan(1)});
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
  std::vector<float> result = last_logits(*model_, text, target);
  result.resize(static_cast<std::size_t>(config_.vocabulary));
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
