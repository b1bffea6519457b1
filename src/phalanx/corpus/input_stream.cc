#include "phalanx/corpus/input_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
// NOLINTNEXTLINE(readability-identifier-naming): makes zlib leave the input const
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 18;
constexpr int kPollMilliseconds = 100;

int open_input(const std::string& path) {
  if (path == kStandardInput) return ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

bool starts_with(std::span<const char> bytes, std::string_view magic) {
  return std::string_view(bytes.data(), bytes.size()).starts_with(magic);
}

Compression compression_of(std::span<const char> head) {
  if (starts_with(head, "\x1f\x8b\x08")) return Compression::kGzip;
  // A frame, or the skippable frame that parallel compressors write first (0x184D2A50 to ...5F).
  const bool skippable = head.size() >= 4 && (static_cast<unsigned char>(head[0]) >> 4) == 5 &&
                         starts_with(head.subspan(1), "\x2a\x4d\x18");
  if (skippable || starts_with(head, "\x28\xb5\x2f\xfd")) return Compression::kZstd;
  return Compression::kNone;
}

[[noreturn]] void throw_unopened(const std::string& name) {
  if (errno == ENOENT || errno == ENOTDIR) throw InputMissingError("{}: no such file", name);
  throw IoError("{}: cannot open: {}", name, std::strerror(errno));
}

// The bytes from `here` to the end; -1 if not known.
std::int64_t size_of_file(const std::string& name, const struct stat& status, std::int64_t here) {
  if (S_ISDIR(status.st_mode)) {
    throw InputMissingError("{}: is a directory; name its files, as in {}/*.jsonl", name, name);
  }
  return S_ISREG(status.st_mode) ? std::max<std::int64_t>(status.st_size - here, 0) : -1;
}

}  // namespace

std::int64_t corpus_input_size(const std::string& path) {
  const bool is_standard = path == kStandardInput;
  struct stat status {};
  const int failed = is_standard ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (failed != 0) throw_unopened(corpus_input_name(path));
  const auto here = is_standard ? ::lseek(STDIN_FILENO, 0, SEEK_CUR) : 0;
  return size_of_file(corpus_input_name(path), status, std::max<std::int64_t>(here, 0));
}

// The bytes as they lie on the disk, through one buffer.
class CorpusInput::File {
 public:
  File(const std::string& path, CorpusRange range, StopRequested stop_requested)
      : name_(corpus_input_name(path)),
        descriptor_(open_input(path)),
        range_(range),
        stop_requested_(std::move(stop_requested)) {
    if (descriptor_ < 0) throw_unopened(name_);
    try {
      look();
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor_); }

  // The buffered bytes that were not used; empty only at the end.
  std::span<const char> bytes() {
    if (used_ == buffered_) fill(0);
    return {buffer_.data() + used_, buffered_ - used_};
  }
  // The first bytes, as many of these as there are.
  std::span<const char> head(std::size_t count) {
    while (buffered_ < count && fill(buffered_)) {
    }
    return {buffer_.data(), std::min(count, buffered_)};
  }
  void use(std::size_t count) {
    used_ += count;
    position_ += static_cast<std::int64_t>(count);
  }

  const std::string& name() const { return name_; }
  std::int64_t position() const { return position_; }
  // The position in the file.
  std::int64_t offset() const { return range_.begin + position_; }
  std::int64_t size() const { return size_; }
  bool is_stopped() const { return stop_requested_ && stop_requested_(); }

 private:
  void look() {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw_unopened(name_);
    is_regular_ = S_ISREG(status.st_mode);
    // Standard input may be in the middle of a file.
    if (is_regular_) {
      range_.begin = std::max<std::int64_t>(range_.begin, ::lseek(descriptor_, 0, SEEK_CUR));
    }
    size_ = size_of_file(name_, status, range_.begin);
    if (!is_regular_) return;
    if (range_.end >= 0) size_ = std::max<std::int64_t>(range_.end - range_.begin, 0);
    if (::lseek(descriptor_, range_.begin, SEEK_SET) != range_.begin) {
      throw IoError("{}: cannot go to byte {}: {}", name_, range_.begin, std::strerror(errno));
    }
  }

  // Reads into the buffer after its first `kept` bytes. False at the end.
  bool fill(std::size_t kept) {
    buffer_.resize(kInputBytes);
    used_ = 0;
    buffered_ = kept;
    std::size_t room = buffer_.size() - kept;
    if (range_.end >= 0) {
      room = std::min(room, static_cast<std::size_t>(std::max<std::int64_t>(size_ - read_, 0)));
    }
    while (room > 0 && wait()) {
      const auto got = ::read(descriptor_, buffer_.data() + kept, room);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got < 0) {
        throw IoError("{}: cannot read beyond byte {}: {}", name_, range_.begin + read_,
                      std::strerror(errno));
      }
      if (got == 0 && range_.end >= 0) {
        throw IoError("{}: cannot read beyond byte {}: the file became shorter", name_,
                      range_.begin + read_);
      }
      read_ += got;
      buffered_ += static_cast<std::size_t>(got);
      return got > 0;
    }
    return false;
  }

  // Waits until there is something to read; false if asked to stop. A file never waits.
  bool wait() const {
    if (is_regular_) return true;
    while (!is_stopped()) {
      pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, kPollMilliseconds) != 0) return true;
    }
    return false;
  }

  std::string name_;
  int descriptor_;
  CorpusRange range_;
  StopRequested stop_requested_;
  bool is_regular_ = false;
  std::int64_t size_ = -1;
  std::vector<char> buffer_;
  std::size_t buffered_ = 0;
  std::size_t used_ = 0;
  std::int64_t read_ = 0;
  std::int64_t position_ = 0;
};

class CorpusInput::Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::size_t read(File& file, std::span<char> out) = 0;
};

class CorpusInput::PlainDecoder final : public Decoder {
 public:
  std::size_t read(File& file, std::span<char> out) override {
    const auto bytes = file.bytes();
    const std::size_t count = std::min(bytes.size(), out.size());
    std::copy_n(bytes.begin(), count, out.begin());
    file.use(count);
    return count;
  }
};

// Reads one member after another, as gzip concatenates them; zeros after the last one are padding.
class CorpusInput::GzipDecoder final : public Decoder {
 public:
  GzipDecoder() {
    constexpr int kGzipWrapper = 16;
    if (::inflateInit2(&stream_, MAX_WBITS + kGzipWrapper) != Z_OK) {
      throw SystemError("zlib cannot be initialised");
    }
  }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;
  ~GzipDecoder() override { ::inflateEnd(&stream_); }

  std::size_t read(File& file, std::span<char> out) override {
    while (true) {
      const auto bytes = file.bytes();
      if (bytes.empty() && file.is_stopped()) return 0;
      if (between_members_ && !begin_member(file, bytes)) return 0;
      if (between_members_) continue;
      if (bytes.empty()) {
        throw DataError("{}: the gzip data ends early, at byte {}: the file was cut short",
                        file.name(), file.offset());
      }
      stream_.next_in = reinterpret_cast<const Bytef*>(bytes.data());
      stream_.avail_in = static_cast<uInt>(bytes.size());
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(std::min(out.size(), std::size_t{1} << 30));
      const uInt room = stream_.avail_out;
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      file.use(bytes.size() - stream_.avail_in);
      if (status == Z_STREAM_END) {
        between_members_ = true;
      } else if (status == Z_MEM_ERROR) {
        throw std::bad_alloc();
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw DataError("{}: damaged gzip data at byte {}: {}", file.name(), file.offset(),
                        stream_.msg != nullptr ? stream_.msg : "it needs a dictionary");
      }
      if (stream_.avail_out < room) return room - stream_.avail_out;
    }
  }

 private:
  // False at the end of the file, whose padding it skips; then the state stays between members.
  bool begin_member(File& file, std::span<const char> bytes) {
    if (bytes.empty()) return false;
    const auto zeros = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c != '\0'; });
    if (zeros != bytes.begin()) {
      file.use(static_cast<std::size_t>(zeros - bytes.begin()));
      is_padded_ = true;
      return true;
    }
    if (is_padded_ || bytes.front() != '\x1f') {
      throw DataError("{}: what follows the gzip data at byte {} is no gzip data", file.name(),
                      file.offset());
    }
    ::inflateReset(&stream_);
    between_members_ = false;
    return true;
  }

  z_stream stream_{};
  bool between_members_ = false;
  bool is_padded_ = false;
};

class CorpusInput::ZstdDecoder final : public Decoder {
 public:
  ZstdDecoder() : stream_(::ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;
  ~ZstdDecoder() override { ::ZSTD_freeDStream(stream_); }

  std::size_t read(File& file, std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos == 0) {
      const auto bytes = file.bytes();
      if (bytes.empty() && (is_between_frames_ || file.is_stopped())) return 0;
      ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
      const std::size_t status = ::ZSTD_decompressStream(stream_, &output, &input);
      file.use(input.pos);
      if (::ZSTD_isError(status) != 0) {
        throw DataError("{}: damaged zstd data at byte {}: {}", file.name(), file.offset(),
                        ::ZSTD_getErrorName(status));
      }
      is_between_frames_ = status == 0;
      if (bytes.empty() && output.pos == 0 && !is_between_frames_) {
        throw DataError("{}: the zstd data ends early, at byte {}: the file was cut short",
                        file.name(), file.offset());
      }
    }
    return output.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool is_between_frames_ = false;
};

CorpusInput::CorpusInput(const std::string& path, CorpusRange range, StopRequested stop_requested)
    : file_(std::make_unique<File>(path, range, std::move(stop_requested))) {
  constexpr std::size_t kMagicBytes = 4;
  if (range.begin == 0) compression_ = compression_of(file_->head(kMagicBytes));
  PHALANX_CHECK(compression_ == Compression::kNone || range.end < 0, "a range of {}", path);
  switch (compression_) {
    case Compression::kNone:
      decoder_ = std::make_unique<PlainDecoder>();
      break;
    case Compression::kGzip:
      decoder_ = std::make_unique<GzipDecoder>();
      break;
    case Compression::kZstd:
      decoder_ = std::make_unique<ZstdDecoder>();
      break;
  }
}

CorpusInput::~CorpusInput() = default;

std::size_t CorpusInput::read(std::span<char> out) {
  if (out.empty()) return 0;
  if (peeked_and_read_ == peeked_.size()) return decoder_->read(*file_, out);
  const std::size_t count = std::min(out.size(), peeked_.size() - peeked_and_read_);
  std::copy_n(peeked_.data() + peeked_and_read_, count, out.begin());
  peeked_and_read_ += count;
  return count;
}

std::string_view CorpusInput::peek(std::size_t count) {
  peeked_.erase(0, std::exchange(peeked_and_read_, 0));
  std::size_t filled = peeked_.size();
  peeked_.resize(std::max(filled, count));
  while (filled < count) {
    const std::size_t got = decoder_->read(*file_, std::span(peeked_).subspan(filled));
    if (got == 0) break;
    filled += got;
  }
  peeked_.resize(filled);
  return std::string_view(peeked_).substr(0, count);
}

const std::string& CorpusInput::name() const { return file_->name(); }
std::int64_t CorpusInput::position() const {
  const std::size_t ahead = peeked_.size() - peeked_and_read_;
  return file_->position() -
         (compression_ == Compression::kNone ? static_cast<std::int64_t>(ahead) : 0);
}
std::int64_t CorpusInput::size() const { return file_->size(); }

}  // namespace phalanx
