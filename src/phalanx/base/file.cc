#include "phalanx/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// An open descriptor and its size; the errors of opening an input, in one place.
class InputDescriptor {
 public:
  explicit InputDescriptor(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      if (errno == ENOENT || errno == ENOTDIR) {
        throw InputMissingError("{}: no such file", path.string());
      }
      throw IoError("{}: cannot open: {}", path.string(), std::strerror(errno));
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw IoError("{}: not a regular file", path.string());
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  InputDescriptor(const InputDescriptor&) = delete;
  InputDescriptor& operator=(const InputDescriptor&) = delete;
  ~InputDescriptor() { ::close(descriptor_); }

  int get() const { return descriptor_; }
  std::size_t size() const { return size_; }

 private:
  int descriptor_;
  std::size_t size_ = 0;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const InputDescriptor file(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    throw SystemError("{}: cannot map {} bytes: {}", path.string(), size_, std::strerror(errno));
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::filesystem::path& path) {
  const InputDescriptor file(path);
  std::string text(file.size(), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const auto got = ::read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw IoError("{}: cannot read beyond byte {}: {}", path.string(), done,
                    got == 0 ? "the file became shorter" : std::strerror(errno));
    }
    done += static_cast<std::size_t>(got);
  }
  return text;
}

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw OutputError("{}: cannot create: {}", temporary_.string(), std::strerror(errno));
  }
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      throw OutputError("{}: cannot write: {}", temporary_.string(), std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void DurableFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void DurableFile::commit() {
  PHALANX_CHECK(descriptor_ >= 0, "{} was committed before", path_.string());
  if (::fsync(descriptor_) != 0) {
    throw OutputError("{}: cannot sync: {}", temporary_.string(), std::strerror(errno));
  }
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw OutputError("{}: cannot put in place: {}", path_.string(), std::strerror(errno));
  }
  sync_directory(path_.parent_path());
}

void write_file_durably(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.commit();
}

void sync_directory(const std::filesystem::path& path) {
  const auto directory = path.empty() ? std::filesystem::path(".") : path;
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw OutputError("{}: cannot open the directory: {}", directory.string(),
                      std::strerror(errno));
  }
  const int synced = ::fsync(descriptor);
  ::close(descriptor);
  if (synced != 0) {
    throw OutputError("{}: cannot sync the directory: {}", directory.string(),
                      std::strerror(errno));
  }
}

}  // namespace phalanx
