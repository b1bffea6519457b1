#include "phalanx/families/family_sources.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/gpt_sources.h"
#include "phalanx/data/masked_sources.h"
#include "phalanx/families/conversation_sources.h"
#include "phalanx/families/target_tokens.h"

namespace phalanx {
namespace {

const IndexCache* cache_of(const DataConfig& data, const SourceSeed& seed) {
  return data.data_cache_path.empty() ? nullptr : seed.cache;
}

DocumentPacking packing_of(const DataConfig& data) {
  if (data.pack_documents == "greedy") return DocumentPacking::kGreedy;
  if (data.pack_documents == "best-fit") return DocumentPacking::kBestFit;
  return DocumentPacking::kWrapped;
}

MaskedOptions masked_options(const DataConfig& data, const SourceSeed& seed,
                             std::shared_ptr<const MaskingVocabulary> vocabulary) {
  if (data.data_order != "megatron") {
    throw ConfigError(
        "--data-order {}: samples with masked words come in the order megatron alone, for epochs "
        "of them are shuffled together; leave the flag out",
        data.data_order);
  }
  return {.vocabulary = std::move(vocabulary),
          .sequence_length = data.seq_length,
          .mask_prob = data.mask_prob,
          .short_seq_prob = data.short_seq_prob,
          .seed = seed.seed,
          .poll = seed.poll,
          .cache = cache_of(data, seed)};
}

}  // namespace

std::unique_ptr<DataSources> gpt_sources(const DataConfig& data, const SourceSeed& seed,
                                         std::int64_t vocabulary_size, std::int32_t eod,
                                         std::int64_t document_multiple) {
  GptSourceOptions options = sample_options(data, seed, vocabulary_size, document_multiple);
  options.batch = {.eod = eod,
                   .eod_mask_loss = data.eod_mask_loss,
                   .reset_position_ids = data.reset_position_ids,
                   .reset_attention_mask = data.reset_attention_mask};
  options.packing = packing_of(data);
  return std::make_unique<GptSources>(std::move(options));
}

std::unique_ptr<DataSources> bert_sources(const DataConfig& data, const SourceSeed& seed,
                                          const Tokenizer& tokenizer, bool binary_head) {
  return std::make_unique<BertSources>(
      BertOptions{.common = masked_options(data, seed, masking_vocabulary(tokenizer)),
                  .binary_head = binary_head});
}

std::unique_ptr<DataSources> t5_sources(const DataConfig& data, const SourceSeed& seed,
                                        const Tokenizer& tokenizer,
                                        const std::map<std::string, std::string>& imported) {
  auto vocabulary = masking_vocabulary(tokenizer);
  // An imported T5 keeps the ids that it was trained with.
  const TargetTokens target = find_target_tokens(tokenizer, imported);
  vocabulary->bos = target.begin;
  vocabulary->eos = target.ends.empty() ? -1 : target.ends.front();
  vocabulary->pad = find_padding(tokenizer, imported);
  return std::make_unique<T5Sources>(
      T5Options{.common = masked_options(data, seed, std::move(vocabulary)),
                .decoder_sequence_length = data.decoder_seq_length});
}

std::shared_ptr<MaskingVocabulary> masking_vocabulary(const Tokenizer& tokenizer) {
  auto vocabulary = std::make_shared<MaskingVocabulary>();
  vocabulary->size = tokenizer.vocab_size();
  vocabulary->continues.resize(static_cast<std::size_t>(vocabulary->size));
  for (std::int32_t id = 0; id < vocabulary->size; ++id) {
    vocabulary->continues[static_cast<std::size_t>(id)] = tokenizer.piece(id).starts_with("##");
  }
  const SpecialTokens& special = tokenizer.special_tokens();
  vocabulary->pad = special.pad.value_or(-1);
  vocabulary->cls = special.cls.value_or(-1);
  vocabulary->sep = special.sep.value_or(-1);
  vocabulary->mask = special.mask.value_or(-1);
  vocabulary->bos = special.bos.value_or(-1);
  vocabulary->eos = special.eos.value_or(-1);
  vocabulary->sentinels = special.sentinels;
  return vocabulary;
}

}  // namespace phalanx
