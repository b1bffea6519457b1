#include "phalanx/data/preprocess.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/data/corpus.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx {
namespace {

// Text per worker and batch: enough to outweigh starting threads.
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr int kMaxWorkers = 1024;

CorpusFormat format_of(const std::filesystem::path& input, const PreprocessOptions& options) {
  if (options.format) return *options.format;
  const auto extension = input.extension();
  const bool json = extension == ".json" || extension == ".jsonl" || extension == ".ndjson";
  return json ? CorpusFormat::kJsonLines : CorpusFormat::kText;
}

void check_options(const PreprocessOptions& options) {
  if (options.inputs.empty()) throw ConfigError("--input: give at least one file");
  if (options.output_prefix.empty()) throw ConfigError("--output-prefix: give one");
  if (options.json_keys.empty()) throw ConfigError("--json-keys: give at least one key");
  if (std::set(options.json_keys.begin(), options.json_keys.end()).size() !=
      options.json_keys.size()) {
    throw ConfigError("--json-keys: a key is given twice");
  }
  if (options.workers < 1 || options.workers > kMaxWorkers) {
    throw ConfigError("--workers {}: give 1 to {}", options.workers, kMaxWorkers);
  }
  if (options.progress_interval < 1) {
    throw ConfigError("--log-interval {}: must be at least 1", options.progress_interval);
  }
  if (options.split_on_blank_lines && !options.document_separator.empty()) {
    throw ConfigError("--split-on-blank-lines and --document-separator exclude each other");
  }
  if (options.append_eod && options.eod < 0) {
    throw ConfigError("--append-eod needs a tokenizer with an end-of-document token");
  }
  if (options.append_eod && options.eod >= options.vocabulary_size) {
    throw ConfigError("--append-eod: the end-of-document id {} is outside the vocabulary of {} ids",
                      options.eod, options.vocabulary_size);
  }
  const auto is_text = [&](const auto& input) {
    return format_of(input, options) == CorpusFormat::kText;
  };
  const auto text = std::find_if(options.inputs.begin(), options.inputs.end(), is_text);
  if (text != options.inputs.end() && options.json_keys != std::vector<std::string>{"text"}) {
    throw ConfigError("{}: plain text has only the key \"text\", but --json-keys asks for others",
                      text->string());
  }
  const bool cut = options.split_on_blank_lines || !options.document_separator.empty();
  if (cut && !std::all_of(options.inputs.begin(), options.inputs.end(), is_text)) {
    throw ConfigError(
        "--split-on-blank-lines and --document-separator are for plain text; a JSON "
        "line is one document");
  }
}

// A document as it lies in its file: a JSON line with its number, or a text with number 0.
struct RawDocument {
  std::string_view text;
  std::int64_t line = 0;
};

// The token ids of every text of every key, or what went wrong.
struct EncodedDocument {
  std::vector<std::vector<std::vector<std::int32_t>>> ids;
  std::exception_ptr error;
};

// Reads files in batches of documents: a batch is encoded by all workers, then written in order.
class Preprocessor {
 public:
  Preprocessor(const PreprocessOptions& options, const EncodeFunction& encode)
      : options_(options), encode_(encode) {
    for (const auto& key : options.json_keys) {
      writers_.push_back(std::make_unique<IndexedDatasetWriter>(
          options.output_prefix + "_" + key + "_document",
          token_type_for_vocabulary(options.vocabulary_size)));
    }
    for (const auto& input : options.inputs) {
      std::error_code failed;  // then the missing file is reported where it is opened
      const auto bytes = std::filesystem::file_size(input, failed);
      if (!failed) progress_.bytes_total += static_cast<std::int64_t>(bytes);
    }
  }

  void read(const std::filesystem::path& input) {
    const MappedFile file(input);
    input_ = input.string();
    text_ = {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
    const auto visit_text = [&](std::string_view document) { enqueue({document, 0}); };
    if (format_of(input, options_) == CorpusFormat::kJsonLines) {
      for_each_line(text_, [&](std::string_view line, std::int64_t number) {
        enqueue({line, number});
      });
    } else if (options_.split_on_blank_lines) {
      for_each_paragraph(text_, visit_text);
    } else if (!options_.document_separator.empty()) {
      for_each_separated(text_, options_.document_separator, visit_text);
    } else {
      visit_text(text_);
    }
    flush();
    bytes_before_ += static_cast<std::int64_t>(text_.size());
    progress_.bytes_read = bytes_before_;
  }

  PreprocessResult finish() {
    if (progress_.documents == 0) throw DataError("the input files hold no document");
    PreprocessResult result{.documents = progress_.documents,
                            .empty_documents = empty_documents_,
                            .tokens = 0,
                            .bytes_read = progress_.bytes_read,
                            .output_prefixes = {}};
    for (const auto& writer : writers_) {
      writer->commit();
      result.tokens += writer->tokens();
      result.output_prefixes.push_back(writer->prefix());
    }
    report();
    return result;
  }

 private:
  void enqueue(RawDocument document) {
    batch_.push_back(document);
    batch_bytes_ += document.text.size();
    if (batch_bytes_ >= kBatchBytes * static_cast<std::size_t>(options_.workers)) flush();
  }

  void flush() {
    const auto encoded = encode_batch();
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (encoded[i].error) std::rethrow_exception(encoded[i].error);
      for (std::size_t key = 0; key < writers_.size(); ++key) {
        write(encoded[i].ids[key], *writers_[key]);
      }
      ++progress_.documents;
      const auto text = batch_[i].text;
      progress_.bytes_read = bytes_before_ + (text.data() + text.size() - text_.data());
      if (progress_.documents % options_.progress_interval == 0) report();
    }
    batch_.clear();
    batch_bytes_ = 0;
  }

  std::vector<EncodedDocument> encode_batch() const {
    std::vector<EncodedDocument> encoded(batch_.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < batch_.size(); i = next++) {
        try {
          encoded[i].ids = encode(batch_[i]);
        } catch (...) {
          encoded[i].error = std::current_exception();
        }
      }
    };
    const auto threads = std::min<std::size_t>(options_.workers, batch_.size());
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
    helpers.clear();  // joins
    return encoded;
  }

  std::vector<std::vector<std::vector<std::int32_t>>> encode(const RawDocument& document) const {
    if (document.line == 0) return {{encode_text(document.text)}};
    const auto place = fmt::format("{}:{}", input_, document.line);
    if (static_cast<std::int64_t>(document.text.size()) > options_.max_line_bytes) {
      throw DataError("{}: a line of {} bytes; at most {} are read", place, document.text.size(),
                      options_.max_line_bytes);
    }
    std::vector<std::vector<std::vector<std::int32_t>>> ids;
    for (const auto& texts : json_texts(document.text, options_.json_keys, place)) {
      auto& of_key = ids.emplace_back();
      for (const auto& text : texts) of_key.push_back(encode_text(text));
    }
    return ids;
  }

  std::vector<std::int32_t> encode_text(std::string_view text) const {
    auto ids = encode_(text);
    for (const std::int32_t id : ids) {
      PHALANX_CHECK(id >= 0 && id < options_.vocabulary_size, "token id {} of {}", id,
                    options_.vocabulary_size);
    }
    return ids;
  }

  // Texts without tokens make no sequence; the end-of-document token belongs to the last sequence.
  void write(const std::vector<std::vector<std::int32_t>>& texts, IndexedDatasetWriter& writer) {
    const std::vector<std::int32_t>* pending = nullptr;
    for (const auto& ids : texts) {
      if (ids.empty()) continue;
      if (pending != nullptr) writer.add_sequence(*pending);
      pending = &ids;
    }
    if (pending == nullptr) {
      ++empty_documents_;
    } else if (options_.append_eod) {
      auto last = *pending;
      last.push_back(options_.eod);
      writer.add_sequence(last);
    } else {
      writer.add_sequence(*pending);
    }
    writer.end_document();
  }

  void report() const {
    if (options_.progress) options_.progress(progress_);
  }

  const PreprocessOptions& options_;
  const EncodeFunction& encode_;
  std::vector<std::unique_ptr<IndexedDatasetWriter>> writers_;
  std::string input_;  // the file being read, and its text
  std::string_view text_;
  std::vector<RawDocument> batch_;
  std::size_t batch_bytes_ = 0;
  std::int64_t bytes_before_ = 0;  // of the files before this one
  PreprocessProgress progress_;
  std::int64_t empty_documents_ = 0;
};

}  // namespace

PreprocessResult preprocess(const PreprocessOptions& options, const EncodeFunction& encode) {
  check_options(options);
  Preprocessor preprocessor(options, encode);
  for (const auto& input : options.inputs) preprocessor.read(input);
  return preprocessor.finish();
}

}  // namespace phalanx
