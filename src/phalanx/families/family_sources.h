#pragma once
// The sources of samples that a configuration describes, by model family.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "phalanx/data/data_sources.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/masking.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// What the order of samples depends on besides the data flags. Only --data-cache-path decides
// whether the cache is used; the cache must outlive the sources.
struct SourceSeed {
  std::uint32_t seed = 1234;
  const IndexCache* cache = nullptr;
  std::function<void()> poll = nullptr;
  bool is_quiet = false;  // of conversations: nothing is said of what they are and what is left out
};

// Ids are below `vocabulary_size`; `eod` is -1 where there is no end-of-document. Documents that
// are packed take a multiple of `document_multiple` rows.
std::unique_ptr<DataSources> gpt_sources(const DataConfig& data, const SourceSeed& seed,
                                         std::int64_t vocabulary_size, std::int32_t eod,
                                         std::int64_t document_multiple = 1);
// ConfigError as BertSources and T5Sources, and for --data-order sequential.
std::unique_ptr<DataSources> bert_sources(const DataConfig& data, const SourceSeed& seed,
                                          const Tokenizer& tokenizer, bool binary_head);
// `imported`: TrainConfig's.
std::unique_ptr<DataSources> t5_sources(const DataConfig& data, const SourceSeed& seed,
                                        const Tokenizer& tokenizer,
                                        const std::map<std::string, std::string>& imported = {});

// Word boundaries are found by "##", which begins the pieces that continue a word.
std::shared_ptr<MaskingVocabulary> masking_vocabulary(const Tokenizer& tokenizer);

}  // namespace phalanx
