#include "phalanx/data/preprocess.h"

#include <glob.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/data/preprocess_partitions.h"
#include "phalanx/data/preprocess_pipeline.h"

namespace phalanx {
namespace {

// Text under way in the threads: enough to outlast a document that takes long.
constexpr std::size_t kBatchesPerWorker = 4;
constexpr int kMaxWorkers = 1024;
constexpr std::int64_t kMaxPartitions = 9999;

CorpusFormat format_of(const std::string& input, const PreprocessOptions& options) {
  if (options.format) return *options.format;
  if (input == kStandardInput) return CorpusFormat::kJsonLines;
  std::filesystem::path path(input);
  for (const char* compressed : {".gz", ".zst", ".zstd"}) {
    if (path.extension() == compressed) path.replace_extension();
  }
  const auto extension = path.extension();
  const bool json = extension == ".json" || extension == ".jsonl" || extension == ".ndjson";
  return json ? CorpusFormat::kJsonLines : CorpusFormat::kText;
}

void check_numbers(const PreprocessOptions& options) {
  if (options.workers < 1 || options.workers > kMaxWorkers) {
    throw ConfigError("--workers {}: give 1 to {}", options.workers, kMaxWorkers);
  }
  if (options.progress_interval < 1) {
    throw ConfigError("--log-interval {}: must be at least 1", options.progress_interval);
  }
  if (options.skip_bad_lines < 0) {
    throw ConfigError("--skip-bad-lines {}: must be at least 0", options.skip_bad_lines);
  }
  if (options.partitions < 1 || options.partitions > kMaxPartitions) {
    throw ConfigError("--partitions {}: give 1 to {}", options.partitions, kMaxPartitions);
  }
  if (options.max_document_bytes < 1 || options.max_document_bytes > (std::int64_t{1} << 40)) {
    throw ConfigError("--max-document-bytes {}: give 1 to 2^40", options.max_document_bytes);
  }
  if (options.append_eod && options.eod < 0) {
    throw ConfigError("--append-eod needs a tokenizer with an end-of-document token");
  }
  if (options.append_eod && options.eod >= options.vocabulary_size) {
    throw ConfigError("--append-eod: the end-of-document id {} is outside the vocabulary of {} ids",
                      options.eod, options.vocabulary_size);
  }
}

void check_formats(const PreprocessOptions& options) {
  const auto is_text = [&](const auto& input) {
    return format_of(input, options) == CorpusFormat::kText;
  };
  const auto text = std::find_if(options.inputs.begin(), options.inputs.end(), is_text);
  const bool has_text = text != options.inputs.end();
  if (has_text && options.json_keys != std::vector<std::string>{"text"}) {
    throw ConfigError("{}: plain text has only the key \"text\", but --json-keys asks for others",
                      *text);
  }
  if (has_text && options.skip_bad_lines > 0) {
    throw ConfigError("{}: plain text has no bad lines; --skip-bad-lines is for JSON lines", *text);
  }
  const bool cut = options.split_on_blank_lines || !options.document_separator.empty();
  if (cut && !std::all_of(options.inputs.begin(), options.inputs.end(), is_text)) {
    throw ConfigError(
        "--split-on-blank-lines and --document-separator are for plain text; a JSON "
        "line is one document");
  }
}

void check_options(const PreprocessOptions& options) {
  if (options.inputs.empty()) throw ConfigError("--input: give at least one file");
  if (options.output_prefix.empty()) throw ConfigError("--output-prefix: give one");
  if (options.json_keys.empty()) throw ConfigError("--json-keys: give at least one key");
  if (std::set(options.json_keys.begin(), options.json_keys.end()).size() !=
      options.json_keys.size()) {
    throw ConfigError("--json-keys: a key is given twice");
  }
  check_numbers(options);
  if (options.split_on_blank_lines && !options.document_separator.empty()) {
    throw ConfigError("--split-on-blank-lines and --document-separator exclude each other");
  }
  const auto from_pipe = std::count(options.inputs.begin(), options.inputs.end(), kStandardInput);
  if (from_pipe > 1) throw ConfigError("--input: standard input can be read only once");
  if (from_pipe > 0 && options.partitions > 1) {
    throw ConfigError("--partitions {}: standard input cannot be cut into parts; give files",
                      options.partitions);
  }
  if (options.sentences.keep_newlines && !options.split_sentences) {
    throw ConfigError("--keep-newlines needs --split-sentences");
  }
  check_formats(options);
}

// Of the sequences of one key.
using Ids = std::vector<std::vector<std::int32_t>>;

// Turns documents into sequences. Any number of threads may use one.
class DocumentEncoder {
 public:
  DocumentEncoder(const PreprocessOptions& options, std::span<const CorpusSegment> segments,
                  const EncodeFunction& encode)
      : options_(options),
        segments_(segments),
        encode_(encode),
        type_(token_type_for_vocabulary(options.vocabulary_size)) {}

  EncodedBatch encode(const TextBatch& batch) const {
    EncodedBatch encoded;
    encoded.input_bytes = batch.input_bytes;
    encoded.blocks.assign(options_.json_keys.size(), SequenceBlock(type_));
    if (batch.long_line > 0) {
      encoded.faults.push_back({batch.segment, batch.first_line, too_long(batch.long_line)});
    }
    JsonTextReader reader(options_.json_keys);
    std::int64_t line = batch.first_line;  // at `counted`: a batch of faults takes no square
    std::size_t counted = 0;
    for (std::size_t i = 0; i < batch.documents.size(); ++i) {
      try {
        const bool is_text = segments_[batch.segment].rules.format == CorpusFormat::kText;
        add(batch.document(i), is_text ? nullptr : &reader, encoded);
      } catch (const DataError& error) {
        const std::size_t begin = batch.documents[i].begin;
        line += batch.line_breaks(std::exchange(counted, begin), begin);
        encoded.faults.push_back({batch.segment, line, error.what()});
        // That is more than may be left out: nobody needs the rest.
        if (std::ssize(encoded.faults) > options_.skip_bad_lines) break;
      }
    }
    return encoded;
  }

 private:
  std::string too_long(std::int64_t bytes) const {
    return fmt::format("a line of {} bytes; at most {} are read (--max-document-bytes)", bytes,
                       options_.max_document_bytes);
  }

  // A line where there is a reader of lines, else a text. Nothing is added where it throws.
  void add(std::string_view document, JsonTextReader* reader, EncodedBatch& encoded) const {
    const auto bytes = static_cast<std::int64_t>(document.size());
    if (bytes > options_.max_document_bytes) throw DataError("{}", too_long(bytes));
    std::vector<Ids> keys;
    if (reader == nullptr) {
      encode_text(document, keys.emplace_back());
    } else {
      for (const auto& texts : reader->texts(document, "")) {
        Ids& ids = keys.emplace_back();
        for (const auto& text : texts) encode_text(text, ids);
      }
    }
    for (std::size_t k = 0; k < keys.size(); ++k) {
      Ids& sequences = keys[k];
      if (sequences.empty()) ++encoded.empty_documents;
      // The end-of-document token belongs to the last sequence.
      if (options_.append_eod && !sequences.empty()) sequences.back().push_back(options_.eod);
      for (const auto& sequence : sequences) encoded.blocks[k].add_sequence(sequence);
      encoded.blocks[k].end_document();
    }
    ++encoded.documents;
    encoded.text_bytes += bytes;
  }

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
  std::span<const CorpusSegment> segments_;
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
    for (std::size_t k = 0; k < writers_.size(); ++k) writers_[k]->add_block(batch.blocks[k]);
  }
  void copy(std::size_t key, const std::string& prefix) {
    writers_[key]->copy_dataset(IndexedDataset(prefix));
  }
  // A full disk shows before the first of them is in place.
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

// Line breaks before a place in a file.
std::int64_t lines_before(const CorpusSegment& segment) {
  if (segment.range.begin == 0) return 0;
  CorpusInput input(segment.path, {0, segment.range.begin});
  std::vector<char> bytes(std::size_t{1} << 20);
  std::int64_t lines = 0;
  while (const std::size_t got = input.read(bytes)) {
    lines += std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(got), '\n');
  }
  return lines;
}

// Says so when the scope ends, however it does.
struct Leaving {
  std::atomic<bool>& flag;
  ~Leaving() { flag = true; }
};

class Preprocessor {
 public:
  Preprocessor(const PreprocessOptions& options, const EncodeFunction& encode)
      : options_(options),
        encode_(encode),
        type_(token_type_for_vocabulary(options.vocabulary_size)) {
    const char* level = options.split_sentences ? "sentence" : "document";
    for (const auto& key : options.json_keys) {
      prefixes_.push_back(fmt::format("{}_{}_{}", options.output_prefix, key, level));
    }
    for (const auto& input : options.inputs) {
      files_.push_back({.path = input,
                        .rules = {.format = format_of(input, options),
                                  .split_on_blank_lines = options.split_on_blank_lines,
                                  .separator = options.document_separator}});
    }
  }

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
    bad_lines_ = result_.skipped_lines;
    if (bad_lines_ > options_.skip_bad_lines) {
      throw DataError("complete partitions left out {} bad lines; --skip-bad-lines {}", bad_lines_,
                      options_.skip_bad_lines);
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
    const DocumentEncoder encoder(options_, segments, encode_);
    std::atomic<bool> is_left = false;
    CorpusReader reader(
        segments,
        {.batch_bytes = options_.batch_bytes, .max_document_bytes = options_.max_document_bytes},
        [&] { return is_left || is_stopped(); });
    const std::size_t under_way =
        options_.batch_bytes * kBatchesPerWorker * static_cast<std::size_t>(options_.workers);
    PreprocessPipeline pipeline(
        options_.workers, under_way, [&](TextBatch& batch) { return reader.next(batch); },
        [&](const TextBatch& batch) { return encoder.encode(batch); });
    // Before the pipeline waits for a reader that waits for a pipe.
    const Leaving leaving{is_left};
    PartitionCounts counts;
    const PreprocessProgress before = progress_;
    while (auto batch = pipeline.next([this] { stop_if_asked(); })) {
      stop_if_asked();
      for (const auto& fault : batch->faults) {
        judge(fault, segments[fault.segment]);
        ++counts.skipped_lines;
      }
      outputs.add(*batch);
      counts.documents += batch->documents;
      counts.empty_documents += batch->empty_documents;
      counts.text_bytes += batch->text_bytes;
      show(*batch, before);
    }
    stop_if_asked();  // the reader may have left early
    return counts;
  }

  // A line is left out, unless there have been too many.
  void judge(const CorpusFault& fault, const CorpusSegment& segment) {
    const bool is_line = segment.rules.format == CorpusFormat::kJsonLines;
    const auto [first, is_new] = first_lines_.try_emplace({segment.path, segment.range.begin});
    if (is_new) first->second = lines_before(segment);
    const auto problem =
        fmt::format("{}:{}: {}", segment.path == kStandardInput ? "standard input" : segment.path,
                    first->second + fault.line, fault.problem);
    ++bad_lines_;
    if (!is_line || options_.skip_bad_lines == 0) throw DataError("{}", problem);
    if (bad_lines_ > options_.skip_bad_lines) {
      throw DataError("{} (bad line number {}; --skip-bad-lines {})", problem, bad_lines_,
                      options_.skip_bad_lines);
    }
    if (options_.skipped) options_.skipped(problem);
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

  bool is_stopped() const { return options_.stop_requested && options_.stop_requested(); }
  void stop_if_asked() const {
    if (!is_stopped()) return;
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

  // All that the bytes of a partition depend on, beside its inputs.
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
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> first_lines_;  // of segments
  std::int64_t bad_lines_ = 0;
  PreprocessProgress progress_;
  PreprocessResult result_;
};

}  // namespace

std::vector<std::string> matching_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const auto& pattern : patterns) {
    std::error_code ignored;
    if (pattern.find_first_of("*?[") == std::string::npos ||
        std::filesystem::exists(pattern, ignored)) {
      files.push_back(pattern);
      continue;
    }
    ::glob_t found{};
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (status == GLOB_NOSPACE) throw std::bad_alloc();
    if (names.empty()) throw InputMissingError("{}: no file has such a name", pattern);
    std::sort(names.begin(), names.end());
    files.insert(files.end(), names.begin(), names.end());
  }
  return files;
}

PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode) {
  check_options(options);
  return Preprocessor(options, encode).run();
}

}  // namespace phalanx
