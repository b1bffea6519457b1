#include "phalanx/data/gpt_columns.h"

#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

// The columns that a sequence fills.
struct Columns {
  Columns(const BatchSchema& schema, Sample& sample)
      : inputs(sample.column<std::int32_t>(schema.index("tokens"))),
        labels(sample.column<std::int32_t>(schema.index("labels"))),
        loss_mask(sample.column<float>(schema.index("loss_mask"))),
        position_ids(sample.column<std::int32_t>(schema.index("position_ids"))),
        positions(sample.column<std::int32_t>(schema.index("position"))),
        documents(sample.column<std::int32_t>(schema.index("document"))) {}

  std::span<std::int32_t> inputs, labels;
  std::span<float> loss_mask;
  std::span<std::int32_t> position_ids, positions, documents;
};

}  // namespace

void check_gpt_options(const GptBatchOptions& options) {
  if (options.eod < 0 &&
      (options.eod_mask_loss || options.reset_position_ids || options.reset_attention_mask)) {
    throw ConfigError(
        "--eod-mask-loss, --reset-position-ids and --reset-attention-mask need a "
        "tokenizer with an end-of-document token");
  }
}

double fill_gpt_sample(std::span<const std::int32_t> tokens, std::int64_t real,
                       const GptBatchOptions& options, const BatchSchema& schema, Sample& sample) {
  PHALANX_CHECK(tokens.size() > 1, "a sample of {} tokens", tokens.size());
  const Columns to(schema, sample);
  PHALANX_CHECK(to.inputs.size() == tokens.size() - 1, "a sample of {} tokens in columns of {}",
                tokens.size(), to.inputs.size());
  std::int32_t document = 0;
  std::int32_t document_begin = 0;
  double unmasked = 0.0;
  for (std::size_t row = 0; row < to.inputs.size(); ++row) {
    const auto p = static_cast<std::int32_t>(row);
    const std::int32_t token = tokens[row];
    // Padding has id 0, which may well be end-of-document.
    const bool ends_document = p < real && token == options.eod;
    const bool has_label = p + 1 < real;
    to.inputs[row] = token;
    to.labels[row] = tokens[row + 1];
    to.loss_mask[row] = has_label && !(options.eod_mask_loss && ends_document) ? 1.0F : 0.0F;
    unmasked += static_cast<double>(to.loss_mask[row]);
    to.position_ids[row] = options.reset_position_ids ? p - document_begin : p;
    to.positions[row] = p;
    to.documents[row] = options.reset_attention_mask ? document : 0;
    if (ends_document) {
      ++document;
      document_begin = p + 1;
    }
  }
  return unmasked;
}

double fill_packed_sample(std::span<const std::int32_t> tokens, const PackedDocuments& documents,
                          const GptBatchOptions& options, const BatchSchema& schema,
                          Sample& sample) {
  const Columns to(schema, sample);
  const auto rows = std::ssize(to.inputs);
  const auto fill_padding = [&to](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const auto row = static_cast<std::size_t>(p);
      to.inputs[row] = 0;
      to.labels[row] = 0;
      to.loss_mask[row] = 0.0F;
      to.position_ids[row] = 0;
      to.positions[row] = static_cast<std::int32_t>(p);
      to.documents[row] = -1;
    }
  };
  std::int64_t begin = 0;  // the document's first row
  std::size_t token = 0;   // the next one to put
  double unmasked = 0.0;
  for (std::size_t document = 0; document < documents.lengths.size(); ++document) {
    const std::int64_t length = documents.lengths[document];
    const std::int64_t end = begin + round_up(length, documents.multiple);
    PHALANX_CHECK(end <= rows && token + static_cast<std::size_t>(length) <= tokens.size(),
                  "document {} ends at row {} of {}, in {} tokens", document, end, rows,
                  tokens.size());
    double labels = 0.0;
    for (std::int64_t i = 0; i < length; ++i, ++token) {
      const auto row = static_cast<std::size_t>(begin + i);
      const bool has_label = i + 1 < length;
      const bool counts = has_label &&
                          (documents.trained.empty() || documents.trained[token + 1] != 0) &&
                          !(options.eod_mask_loss && tokens[token] == options.eod);
      to.inputs[row] = tokens[token];
      to.labels[row] = has_label ? tokens[token + 1] : 0;
      to.loss_mask[row] = counts ? 1.0F : 0.0F;
      to.position_ids[row] = static_cast<std::int32_t>(i);
      to.positions[row] = static_cast<std::int32_t>(begin + i);
      to.documents[row] = static_cast<std::int32_t>(document);
      if (counts) labels += 1.0;
    }
    if (options.averages_documents && labels > 0.0) {
      for (std::int64_t row = begin; row < begin + length; ++row) {
        to.loss_mask[static_cast<std::size_t>(row)] /= static_cast<float>(labels);
      }
      labels = 1.0;
    }
    unmasked += labels;
    fill_padding(begin + length, end);
    begin = end;
  }
  PHALANX_CHECK(token == tokens.size(), "documents of {} tokens, of {}", token, tokens.size());
  fill_padding(begin, rows);
  return unmasked;
}

}  // namespace phalanx
