#include "phalanx/data/gpt_columns.h"

#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {

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
  const auto column = [&](std::string_view name) {
    return sample.column<std::int32_t>(schema.index(name));
  };
  const auto inputs = column("tokens");
  const auto labels = column("labels");
  const auto loss_mask = sample.column<float>(schema.index("loss_mask"));
  const auto position_ids = column("position_ids");
  const auto positions = column("position");
  const auto documents = column("document");
  PHALANX_CHECK(inputs.size() == tokens.size() - 1, "a sample of {} tokens in columns of {}",
                tokens.size(), inputs.size());
  std::int32_t document = 0;
  std::int32_t document_begin = 0;
  double unmasked = 0.0;
  for (std::size_t row = 0; row < inputs.size(); ++row) {
    const auto p = static_cast<std::int32_t>(row);
    const std::int32_t token = tokens[row];
    // Padding has id 0, which may well be end-of-document.
    const bool ends_document = p < real && token == options.eod;
    const bool has_label = p + 1 < real;
    inputs[row] = token;
    labels[row] = tokens[row + 1];
    loss_mask[row] = has_label && !(options.eod_mask_loss && ends_document) ? 1.0F : 0.0F;
    unmasked += static_cast<double>(loss_mask[row]);
    position_ids[row] = options.reset_position_ids ? p - document_begin : p;
    positions[row] = p;
    documents[row] = options.reset_attention_mask ? document : 0;
    if (ends_document) {
      ++document;
      document_begin = p + 1;
    }
  }
  return unmasked;
}

}  // namespace phalanx
