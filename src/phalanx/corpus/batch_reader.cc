#include "phalanx/corpus/batch_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
CorpusReader::CorpusReader(std::span<const CorpusSegment> segments,
                           const CorpusReaderOptions& options, StopRequested stop_requested)
    : segments_(segments), options_(options), stop_requested_(std::move(stop_requested)) {}

bool CorpusReader::next(TextBatch& batch) {
  for (; segment_ < segments_.size(); ++segment_) {
    if (!input_ && !open()) return false;
    if (take(batch)) return true;
    input_bytes_before_ += input_->position();
    input_.reset();
  }
  return false;
}

// False if it was asked to stop.
bool CorpusReader::open() {
  const CorpusSegment& segment = segments_[segment_];
  input_ = std::make_unique<CorpusInput>(segment.path, segment.range, stop_requested_);
  rules_ = segment.rules;
  line_ = 1;
  if (segment.range.begin > 0) return true;
  const std::string_view text = input_->peek(kCorpusHeadBytes);
  // After a stop the text may be incomplete: its format is not judged.
  if (stop_requested_ && stop_requested_()) return false;
  const CorpusHead head = look_at_corpus(text, input_->name());
  if (segment.is_format_open) rules_.format = options_.format_of(segment.path, head);
  check_line_ends(head, rules_, input_->name());
  std::array<char, 3> mark{};
  input_->read(std::span(mark).first(head.mark_bytes));
  return true;
}

// The longest prefix of the buffer whose documents do not depend on the text to come.
std::size_t CorpusReader::whole_size() const {
  const bool is_piece = rules_.format == CorpusFormat::kText && !rules_.split_on_blank_lines &&
                        rules_.separator.empty() && options_.cut_text;
  return is_piece ? options_.cut_text(buffer_) : settled_size(buffer_, rules_);
}

bool CorpusReader::take(TextBatch& batch) {
  // Bytes that may have to be read after a document of the largest size before its end is known.
  const std::size_t most =
      static_cast<std::size_t>(options_.max_document_bytes) + rules_.separator.size() + 2;
  // It doubles, so that the search for the end of a long document does not take quadratic time.
  for (std::size_t goal = options_.batch_bytes;; goal = std::min(2 * goal, most)) {
    const bool at_end = !fill(goal);
    const std::size_t size = at_end ? buffer_.size() : whole_size();
    if (at_end && size == 0) return false;
    if (size > 0) {
      give(size, batch);
      return true;
    }
    if (buffer_.size() < most) continue;
    if (rules_.format == CorpusFormat::kJsonLines) {
      pass_long_line(batch);
      return true;
    }
    throw DataError(
        "{}: a document of more than {}, from line {} on: cut it with --split-on-blank-lines or "
        "--document-separator, or raise --max-document-bytes",
        input_->name(), format_bytes(options_.max_document_bytes), line_);
  }
}

// False if the input ended before the buffer had this many bytes.
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
  batch.format = rules_.format;
  batch.first_line = line_;
  const std::string_view text = batch.text;
  for_each_document(text, rules_, [&](std::string_view document) {
    batch.documents.push_back(
        {static_cast<std::size_t>(document.data() - text.data()), document.size()});
  });
  batch.input_bytes = input_bytes();
  line_ += batch.line_breaks(0, size);
}

// Reads the rest of the line and drops it.
void CorpusReader::pass_long_line(TextBatch& batch) {
  batch = TextBatch();
  batch.segment = segment_;
  batch.format = rules_.format;
  batch.first_line = line_;
  std::size_t end = 0;  // end of the part of the line that was read
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
