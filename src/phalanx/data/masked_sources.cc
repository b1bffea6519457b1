#include "phalanx/data/masked_sources.h"

#include <utility>

#include "phalanx/base/log.h"

namespace phalanx {
BertSources::BertSources(BertOptions options) : MaskedSources("BERT", std::move(options)) {
  check_bert_options(this->options());
}

T5Sources::T5Sources(T5Options options) : MaskedSources("T5", std::move(options)) {
  const T5Options& checked = this->options();
  check_t5_options(checked);
  if (const std::int64_t most = most_decoder_tokens(checked);
      most > checked.decoder_sequence_length) {
    log_warning(
        "--decoder-seq-length {}: a sample can have up to {} tokens there (every masked token a "
        "span of its own). The run ends with an error if one does not fit",
        checked.decoder_sequence_length, most);
  }
  const auto sentinels = std::ssize(checked.common.vocabulary->sentinels);
  if (const std::int64_t most = most_spans(checked); most > sentinels) {
    log_warning(
        "--vocab-extra-ids {}: a sample can have up to {} spans. The run ends with an error if one "
        "has more than there are sentinels",
        sentinels, most);
  }
}

}  // namespace phalanx
