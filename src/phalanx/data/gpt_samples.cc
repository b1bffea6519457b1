#include "phalanx/data/gpt_samples.h"

#include <utility>
#include <vector>

namespace phalanx {

GptSamples::GptSamples(std::shared_ptr<const GptDataset> dataset, const GptBatchOptions& options,
                       BatchSchema schema)
    : dataset_(std::move(dataset)), options_(options), schema_(std::move(schema)) {
  check_gpt_options(options);
}

void GptSamples::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  thread_local std::vector<std::int32_t> tokens;  // so that a step allocates nothing
  tokens.resize(static_cast<std::size_t>(dataset_->sequence_length()) + 1);
  const std::int64_t real = dataset_->sample(index, tokens);
  counts[0] = fill_gpt_sample(tokens, real, options_, schema_, sample);
}

}  // namespace phalanx
