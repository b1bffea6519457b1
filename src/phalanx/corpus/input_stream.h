#pragma once
// A corpus file as a stream of bytes: plain, gzip or zstd, recognised by its first bytes and not by
// its name. Memory does not grow with the size of the file.

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

// The name of an input for messages: the path, or "standard input".
inline std::string corpus_input_name(const std::string& path) {
  return path == kStandardInput ? "standard input" : path;
}

// Called while a pipe has nothing to read: whether to stop.
using StopRequested = std::function<bool()>;

// The size of an input, without reading it; -1 if it is not known, as for a pipe. Throws the errors
// of opening it that show without reading.
std::int64_t corpus_input_size(const std::string& path);

class CorpusInput {
 public:
  // Opens a file, a pipe or standard input. InputMissingError if it is not there, IoError for a
  // directory or if it cannot be opened. A range of a compressed file must be all of it
  // (PHALANX_CHECK).
  explicit CorpusInput(const std::string& path, CorpusRange range = {},
                       StopRequested stop_requested = nullptr);
  CorpusInput(const CorpusInput&) = delete;
  CorpusInput& operator=(const CorpusInput&) = delete;
  ~CorpusInput();

  // Reads the next bytes of the text: at least one, unless the text has ended or a stop
  // was requested. DataError with file and offset if compressed data is damaged or ends early,
  // IoError if the file cannot be read.
  std::size_t read(std::span<char> out);
  // The next `count` bytes of the text, or all that are left, without taking them: read() begins
  // with them. Valid until the next read(). Same errors as read().
  std::string_view peek(std::size_t count);

  Compression compression() const { return compression_; }
  const std::string& name() const;  // for messages
  // Bytes of the file that were read, from the beginning of the range.
  std::int64_t position() const;
  // Bytes of the range; -1 if not known, as for a pipe.
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
  std::string peeked_;  // text that was peeked at
  std::size_t peeked_and_read_ = 0;
};

}  // namespace phalanx
