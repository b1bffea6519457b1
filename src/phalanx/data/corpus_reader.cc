#include "phalanx/data/corpus_reader.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
CorpusReader::CorpusReader(std::span<const CorpusSegment> segments,
                           const CorpusReaderOptions& options, StopRequested stop_requested)
    : segments_(segments), options_(options), stop_requested_(std::move(stop_requested)) {}

bool CorpusReader::next(TextBatch& batch) {
  for (; segment_ < segments_.size(); ++segment_) {
    const CorpusSegment& segment = segments_[segment_];
    if (!input_) {
      input_ = std::make_unique<CorpusInput>(segment.path, segment.range, stop_requested_);
      line_ = 1;
    }
    if (take(batch)) return true;
    input_bytes_before_ += input_->position();
    input_.reset();
  }
  return false;
}

bool CorpusReader::take(TextBatch& batch) {
  const CorpusRules& rules = segments_[segment_].rules;
  // What may follow a document of the greatest size before it is known to be whole.
  const std::size_t most =
      static_cast<std::size_t>(options_.max_document_bytes) + rules.separator.size() + 2;
  // Grown by doubling, so that looking for the end of a long document takes no square of its size.
  for (std::size_t goal = options_.batch_bytes;; goal = std::min(2 * goal, most)) {
    const bool at_end = !fill(goal);
    const std::size_t size = at_end ? buffer_.size() : settled_size(buffer_, rules);
    if (at_end && size == 0) return false;
    if (size > 0) {
      give(size, batch);
      return true;
    }
    if (buffer_.size() < most) continue;
    if (rules.format == CorpusFormat::kJsonLines) {
      pass_long_line(batch);
      return true;
    }
    throw DataError(
        "{}: a document of more than {}, from line {} on: cut it with --split-on-blank-lines or "
        "--document-separator, or raise --max-document-bytes",
        input_->name(), format_bytes(options_.max_document_bytes), line_);
  }
}

// False where the input ended before the buffer had so many bytes.
bool CorpusReader::fill(std::size_t goal) {
  std::size_t filled = buffer_.size();
  if (filled >= goal) return true;
  buffer_.resize(goal);
  while (filled < goal) {
    const std::size_t got = input_->read(std::span(buffer_).subspan(filled));
    if (got == 0) break;
    filled += got;
  }
  buffer_.resize(filled);
  return filled == goal;
}

void CorpusReader::give(std::size_t size, TextBatch& batch) {
  std::string rest = buffer_.substr(size);
  buffer_.resize(size);
  batch = TextBatch();
  batch.text = std::exchange(buffer_, std::move(rest));
  batch.segment = segment_;
  batch.first_line = line_;
  const std::string_view text = batch.text;
  for_each_document(text, segments_[segment_].rules, [&](std::string_view document) {
    batch.documents.push_back(
        {static_cast<std::size_t>(document.data() - text.data()), document.size()});
  });
  batch.input_bytes = input_bytes();
  line_ += batch.line_breaks(0, size);
}

// The rest of the line is read and forgotten.
void CorpusReader::pass_long_line(TextBatch& batch) {
  batch = TextBatch();
  batch.segment = segment_;
  batch.first_line = line_;
  std::size_t end = 0;  // of what was read of the line
  while ((end = buffer_.find('\n')) == std::string::npos) {
    batch.long_line += static_cast<std::int64_t>(buffer_.size());
    buffer_.clear();
    fill(options_.batch_bytes);
    if (buffer_.empty()) break;
  }
  if (end != std::string::npos) {
    batch.long_line += static_cast<std::int64_t>(end);
    buffer_.erase(0, end + 1);
    ++line_;
  }
  batch.input_bytes = input_bytes();
}

std::int64_t CorpusReader::input_bytes() const {
  const bool is_plain = input_->compression() == Compression::kNone;
  const auto kept = is_plain ? static_cast<std::int64_t>(buffer_.size()) : 0;
  return input_bytes_before_ + input_->position() - kept;
}

}  // namespace phalanx
