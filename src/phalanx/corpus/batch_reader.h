#pragma once
// Reads the files of a corpus as batches of whole documents, in the order of the files. It holds
// one batch and the longest document in memory. A byte order mark at the beginning of a file is
// skipped.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/corpus/documents.h"
#include "phalanx/corpus/input_stream.h"
#include "phalanx/corpus/text_format.h"

namespace phalanx {

// A file, or a part of one that holds whole documents.
struct CorpusSegment {
  std::string path;
  CorpusRange range = {};
  CorpusRules rules = {};
  // The format is found when the input is opened, because a pipe can be read only once.
  bool is_format_open = false;
  friend bool operator==(const CorpusSegment& a, const CorpusSegment& b) {
    return a.path == b.path && a.range.begin == b.range.begin && a.range.end == b.range.end;
  }
};

// Whole documents from one segment.
struct TextBatch {
  struct Document {
    std::size_t begin = 0;  // in the text
    std::size_t size = 0;
  };
  std::string text;
  std::vector<Document> documents;
  std::size_t segment = 0;
  CorpusFormat format = CorpusFormat::kText;
  std::int64_t first_line = 1;  // number of the text's first line in its segment
  // If not 0, the batch has no documents and stands for one line that is too long: its bytes.
  std::int64_t long_line = 0;
  // Bytes of the files read so far, as they lie on the disk.
  std::int64_t input_bytes = 0;

  std::string_view document(std::size_t i) const {
    return std::string_view(text).substr(documents[i].begin, documents[i].size);
  }
  // The number of line breaks between two positions of the text.
  std::int64_t line_breaks(std::size_t begin, std::size_t end) const {
    return std::count(text.begin() + static_cast<std::ptrdiff_t>(begin),
                      text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  }
};

struct CorpusReaderOptions {
  std::size_t batch_bytes = std::size_t{1} << 20;
  std::int64_t max_document_bytes = std::int64_t{1} << 30;
  // Finds the format of an input from its first bytes, if the options leave it open.
  std::function<CorpusFormat(const std::string& path, const CorpusHead& head)> format_of = nullptr;
  // Size of the longest prefix of a text that may be a piece of its own (0: none). A file that is
  // one document is cut there; null: it is not cut.
  std::function<std::size_t(std::string_view text)> cut_text = nullptr;
};

class CorpusReader {
 public:
  CorpusReader(std::span<const CorpusSegment> segments, const CorpusReaderOptions& options,
               StopRequested stop_requested);

  // Reads the next batch; false at the end, or if asked to stop. DataError for a text document that
  // is too long, and the errors of CorpusInput and look_at_corpus().
  bool next(TextBatch& batch);

 private:
  bool open();
  std::size_t whole_size() const;
  bool take(TextBatch& batch);
  bool fill(std::size_t goal);
  void give(std::size_t size, TextBatch& batch);
  void pass_long_line(TextBatch& batch);
  std::int64_t input_bytes() const;

  std::span<const CorpusSegment> segments_;
  CorpusReaderOptions options_;
  StopRequested stop_requested_;
  std::size_t segment_ = 0;
  std::unique_ptr<CorpusInput> input_;
  CorpusRules rules_;   // rules of the current segment
  std::string buffer_;  // text that is read and not yet in a batch
  std::int64_t line_ = 1;
  std::int64_t input_bytes_before_ = 0;  // input bytes of earlier segments
};

}  // namespace phalanx
