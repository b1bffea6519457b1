#include "phalanx/train/run_data.h"

#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/model/gpt_batch.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/reading_ahead.h"

namespace phalanx {
namespace {

GptDatasets make_datasets(const TrainConfig& config, const Tokenizer& tokenizer,
                          const std::shared_ptr<const IndexedDataset>& file,
                          const SampleCounts& counts, const std::function<void()>& poll) {
  const IndexCache cache(config.data.data_cache_path);
  return build_gpt_datasets(
      file, Split(config.data.split), counts,
      {.sequence_length = config.data.seq_length,
       .vocabulary_size = tokenizer.vocab_size(),
       .seed = static_cast<std::uint32_t>(config.run.seed),
       .order =
           config.data.data_order == "sequential" ? DataOrder::kSequential : DataOrder::kMegatron,
       .keep_partial_validation_tail = false,
       .poll = poll,
       .cache = config.data.data_cache_path.empty() ? nullptr : &cache});
}

}  // namespace

RunData::RunData(const TrainConfig& config, const Tokenizer& tokenizer, const SampleCounts& counts,
                 const std::function<void()>& poll)
    : config_(config),
      counts_(counts),
      batch_options_{.eod = tokenizer.end_of_document(),
                     .eod_mask_loss = config.data.eod_mask_loss,
                     .reset_position_ids = config.data.reset_position_ids,
                     .reset_attention_mask = config.data.reset_attention_mask},
      file_(std::make_shared<const IndexedDataset>(config.data.data_path.at(0))),
      datasets_(make_datasets(config, tokenizer, file_, counts, poll)) {}

void RunData::check_suffices(const SampleCounts& needed) const {
  for (const SplitKind kind : kSplitKinds) {
    if (!has(kind)) continue;
    const std::int64_t size = dataset(kind)->size();
    if (kind == SplitKind::kTrain) {
      check_samples_suffice(*dataset(kind), kind, needed.train);
    } else if (needed.of(kind) > size) {
      log_info(
          "> {} {} samples will be read, but the order that this run began with ends after {}: it "
          "begins again from the first",
          needed.of(kind), name_of(kind), size);
    }
  }
}

const GptDataset* RunData::dataset(SplitKind kind) const {
  const auto& found = kind == SplitKind::kTrain   ? datasets_.train
                      : kind == SplitKind::kValid ? datasets_.valid
                                                  : datasets_.test;
  return found ? &*found : nullptr;
}

RunData::Stream::Stream(const RunData& data, SplitKind kind, std::int64_t consumed, int data_rank,
                        std::vector<int> cores) {
  const TrainConfig& config = data.config_;
  const GptDataset& dataset = *data.dataset(kind);
  SequentialSampler sampler({.total_samples = dataset.size(),
                             .consumed_samples = consumed,
                             .micro_batch_size = config.layout.micro_batch_size,
                             .data_parallel_rank = data_rank,
                             .data_parallel_size = data_parallel_size(config.layout),
                             .name = std::string(name_of(kind)),
                             .repeats = kind != SplitKind::kTrain});
  BatchLoaderOptions options = reading_ahead(config, kind == SplitKind::kTrain);
  options.cores = std::move(cores);
  loader_ = std::make_unique<BatchLoader>(
      std::make_shared<GptWindows>(dataset, data.batch_options_,
                                   gpt_batch_schema(config.data.seq_length)),
      [sampler = std::move(sampler)]() mutable { return sampler.next(); },
      std::move(options));
}

BatchSource RunData::Stream::source() {
  return [this](int /*microbatch*/) -> const HostBatch& { return loader_->next(); };
}

}  // namespace phalanx
