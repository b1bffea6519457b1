#include "phalanx/corpus/preprocess.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/corpus/document_work.h"
#include "phalanx/corpus/preprocess_partitions.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMaxPartitions = 9999;

void check_options(const PreprocessOptions& options) {
  check_corpus_options(options);
  if (options.output_prefix.empty()) throw ConfigError("--output-prefix: give one");
  if (options.progress_interval < 1) {
    throw ConfigError("--log-interval {}: must be at least 1", options.progress_interval);
  }
  if (options.partitions < 1 || options.partitions > kMaxPartitions) {
    throw ConfigError("--partitions {}: give 1 to {}", options.partitions, kMaxPartitions);
  }
  if (options.append_eod && options.eod < 0) {
    throw ConfigError("--append-eod needs a tokenizer with an end-of-document token");
  }
  if (options.append_eod && options.eod >= options.vocabulary_size) {
    throw ConfigError("--append-eod: the end-of-document id {} is outside the vocabulary of {} ids",
                      options.eod, options.vocabulary_size);
  }
  const auto& inputs = options.inputs;
  if (options.partitions > 1 &&
      std::find(inputs.begin(), inputs.end(), kStandardInput) != inputs.end()) {
    throw ConfigError("--partitions {}: standard input cannot be cut into parts; give files",
                      options.partitions);
  }
  if (options.sentences.keep_newlines && !options.split_sentences) {
    throw ConfigError("--keep-newlines needs --split-sentences");
  }
}

// The ids of one key, by sequence.
using Ids = std::vector<std::vector<std::int32_t>>;

// Turns documents into sequences. Any number of threads may use one.
class DocumentEncoder {
 public:
  DocumentEncoder(const PreprocessOptions& options, const EncodeFunction& encode)
      : options_(options),
        encode_(encode),
        type_(token_type_for_vocabulary(options.vocabulary_size)) {}

  // If it throws, nothing has been added.
  void add(const KeyTexts& texts, EncodedBatch& batch) const {
    std::vector<Ids> keys(texts.size());
    for (std::size_t k = 0; k < texts.size(); ++k) {
      for (const auto text : texts[k]) encode_text(text, keys[k]);
    }
    if (batch.blocks.empty()) batch.blocks.assign(keys.size(), SequenceBlock(type_));
    for (std::size_t k = 0; k < keys.size(); ++k) {
      Ids& sequences = keys[k];
      if (sequences.empty()) ++batch.empty_documents;
      // The end-of-document token belongs to the last sequence.
      if (options_.append_eod && !sequences.empty()) sequences.back().push_back(options_.eod);
      for (const auto& sequence : sequences) batch.blocks[k].add_sequence(sequence);
      batch.blocks[k].end_document();
    }
  }

 private:
  // Texts without tokens make no sequence.
  void encode_text(std::string_view text, Ids& sequences) const {
    if (!options_.split_sentences) {
      encode_sequence(text, sequences);
      return;
    }
    for (const auto sentence : phalanx::split_sentences(text, options_.sentences)) {
      encode_sequence(sentence, sequences);
    }
  }

  void encode_sequence(std::string_view text, Ids& sequences) const {
    auto ids = encode_(text);
    if (ids.size() >= INT32_MAX) {
      throw DataError("a text of {} tokens; an index can hold 2,147,483,647 with its end: split it",
                      ids.size());
    }
    for (const std::int32_t id : ids) {
      PHALANX_CHECK(id >= 0 && id < options_.vocabulary_size, "token id {} of {}", id,
                    options_.vocabulary_size);
    }
    if (!ids.empty()) sequences.push_back(std::move(ids));
  }

  const PreprocessOptions& options_;
  const EncodeFunction& encode_;
  TokenType type_;
};

// The datasets of all keys, under these prefixes.
class Outputs {
 public:
  Outputs(const std::vector<std::string>& prefixes, TokenType type) {
    for (const auto& prefix : prefixes) {
      writers_.push_back(std::make_unique<IndexedDatasetWriter>(prefix, type));
    }
  }
  void add(const EncodedBatch& batch) {
    for (std::size_t k = 0; k < batch.blocks.size(); ++k) writers_[k]->add_block(batch.blocks[k]);
  }
  void copy(std::size_t key, const std::string& prefix) {
    writers_[key]->copy_dataset(IndexedDataset(prefix));
  }
  // A full disk is noticed before the first of them is in place.
  void commit() {
    for (const auto& writer : writers_) writer->finish();
    for (const auto& writer : writers_) writer->commit();
  }
  std::int64_t tokens() const {
    std::int64_t sum = 0;
    for (const auto& writer : writers_) sum += writer->tokens();
    return sum;
  }
  std::int64_t sequences() const {
    std::int64_t sum = 0;
    for (const auto& writer : writers_) sum += writer->sequences();
    return sum;
  }

 private:
  std::vector<std::unique_ptr<IndexedDatasetWriter>> writers_;
};

class Preprocessor {
 public:
  Preprocessor(const PreprocessOptions& options, const EncodeFunction& encode)
      : options_(options),
        encode_(encode),
        type_(token_type_for_vocabulary(options.vocabulary_size)),
        prefixes_(preprocess_output_prefixes(options)),
        files_(corpus_segments(options)),
        work_(options, [this] { stop_if_asked(); }) {}

  PreprocessResult run() {
    if (options_.partitions > 1) {
      run_partitions();
    } else {
      count_bytes(files_);
      Outputs outputs(prefixes_, type_);
      add(process(files_, outputs));
      finish(outputs);
    }
    result_.output_prefixes = prefixes_;
    report();
    return std::move(result_);
  }

 private:
  void run_partitions() {
    const auto partitions = partition_segments(files_, options_.partitions);
    std::vector<PartitionRecord> records;
    std::vector<std::optional<PartitionCounts>> done;
    const std::string settings = settings_text();
    progress_.bytes_total = 0;
    for (std::int64_t p = 0; p < options_.partitions; ++p) {
      const auto& segments = partitions[static_cast<std::size_t>(p)];
      records.emplace_back(partition_path(options_.output_prefix, p) + ".json", settings, segments);
      done.push_back(records.back().read(partition_prefixes(p)));
      if (!done.back()) count_bytes(segments);
    }
    for (std::int64_t p = 0; p < options_.partitions; ++p) {
      auto& counts = done[static_cast<std::size_t>(p)];
      result_.reused_partitions += counts ? 1 : 0;
      if (counts) add(*counts);
    }
    work_.add_bad_lines(result_.skipped_lines);
    if (result_.skipped_lines > options_.skip_bad_lines) {
      throw DataError("complete partitions left out {} bad lines; --skip-bad-lines {}",
                      result_.skipped_lines, options_.skip_bad_lines);
    }
    for (std::int64_t p = 0; p < options_.partitions; ++p) {
      if (done[static_cast<std::size_t>(p)]) continue;
      Outputs outputs(partition_prefixes(p), type_);
      const auto counts = process(partitions[static_cast<std::size_t>(p)], outputs);
      outputs.commit();
      records[static_cast<std::size_t>(p)].write(counts);
      add(counts);
    }
    join_partitions();
  }

  void join_partitions() {
    {
      Outputs outputs(prefixes_, type_);
      for (std::int64_t p = 0; p < options_.partitions; ++p) {
        const auto parts = partition_prefixes(p);
        for (std::size_t k = 0; k < parts.size(); ++k) {
          stop_if_asked();
          outputs.copy(k, parts[k]);
        }
      }
      finish(outputs);
    }
    remove_partitions(options_.output_prefix, prefixes_);
  }

  void finish(Outputs& outputs) {
    if (result_.documents == 0) throw DataError("the input files hold no document");
    outputs.commit();
    result_.tokens = outputs.tokens();
    result_.sequences = outputs.sequences();
  }

  // Reads, encodes and writes.
  PartitionCounts process(const std::vector<CorpusSegment>& segments, Outputs& outputs) {
    const DocumentEncoder encoder(options_, encode_);
    PartitionCounts counts;
    const PreprocessProgress before = progress_;
    work_.run(
        segments, [&](const KeyTexts& texts, EncodedBatch& batch) { encoder.add(texts, batch); },
        [&](const EncodedBatch& batch) {
          counts.skipped_lines += std::ssize(batch.faults);
          outputs.add(batch);
          counts.documents += batch.documents;
          counts.empty_documents += batch.empty_documents;
          counts.text_bytes += batch.text_bytes;
          show(batch, before);
        });
    return counts;
  }

  void show(const EncodedBatch& batch, const PreprocessProgress& before) {
    const auto interval = options_.progress_interval;
    const bool is_due =
        (progress_.documents + batch.documents) / interval > progress_.documents / interval;
    progress_.documents += batch.documents;
    progress_.text_bytes += batch.text_bytes;
    progress_.bytes_read = before.bytes_read + batch.input_bytes;
    if (is_due) report();
  }
  void report() const {
    if (options_.progress) options_.progress(progress_);
  }

  void count_bytes(const std::vector<CorpusSegment>& segments) {
    std::int64_t sum = std::max<std::int64_t>(progress_.bytes_total, 0);
    bool is_known = true;
    for (const auto& segment : segments) {
      const std::int64_t whole = corpus_input_size(segment.path);
      const bool is_part = segment.range.end >= 0;
      sum += is_part ? segment.range.end - segment.range.begin : whole;
      is_known = is_known && whole >= 0;
    }
    progress_.bytes_total = is_known ? sum : -1;
  }

  void add(const PartitionCounts& counts) {
    result_.documents += counts.documents;
    result_.empty_documents += counts.empty_documents;
    result_.skipped_lines += counts.skipped_lines;
    result_.text_bytes += counts.text_bytes;
  }

  void stop_if_asked() const {
    if (!options_.stop_requested || !options_.stop_requested()) return;
    if (options_.partitions == 1) throw PreprocessStopped("stopped; nothing was written");
    throw PreprocessStopped(
        "stopped; complete partitions are kept, and the same command goes on from there");
  }

  std::string partition_path(const std::string& prefix, std::int64_t number) const {
    return partition_name(prefix, number + 1, options_.partitions);
  }
  std::vector<std::string> partition_prefixes(std::int64_t number) const {
    std::vector<std::string> prefixes;
    for (const auto& prefix : prefixes_) prefixes.push_back(partition_path(prefix, number));
    return prefixes;
  }

  // Everything that the bytes of a partition depend on, besides its inputs.
  std::string settings_text() const {
    const nlohmann::ordered_json settings = {
        {"json_keys", options_.json_keys},
        {"format", options_.format ? static_cast<int>(*options_.format) : -1},
        {"skips_bad_lines", options_.skip_bad_lines > 0},
        {"split_on_blank_lines", options_.split_on_blank_lines},
        {"document_separator", options_.document_separator},
        {"max_document_bytes", options_.max_document_bytes},
        {"split_sentences", options_.split_sentences},
        {"language", static_cast<int>(options_.sentences.language)},
        {"keep_newlines", options_.sentences.keep_newlines},
        {"append_eod", options_.append_eod},
        {"eod", options_.eod},
        {"vocabulary_size", options_.vocabulary_size},
        {"tokenizer", options_.tokenizer}};
    return settings.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  const PreprocessOptions& options_;
  const EncodeFunction& encode_;
  TokenType type_;
  std::vector<std::string> prefixes_;
  std::vector<CorpusSegment> files_;
  CorpusWork work_;
  PreprocessProgress progress_;
  PreprocessResult result_;
};

}  // namespace

std::vector<std::string> preprocess_output_prefixes(const PreprocessOptions& options) {
  std::vector<std::string> prefixes;
  for (const auto& key : options.json_keys) {
    prefixes.push_back(fmt::format("{}_{}_{}", options.output_prefix, key,
                                   options.split_sentences ? "sentence" : "document"));
  }
  return prefixes;
}

PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode) {
  check_options(options);
  return Preprocessor(options, encode).run();
}

}  // namespace phalanx
