#include "phalanx/rendezvous/secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file_descriptor.h"
#include "phalanx/rendezvous/crypto.h"

namespace phalanx {
namespace {

constexpr std::size_t kLeastBytes = 16;
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kFreshBytes = 32;

// From its start, wherever the descriptor stands: children share its position. At most `limit`.
SecretBytes read_all(int descriptor, std::size_t limit, const std::string& name) {
  SecretBytes bytes(limit);
  std::size_t size = 0;
  while (size < limit) {
    const ssize_t count =
        ::pread(descriptor, bytes.bytes().data() + size, limit - size, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError("{}: cannot read: {}", name, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  bytes.shrink(size);
  return bytes;
}

void check_owner(const struct stat& status, const std::string& name) {
  if (!S_ISREG(status.st_mode)) throw PermissionError("{}: not a regular file", name);
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    throw PermissionError(
        "{}: belongs to user {}, and this process runs as user {}: whoever owns the secret can "
        "join the run",
        name, status.st_uid, ::geteuid());
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw PermissionError("{}: others may read or write it (mode {:04o}): chmod 600 {}", name,
                          status.st_mode & 07777U, name);
  }
}

}  // namespace

SecretBytes::SecretBytes(std::size_t size) : size_(size) {
  if (size == 0) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  allocated_ = (size + page - 1) / page * page;
  void* const pages =
      ::mmap(nullptr, allocated_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw SystemError("no memory for a secret: {}", std::strerror(errno));
  // If the kernel refuses, the secret is only less well protected.
  ::madvise(pages, allocated_, MADV_DONTDUMP);
  data_ = static_cast<std::byte*>(pages);
}

SecretBytes::SecretBytes(SecretBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      allocated_(std::exchange(other.allocated_, 0)) {}

SecretBytes& SecretBytes::operator=(SecretBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(allocated_, other.allocated_);
  return *this;
}

SecretBytes::~SecretBytes() {
  if (data_ == nullptr) return;
  rendezvous::wipe({data_, allocated_});
  ::munmap(data_, allocated_);
}

void SecretBytes::shrink(std::size_t size) {
  PHALANX_CHECK(size <= size_, "{} bytes of {}", size, size_);
  rendezvous::wipe(bytes().subspan(size));
  size_ = size;
}

Secret::Secret(SecretBytes bytes, std::string source)
    : bytes_(std::make_shared<const SecretBytes>(std::move(bytes))), source_(std::move(source)) {}

std::span<const std::byte> Secret::bytes() const {
  return bytes_ ? bytes_->bytes() : std::span<const std::byte>();
}

Secret read_secret_file(const std::filesystem::path& path, const std::string& flag) {
  const std::string name = path.string();
  const std::string source = flag + " " + name;
  // O_NONBLOCK: a pipe in its place is refused, not waited for.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw InputMissingError("{}: no such file", source);
    if (errno == EACCES) throw PermissionError("{}: not readable by this user", source);
    throw IoError("{}: cannot open: {}", source, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw IoError("{}: cannot look at it: {}", source, std::strerror(errno));
  }
  check_owner(status, name);
  SecretBytes bytes = read_all(file.get(), kMostBytes + 1, name);
  // The newline that an editor or `base64` leaves at the end is not meant.
  while (bytes.size() > 0 && bytes.bytes().back() == std::byte{'\n'})
    bytes.shrink(bytes.size() - 1);
  if (bytes.size() < kLeastBytes) {
    throw DataError("{}: a secret has at least {} bytes, this one has {}: head -c 32 /dev/urandom",
                    source, kLeastBytes, bytes.size());
  }
  if (bytes.size() > kMostBytes) {
    throw DataError("{}: a secret has at most {} bytes: is this the file?", source, kMostBytes);
  }
  return {std::move(bytes), source};
}

Secret make_secret() {
  SecretBytes bytes(kFreshBytes);
  rendezvous::fill_randomly(bytes.bytes());
  return {std::move(bytes), "made for this run"};
}

int share_secret(const Secret& secret) {
  // Without MFD_CLOEXEC: children inherit it.
  FileDescriptor memory(::memfd_create("phalanx-secret", MFD_ALLOW_SEALING));
  if (memory.get() < 0) {
    throw SystemError("no memory file for the run's secret: {}", std::strerror(errno));
  }
  ::fchmod(memory.get(), S_IRUSR | S_IWUSR);
  std::size_t written = 0;
  while (written < secret.bytes().size()) {
    const std::span<const std::byte> rest = secret.bytes().subspan(written);
    const ssize_t count = ::write(memory.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw SystemError("the run's secret cannot be kept: {}", std::strerror(errno));
    written += static_cast<std::size_t>(count);
  }
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return memory.release();
}

Secret inherited_secret(int descriptor) {
  const std::string source = fmt::format("the launcher's descriptor {}", descriptor);
  // Only what share_secret() made has these seals; anything else with this number is not a secret.
  const int seals = descriptor < 0 ? -1 : ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_WRITE) == 0) {
    throw PermissionError("{}: holds no secret of a run: was this process started by the launcher?",
                          source);
  }
  Secret secret(read_all(descriptor, kMostBytes, source), source);
  // Whatever this process starts is none of the run's ranks.
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return secret;
}

}  // namespace phalanx
