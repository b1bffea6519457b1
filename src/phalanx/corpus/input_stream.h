#pragma once
// A corpus file as a stream of bytes: plain, gzip or zstd, told by its first bytes and not by its
// name. What it takes of memory does not depend on the size of the file.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace phalanx {

enum class Compression { kNone, kGzip, kZstd };

// The name that stands for standard input.
inline constexpr const char* kStandardInput = "-";

// Bytes of a file as it lies on the disk; `end` -1: up to its end.
struct CorpusRange {
  std::int64_t begin = 0;
  std::int64_t end = -1;
};

// How people know an input: the path, or "standard input".
inline std::string corpus_input_name(const std::string& path) {
  return path == kStandardInput ? "standard input" : path;
}

// Asked while a pipe has nothing to read.
using StopRequested = std::function<bool()>;

// Bytes of an input without reading any; -1 where nobody knows, as of a pipe. Errors of opening one
// that can be told without.
std::int64_t corpus_input_size(const std::string& path);

class CorpusInput {
 public:
  // Opens a file, a pipe or standard input. InputMissingError where it is not there, IoError for a
  // directory and where it cannot be opened. A range of a compressed file is a mistake of the
  // programmer's, except from 0 to the end.
  explicit CorpusInput(const std::string& path, CorpusRange range = {},
                       StopRequested stop_requested = nullptr);
  CorpusInput(const CorpusInput&) = delete;
  CorpusInput& operator=(const CorpusInput&) = delete;
  ~CorpusInput();

  // The next bytes of the text, at least one unless it has ended or was told to stop. DataError
  // names file and offset where compressed data is damaged or ends early, IoError where the file
  // cannot be read.
  std::size_t read(std::span<char> out);
  // The next bytes of the text, which the next read() begins with: so many, or all that there are.
  // Valid until then. Errors as of read().
  std::string_view peek(std::size_t count);

  Compression compression() const { return compression_; }
  const std::string& name() const;  // how people know it
  // Bytes of the file that were used, from the beginning of the range.
  std::int64_t position() const;
  // Bytes of the range; -1 where nobody knows, as of a pipe.
  std::int64_t size() const;

 private:
  class File;
  class Decoder;
  class PlainDecoder;
  class GzipDecoder;
  class ZstdDecoder;

  std::unique_ptr<File> file_;
  Compression compression_ = Compression::kNone;
  std::unique_ptr<Decoder> decoder_;
  std::string peeked_;  // of the text
  std::size_t peeked_and_read_ = 0;
};

}  // namespace phalanx
