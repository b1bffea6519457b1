#pragma once
// What bench_data measures, each beside its limit. Every function prints its rows.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::bench {

struct DataOptions {
  std::filesystem::path directory;  // for files; goes away at the end
  double seconds = 1.0;             // of each measured body
  std::string input;                // text; empty: generated
  std::int64_t document_bytes = 16384;
  std::int64_t training_mb = 20;
  std::int64_t documents = 10'000'000;  // of the data set that training starts with
  std::int64_t workers = 2;
  double tokens_per_second = 60'000;  // of a step that data is loaded for
};

// MB/s of one thread over the documents of a text, with this tokenizer or, for a null pointer, with
// vocabularies that are learned on the spot.
void measure_encoding(const DataOptions& options, std::unique_ptr<Tokenizer> tokenizer);
// Learning 32,768 ids of generated text.
void measure_bpe_training(const DataOptions& options);
// JSON lines into an indexed data set.
void measure_preprocessing(const DataOptions& options);
// Batches of a GPT, with and without threads, for steps that compute for a given time.
void measure_loading(const DataOptions& options);
// From the files of a data set to its first sample.
void measure_data_startup(const DataOptions& options);

}  // namespace phalanx::bench
