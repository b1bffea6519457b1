#include "phalanx/comm/rendezvous/secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "phalanx/base/error.h"
#include "phalanx/comm/rendezvous/crypto.h"

namespace phalanx {
namespace {

constexpr std::size_t kLeastBytes = 16;
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kFreshBytes = 32;

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// A core file does not show the pages that hold it. (Theirs alone is the advice, so whatever else
// lies on them is missing there too; that the kernel may refuse harms nothing.)
void keep_out_of_cores(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): madvise wants the page's address.
  ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTDUMP);
}

// From its start, wherever the descriptor stands: children share its position. At most `limit`.
std::vector<std::byte> read_all(int descriptor, std::size_t limit, const std::string& name) {
  std::vector<std::byte> bytes(limit);
  std::size_t size = 0;
  while (size < limit) {
    const ssize_t count =
        ::pread(descriptor, bytes.data() + size, limit - size, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError("{}: cannot read: {}", name, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  bytes.resize(size);
  keep_out_of_cores(bytes);
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

Secret read_secret_file(const std::filesystem::path& path, const std::string& flag) {
  const std::string name = path.string();
  const std::string source = flag + " " + name;
  // O_NONBLOCK: a pipe in its place is refused, not waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
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
  Secret secret{read_all(file.get(), kMostBytes + 1, name), source};
  // The newline that an editor or `base64` leaves at the end is not meant.
  while (!secret.bytes.empty() && secret.bytes.back() == std::byte{'\n'}) secret.bytes.pop_back();
  if (secret.bytes.size() < kLeastBytes) {
    throw DataError("{}: a secret has at least {} bytes, this one has {}: head -c 32 /dev/urandom",
                    source, kLeastBytes, secret.bytes.size());
  }
  if (secret.bytes.size() > kMostBytes) {
    throw DataError("{}: a secret has at most {} bytes: is this the file?", source, kMostBytes);
  }
  return secret;
}

Secret make_secret() {
  Secret secret{std::vector<std::byte>(kFreshBytes), "made for this run"};
  rendezvous::fill_randomly(secret.bytes);
  keep_out_of_cores(secret.bytes);
  return secret;
}

int share_secret(const Secret& secret) {
  // Without MFD_CLOEXEC: children inherit it.
  Descriptor memory(::memfd_create("phalanx-secret", MFD_ALLOW_SEALING));
  if (memory.get() < 0) {
    throw SystemError("no memory file for the run's secret: {}", std::strerror(errno));
  }
  ::fchmod(memory.get(), S_IRUSR | S_IWUSR);
  std::size_t written = 0;
  while (written < secret.bytes.size()) {
    const ssize_t count =
        ::write(memory.get(), secret.bytes.data() + written, secret.bytes.size() - written);
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
  Secret secret{read_all(descriptor, kMostBytes, source), source};
  // Whatever this process starts is none of the run's ranks.
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return secret;
}

}  // namespace phalanx
