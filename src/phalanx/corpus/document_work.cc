#include "phalanx/corpus/document_work.h"

#include <simdjson.h>

#include <algorithm>
#include <atomic>

#include "phalanx/base/error.h"
#include "phalanx/corpus/json_lines.h"

namespace phalanx {
namespace {

// How much text the threads have at once: enough to keep them busy while one works on a long
// document.
constexpr std::size_t kBatchesPerWorker = 4;

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

// Line breaks of a text before the first line that is not UTF-8.
std::int64_t lines_before_bad_bytes(std::string_view text) {
  for (std::int64_t lines = 0;; ++lines) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos || !is_utf8(text.substr(0, end))) return lines;
    text.remove_prefix(end + 1);
  }
}

// The line breaks of the file before a segment.
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

// Sets the flag when the scope ends, also by an exception.
struct Leaving {
  std::atomic<bool>& flag;
  ~Leaving() { flag = true; }
};

// The documents of one batch.
class BatchWork {
 public:
  BatchWork(const TextBatch& batch, const CorpusOptions& options, const CorpusWork::Encode& encode)
      : batch_(batch),
        options_(options),
        encode_(encode),
        reader_(options.json_keys),
        line_(batch.first_line) {}

  EncodedBatch run() {
    encoded_.segment = batch_.segment;
    encoded_.has_lines = batch_.format == CorpusFormat::kJsonLines;
    encoded_.input_bytes = batch_.input_bytes;
    if (batch_.long_line > 0) {
      encoded_.faults.push_back({batch_.first_line, too_long(batch_.long_line)});
    }
    for (std::size_t i = 0; i < batch_.documents.size(); ++i) {
      const std::string_view document = batch_.document(i);
      try {
        add(document);
        ++encoded_.documents;
        encoded_.text_bytes += std::ssize(document);
      } catch (const DataError& error) {
        encoded_.faults.push_back({line_of(i), error.what()});
        // That is more than may be left out: the rest of the batch is not needed.
        if (std::ssize(encoded_.faults) > options_.skip_bad_lines) break;
      }
      if (!encoded_.has_lines && encoded_.warnings.empty() && !is_utf8(document)) {
        encoded_.warnings.push_back(
            {line_of(i) + lines_before_bad_bytes(document),
             "not UTF-8: the bytes are kept as they are (text in Latin-1 and the like is to be "
             "converted, as iconv does)"});
      }
    }
    return std::move(encoded_);
  }

 private:
  void add(std::string_view document) {
    if (std::ssize(document) > options_.max_document_bytes) {
      throw DataError("{}", too_long(std::ssize(document)));
    }
    KeyTexts texts;
    if (!encoded_.has_lines) {
      texts.push_back({document});
      encode_(texts, encoded_);
      return;
    }
    const auto strings = reader_.texts(document, "");
    for (const auto& of_key : strings) texts.emplace_back(of_key.begin(), of_key.end());
    encode_(texts, encoded_);
  }

  std::string too_long(std::int64_t bytes) const {
    return fmt::format("a line of {} bytes; at most {} are read (--max-document-bytes)", bytes,
                       options_.max_document_bytes);
  }

  // It is called for documents in order, so that many faults in a batch do not take quadratic time.
  std::int64_t line_of(std::size_t document) {
    const std::size_t begin = batch_.documents[document].begin;
    line_ += batch_.line_breaks(counted_, begin);
    counted_ = begin;
    return line_;
  }

  const TextBatch& batch_;
  const CorpusOptions& options_;
  const CorpusWork::Encode& encode_;
  JsonTextReader reader_;
  EncodedBatch encoded_;
  std::int64_t line_;  // at `counted_`
  std::size_t counted_ = 0;
};

}  // namespace

void CorpusWork::run(std::span<const CorpusSegment> segments, const Encode& encode,
                     const Take& take) {
  std::atomic<bool> is_left = false;
  const auto is_stopped = [&] {
    return is_left || (options_.stop_requested && options_.stop_requested());
  };
  const CorpusReaderOptions reading = {
      .batch_bytes = options_.batch_bytes,
      .max_document_bytes = options_.max_document_bytes,
      .format_of = [&](const std::string& path,
                       const CorpusHead& head) { return corpus_format(options_, path, head); },
      .cut_text = options_.cut_text};
  CorpusReader reader(segments, reading, is_stopped);
  const std::size_t under_way =
      options_.batch_bytes * kBatchesPerWorker * static_cast<std::size_t>(options_.workers);
  CorpusPipeline pipeline(
      options_.workers, under_way, [&](TextBatch& batch) { return reader.next(batch); },
      [&](const TextBatch& batch) { return BatchWork(batch, options_, encode).run(); });
  // Destroyed before the pipeline, which waits for the reader, which may wait for a pipe.
  const Leaving leaving{is_left};
  while (auto batch = pipeline.next(stop_if_asked_)) {
    stop_if_asked_();
    judge(*batch, segments[batch->segment]);
    take(*batch);
  }
  stop_if_asked_();  // the reader may have stopped early
}

std::string CorpusWork::place_of(const CorpusSegment& segment, std::int64_t line) {
  const auto [first, is_new] = first_lines_.try_emplace({segment.path, segment.range.begin});
  if (is_new) first->second = lines_before(segment);
  return fmt::format("{}:{}", corpus_input_name(segment.path), first->second + line);
}

// Leaves bad lines out, unless there are too many.
void CorpusWork::judge(const EncodedBatch& batch, const CorpusSegment& segment) {
  for (const auto& fault : batch.faults) {
    const auto problem = fmt::format("{}: {}", place_of(segment, fault.line), fault.problem);
    ++bad_lines_;
    if (!batch.has_lines || options_.skip_bad_lines == 0) throw DataError("{}", problem);
    if (bad_lines_ > options_.skip_bad_lines) {
      throw DataError("{} (bad line number {}; --skip-bad-lines {})", problem, bad_lines_,
                      options_.skip_bad_lines);
    }
    if (options_.skipped) options_.skipped(problem);
  }
  for (const auto& warning : batch.warnings) {
    if (!options_.warned || !warned_.insert(segment.path).second) continue;
    options_.warned(fmt::format("{}: {}", place_of(segment, warning.line), warning.problem));
  }
}

CorpusCounts for_each_corpus_text(const CorpusOptions& options,
                                  const std::function<void(std::string_view text)>& visit) {
  check_corpus_options(options);
  const std::vector<CorpusSegment> segments = corpus_segments(options);
  CorpusCounts counts;
  CorpusWork work(options, [] {});
  work.run(
      segments,
      [&](const KeyTexts& texts, EncodedBatch&) {
        for (const auto& of_key : texts) std::for_each(of_key.begin(), of_key.end(), visit);
      },
      [&](const EncodedBatch& batch) {
        counts.documents += batch.documents;
        counts.text_bytes += batch.text_bytes;
      });
  counts.skipped_lines = work.bad_lines();
  if (counts.documents == 0) throw DataError("the input files hold no document");
  return counts;
}

}  // namespace phalanx
