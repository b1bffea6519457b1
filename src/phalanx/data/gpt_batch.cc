#include "phalanx/data/gpt_batch.h"

#include <utility>
#include <vector>

namespace phalanx {

GptWindows::GptWindows(const GptDataset& dataset, const GptBatchOptions& options,
                       BatchSchema schema)
    : dataset_(dataset), options_(options), schema_(std::move(schema)) {
  check_gpt_options(options);
}

void GptWindows::fetch(std::int64_t index, Sample& sample, std::span<double> counts) const {
  thread_local std::vector<std::int32_t> tokens;  // so that a step allocates nothing
  tokens.resize(static_cast<std::size_t>(dataset_.sequence_length()) + 1);
  const std::int64_t real = dataset_.sample(index, tokens);
  counts[0] = fill_gpt_sample(tokens, real, options_, schema_, sample);
}

}  // namespace phalanx
