#include "phalanx/data/block_digests.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/input_descriptor.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallestBlock = std::int64_t{16} << 20;
constexpr std::int64_t kMostBlocks = 4096;
constexpr std::int64_t kBytesBetweenPolls = std::int64_t{1} << 20;
constexpr double kBytesPerSecond = 128.0 * (1 << 20);

// Thrown by poll() when the thread must end.
struct Stopped {};

// Runs only on an idle core and an idle disk. If the system refuses that, the rate is still
// bounded. Signals are left to other threads, except those of its own faults.
void give_way() {
  sigset_t others;
  ::sigfillset(&others);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigdelset(&others, own);
  ::pthread_sigmask(SIG_BLOCK, &others, nullptr);
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
  constexpr int kWhoProcess = 1;  // of ioprio_set, where 0 is the calling thread
  constexpr int kIdleClass = 3 << 13;
  ::syscall(SYS_ioprio_set, kWhoProcess, 0, kIdleClass);
}

// Delays a caller that takes steps faster than the rate; lost time is not made up for.
class Pace {
 public:
  explicit Pace(const std::stop_token& stop) : stop_(stop) {}
  void step(std::int64_t bytes) {
    const auto now = Clock::now();
    next_ = std::max(next_, now) +
            std::chrono::duration_cast<Clock::duration>(
                std::chrono::duration<double>(static_cast<double>(bytes) / kBytesPerSecond));
    if (stop_.stop_requested()) throw Stopped();
    std::this_thread::sleep_until(next_);
    if (stop_.stop_requested()) throw Stopped();
  }

 private:
  using Clock = std::chrono::steady_clock;

  const std::stop_token& stop_;
  Clock::time_point next_ = Clock::now();
};

IndexRequest request_of(const FileIdentity& file) {
  const std::int64_t block = digest_block_bytes(file.bytes);
  return {.name = "blocks",
          .description = fmt::format(
              "block digests, version 1\nbytes: {}\nmodified: {}\ninode: {}\ndevice: {}\n"
              "bytes of a block: {}\n",
              file.bytes, file.modified_ns, file.inode, file.device, block),
          .bytes = ceil_div(file.bytes, block) * static_cast<std::int64_t>(sizeof(std::uint64_t))};
}

void read_exactly(const InputDescriptor& file, const fs::path& path, std::int64_t at,
                  std::span<std::byte> out) {
  while (!out.empty()) {
    const auto got = ::pread(file.get(), out.data(), out.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw IoError("{}: cannot read beyond byte {}: {}", path.string(), at,
                    got == 0 ? "the file became shorter" : std::strerror(errno));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    at += got;
  }
}

}  // namespace

std::int64_t digest_block_bytes(std::int64_t file_bytes) {
  std::int64_t block = kSmallestBlock;
  while (ceil_div(file_bytes, block) > kMostBlocks) block *= 2;
  return block;
}

std::int64_t BlockDigests::blocks() const {
  return block_bytes == 0 ? 0 : ceil_div(file_bytes, block_bytes);
}

std::uint64_t BlockDigests::digest() const { return xxh3(std::as_bytes(std::span(digests))); }

std::optional<std::int64_t> differing_block(const BlockDigests& a, const BlockDigests& b) {
  if (a.file_bytes != b.file_bytes || a.block_bytes != b.block_bytes) return std::nullopt;
  const std::size_t common = std::min(a.digests.size(), b.digests.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (a.digests[i] != b.digests[i]) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

std::string byte_range(const BlockDigests& digests, std::int64_t block) {
  const std::int64_t begin = block * digests.block_bytes;
  const std::int64_t end = std::min(begin + digests.block_bytes, digests.file_bytes);
  return fmt::format("bytes {} to {}", format_count(begin), format_count(end - 1));
}

FileIdentity identity_of_file(const fs::path& path) {
  const InputDescriptor file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw IoError("{}: cannot be looked at: {}", path.string(), std::strerror(errno));
  }
  return {
      .bytes = status.st_size,
      .modified_ns = status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec,
      .inode = status.st_ino,
      .device = status.st_dev};
}

void read_block_digests(const fs::path& path, const std::function<void()>& poll,
                        const std::function<void(std::uint64_t)>& take) {
  const InputDescriptor file(path);
  const auto size = static_cast<std::int64_t>(file.size());
  const std::int64_t block_bytes = digest_block_bytes(size);
  // A file that is larger than memory would displace everything else in the page cache.
  const bool passes_through = size > physical_memory() / 4;
  std::array<std::byte, std::size_t{32} << 10> piece;
  for (std::int64_t begin = 0; begin < size; begin += block_bytes) {
    const std::int64_t end = std::min(begin + block_bytes, size);
    Xxh3 digest;
    for (std::int64_t at = begin; at < end;) {
      if (poll && at % kBytesBetweenPolls == 0) poll();
      const auto some = std::span(piece).first(
          static_cast<std::size_t>(std::min<std::int64_t>(end - at, std::ssize(piece))));
      read_exactly(file, path, at, some);
      digest.update(some);
      at += std::ssize(some);
    }
    if (passes_through) ::posix_fadvise(file.get(), begin, end - begin, POSIX_FADV_DONTNEED);
    take(digest.digest());
  }
}

BlockDigests block_digests_of(const fs::path& path, const std::function<void()>& poll) {
  BlockDigests all{.file_bytes = identity_of_file(path).bytes, .block_bytes = 0, .digests = {}};
  all.block_bytes = digest_block_bytes(all.file_bytes);
  read_block_digests(path, poll, [&](std::uint64_t digest) { all.digests.push_back(digest); });
  return all;
}

std::optional<BlockDigests> find_block_digests(const IndexCache& cache, const FileIdentity& file) {
  const auto found = cache.find(request_of(file));
  if (!found) return std::nullopt;
  BlockDigests digests{.file_bytes = file.bytes,
                       .block_bytes = digest_block_bytes(file.bytes),
                       .digests = std::vector<std::uint64_t>(found->bytes.size() / 8)};
  std::memcpy(digests.digests.data(), found->bytes.data(), found->bytes.size());
  return digests;
}

void keep_block_digests(const IndexCache& cache, const FileIdentity& file,
                        const BlockDigests& digests) {
  if (digests.is_complete()) cache.put(request_of(file), std::as_bytes(std::span(digests.digests)));
}

BlockDigests DigestThread::Progress::so_far() const {
  const std::int64_t known = count.load(std::memory_order_acquire);
  return {.file_bytes = digests.file_bytes,
          .block_bytes = digests.block_bytes,
          .digests = {digests.digests.begin(), digests.digests.begin() + known}};
}

DigestThread::DigestThread(std::vector<File> files, const IndexCache* cache) : cache_(cache) {
  bool is_done = true;
  std::int64_t read = 0;
  for (File& file : files) {
    auto progress = std::make_unique<Progress>();
    progress->identity = identity_of_file(file.path);
    progress->file = std::move(file);
    BlockDigests& digests = progress->digests;
    digests.file_bytes = progress->identity.bytes;
    digests.block_bytes = digest_block_bytes(digests.file_bytes);
    digests.digests.resize(static_cast<std::size_t>(digests.blocks()));
    Progress& placed = *files_.emplace_back(std::move(progress));
    if (take_cached(placed)) continue;
    if (digests.file_bytes > kReadAtOnce - read) {
      is_done = false;
      continue;
    }
    read += digests.file_bytes;
    read_block_digests(placed.file.path, nullptr, [&](std::uint64_t d) { take(placed, d); });
  }
  if (is_done) return;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    log_warning("the digests of the data's blocks are not taken: a thread was refused: {}",
                error.what());
  }
}

DigestThread::~DigestThread() {
  thread_.request_stop();
  wait();
}

bool DigestThread::take_cached(Progress& progress) {
  if (cache_ == nullptr) return false;
  const auto cached = find_block_digests(*cache_, progress.identity);
  if (!cached) return false;
  for (const std::uint64_t digest : cached->digests) take(progress, digest);
  return true;
}

void DigestThread::take(Progress& progress, std::uint64_t digest) {
  const std::int64_t block = progress.count.load(std::memory_order_relaxed);
  // A file that grew has no more blocks than it had.
  if (block == std::ssize(progress.digests.digests)) return;
  progress.digests.digests[static_cast<std::size_t>(block)] = digest;
  progress.count.store(block + 1, std::memory_order_release);
  const auto& expected = progress.file.expected;
  const bool is_comparable = expected && expected->file_bytes == progress.digests.file_bytes &&
                             expected->block_bytes == progress.digests.block_bytes &&
                             block < std::ssize(expected->digests);
  if (is_comparable && expected->digests[static_cast<std::size_t>(block)] != digest &&
      progress.differing < 0) {
    progress.differing = block;
  }
}

void DigestThread::run(const std::stop_token& stop) {
  give_way();
  Pace pace(stop);
  for (const auto& progress : files_) {
    if (progress->so_far().is_complete()) continue;
    try {
      read_block_digests(
          progress->file.path, [&] { pace.step(kBytesBetweenPolls); },
          [&](std::uint64_t digest) { take(*progress, digest); });
      if (identity_of_file(progress->file.path) != progress->identity) {
        progress->count = 0;
        log_warning("{}: it changed while its blocks were read: their digests are not kept",
                    progress->file.path.string());
      } else if (cache_ != nullptr) {
        keep_block_digests(*cache_, progress->identity, progress->so_far());
      }
    } catch (const Stopped&) {
      return;
    } catch (const std::exception& error) {
      log_warning("{}: the digests of its blocks end after {} of {}: {}",
                  progress->file.path.string(), progress->count.load(), progress->digests.blocks(),
                  error.what());
    }
  }
}

std::vector<BlockDigests> DigestThread::digests() const {
  std::vector<BlockDigests> all;
  for (const auto& progress : files_) all.push_back(progress->so_far());
  return all;
}

std::optional<DigestThread::Difference> DigestThread::difference() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::int64_t block = files_[i]->differing;
    if (block >= 0) return Difference{.file = i, .block = block};
  }
  return std::nullopt;
}

void DigestThread::wait() {
  if (!thread_.joinable()) return;
  // The caller waits now, so the priority is raised. The system may refuse that.
  const sched_param none{};
  ::pthread_setschedparam(thread_.native_handle(), SCHED_OTHER, &none);
  thread_.join();
}

}  // namespace phalanx
