#pragma once
// For the tests of masked samples: a corpus of seven small documents whose samples are known from
// Megatron-core, and its vocabulary of 40 lines, every fourth of which goes on with a word.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/data/masking.h"
#include "phalanx/data/split.h"
#include "phalanx/data/test_files.h"

namespace phalanx::testing {

inline std::uint32_t mix(std::uint32_t i, std::uint32_t q) {
  std::uint32_t x = i * 0x9E3779B1U + q * 0x85EBCA77U;
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ x >> 16;
}

using SentencesOfDocuments = std::vector<std::vector<std::int32_t>>;
inline const SentencesOfDocuments kToyLengths{{6, 9, 4}, {},       {12, 3, 3, 8, 5, 7}, {10},
                                              {2, 2, 2}, {513, 4}, {7, 11, 5, 6, 9}};

// Documents of sentences of these lengths; token k of the file is 5 + mix(k, 0) % 35.
inline void write_sentences(const std::string& prefix, const SentencesOfDocuments& lengths) {
  IndexedDatasetWriter writer(prefix, TokenType::kU16);
  std::uint32_t next = 0;
  for (const auto& document : lengths) {
    for (const auto length : document) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
      for (auto& id : ids) id = 5 + static_cast<std::int32_t>(mix(next++, 0) % 35);
      writer.add_sequence(ids);
    }
    writer.end_document();
  }
  writer.commit();
}

// 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], 4 [MASK], words and pieces up to 39, 40 [BOS], 41 [EOS], then
// sentinels.
inline std::shared_ptr<MaskingVocabulary> toy_vocabulary(std::int32_t sentinels = 0) {
  auto vocabulary = std::make_shared<MaskingVocabulary>();
  vocabulary->size = 42 + sentinels;
  vocabulary->continues.resize(static_cast<std::size_t>(vocabulary->size));
  for (std::size_t id = 5; id < 40; ++id) vocabulary->continues[id] = id % 4 == 3;
  vocabulary->pad = 0;
  vocabulary->cls = 2;
  vocabulary->sep = 3;
  vocabulary->mask = 4;
  vocabulary->bos = 40;
  vocabulary->eos = 41;
  for (std::int32_t k = 0; k < sentinels; ++k) vocabulary->sentinels.push_back(42 + k);
  return vocabulary;
}

// Samples of the corpus.
template <typename Dataset, typename Sample, typename Options>
class ToySamplesTest : public ::testing::Test {
 protected:
  ToySamplesTest() { write_sentences(prefix_, kToyLengths); }

  // 20 samples of the whole corpus.
  std::shared_ptr<const Dataset> dataset(const Options& options) const {
    auto file = std::make_shared<const IndexedDataset>(prefix_);
    const IndexRange all{0, file->documents()};
    return std::make_shared<const Dataset>(std::move(file), all, 20, options);
  }
  static Sample sample(const Dataset& data, std::int64_t i) {
    Sample sample;
    data.sample(i, sample);
    return sample;
  }

  TemporaryDirectory directory_;
  std::string prefix_ = directory_ / "toy";
};

}  // namespace phalanx::testing
