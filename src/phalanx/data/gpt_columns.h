#pragma once
// The columns of a GPT's batch, and what a sequence of tokens fills them with.

#include <cstdint>
#include <span>

#include "phalanx/base/batch_schema.h"
#include "phalanx/data/sample_source.h"

namespace phalanx {

struct GptBatchOptions {
  // The end-of-document id; only the three options below read it.
  std::int32_t eod = -1;
  // No loss where the *input* token is end-of-document.
  bool eod_mask_loss = false;
  // Positions restart at 0 after an end-of-document token.
  bool reset_position_ids = false;
  // Rows cannot see rows of other documents; end-of-document belongs to the document before it.
  bool reset_attention_mask = false;
  // Of packed documents: the losses of each weigh as much as one, and documents are counted.
  bool averages_documents = false;
};

// The sample of the sequence `tokens`: s inputs, and behind the last its label. Where only the
// first `real` are not padding, rows without a label count for nothing. Returns how many do count.
double fill_gpt_sample(std::span<const std::int32_t> tokens, std::int64_t real,
                       const GptBatchOptions& options, const BatchSchema& schema, Sample& sample);

// Documents of a sample: the tokens of each, and of how many rows each takes a multiple.
struct PackedDocuments {
  std::span<const std::int64_t> lengths;
  std::int64_t multiple = 1;
  // Of each token whether it counts as a label, 1 or 0; empty: all count.
  std::span<const std::uint8_t> trained = {};
};

// The sample of documents whose tokens lie in `tokens` one after the other; all together they take
// at most the s rows of a sample. Rows see their own document alone, positions begin at 0 in each,
// and a document's last row has no label; behind it and behind all of them is padding, document -1.
// Of the options only eod_mask_loss and averages_documents count. Returns how many rows have a
// loss, or with averages_documents how many documents.
double fill_packed_sample(std::span<const std::int32_t> tokens, const PackedDocuments& documents,
                          const GptBatchOptions& options, const BatchSchema& schema,
                          Sample& sample);

// ConfigError where an option needs an end-of-document id and there is none.
void check_gpt_options(const GptBatchOptions& options);

}  // namespace phalanx
