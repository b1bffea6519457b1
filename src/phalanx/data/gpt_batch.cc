#include "phalanx/data/gpt_batch.h"

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

void resize(GptBatch& batch, std::int64_t sequence_length, std::int64_t batch_size) {
  batch.sequence_length = sequence_length;
  batch.batch_size = batch_size;
  const auto rows = static_cast<std::size_t>(sequence_length * batch_size);
  batch.tokens.resize(rows);
  batch.labels.resize(rows);
  batch.loss_mask.resize(rows);
  batch.position_ids.resize(rows);
  batch.sample.resize(rows);
  batch.position.resize(rows);
  batch.document.resize(rows);
}

// Column b of the batch: one sample of s + 1 tokens, of which the first `real` are not padding.
void fill_column(std::span<const std::int32_t> sample, std::int64_t real, std::int64_t number,
                 std::int64_t column, const GptBatchOptions& options, GptBatch& batch) {
  std::int32_t document = 0;
  std::int32_t document_begin = 0;
  for (std::int32_t p = 0; p < batch.sequence_length; ++p) {
    const auto row = static_cast<std::size_t>(p * batch.batch_size + column);
    const std::int32_t token = sample[p];
    // Padding has id 0, which may well be end-of-document.
    const bool ends_document = p < real && token == options.eod;
    const bool has_label = p + 1 < real;
    batch.tokens[row] = token;
    batch.labels[row] = sample[p + 1];
    batch.loss_mask[row] = has_label && !(options.eod_mask_loss && ends_document) ? 1.0F : 0.0F;
    batch.position_ids[row] = options.reset_position_ids ? p - document_begin : p;
    batch.sample[row] = number;
    batch.position[row] = p;
    batch.document[row] = options.reset_attention_mask ? document : 0;
    if (ends_document) {
      ++document;
      document_begin = p + 1;
    }
  }
}

void check(const GptBatchOptions& options) {
  if (options.eod < 0 &&
      (options.eod_mask_loss || options.reset_position_ids || options.reset_attention_mask)) {
    throw ConfigError(
        "--eod-mask-loss, --reset-position-ids and --reset-attention-mask need a "
        "tokenizer with an end-of-document token");
  }
}

}  // namespace

void make_gpt_batch(const GptDataset& dataset, std::span<const SampleId> samples,
                    const GptBatchOptions& options, GptBatch& batch) {
  check(options);
  resize(batch, dataset.sequence_length(), static_cast<std::int64_t>(samples.size()));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.sequence_length()) + 1);
  for (std::size_t column = 0; column < samples.size(); ++column) {
    const std::int64_t real = dataset.sample(samples[column].index, tokens);
    fill_column(tokens, real, samples[column].number, static_cast<std::int64_t>(column), options,
                batch);
  }
}

void make_gpt_batch(std::span<const std::int32_t> sample, std::int64_t real,
                    const GptBatchOptions& options, GptBatch& batch) {
  check(options);
  PHALANX_CHECK(sample.size() > 1, "a sample of {} tokens", sample.size());
  resize(batch, std::ssize(sample) - 1, 1);
  fill_column(sample, real, 0, 0, options, batch);
}

}  // namespace phalanx
