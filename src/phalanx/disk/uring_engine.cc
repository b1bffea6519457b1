// io_uring: requests and completions pass through memory shared with the kernel. Registered files
// and buffers need not be looked up and mapped for every request.

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/disk/block_engine.h"

namespace phalanx {
namespace {

constexpr std::uint64_t kWakeUp = ~std::uint64_t{0};          // in place of a slot
constexpr unsigned kMostFiles = 64;                           // registered; others work, too
constexpr std::size_t kLargestRegion = std::size_t{1} << 30;  // the kernel's limit

class UringEngine final : public BlockEngine {
 public:
  UringEngine(const StorageOptions& options, std::span<std::byte> buffers) {
    const auto depth = static_cast<unsigned>(options.queue_depth);
    const int error = ::io_uring_queue_init(depth + 1, &ring_, 0);
    if (error < 0) {
      throw SystemError("io_uring is not there: {}", std::strerror(-error));
    }
    event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0 || !has_operations()) {
      const int reason = event_ < 0 ? errno : ENOSYS;
      close_all();
      throw SystemError("io_uring cannot be used: {}", std::strerror(reason));
    }
    register_memory(options, buffers);
    if (::io_uring_register_files_sparse(&ring_, kMostFiles) == 0) files_.assign(kMostFiles, -1);
    watch_event();
  }
  ~UringEngine() override { close_all(); }

  std::string description() const override {
    return regions_.empty() ? "io_uring" : "io_uring with registered buffers";
  }

  void add_file(int descriptor) override {
    const std::lock_guard lock(files_mutex_);
    const auto place = std::ranges::find(files_, -1);
    if (place != files_.end() && set_file(place - files_.begin(), descriptor)) *place = descriptor;
  }
  void remove_file(int descriptor) noexcept override {
    const std::lock_guard lock(files_mutex_);
    const auto place = std::ranges::find(files_, descriptor);
    if (place == files_.end()) return;
    set_file(place - files_.begin(), -1);
    *place = -1;
  }

  void submit(const BlockRequest& request) override {
    io_uring_sqe& entry = next_entry();
    const int file = registered_file(request.descriptor);
    const int descriptor = file < 0 ? request.descriptor : file;
    const auto bytes = static_cast<unsigned>(request.bytes);
    const auto offset = static_cast<std::uint64_t>(request.offset);
    const int region = registered_region(request);
    if (region < 0 && request.is_write) {
      ::io_uring_prep_write(&entry, descriptor, request.memory, bytes, offset);
    } else if (region < 0) {
      ::io_uring_prep_read(&entry, descriptor, request.memory, bytes, offset);
    } else if (request.is_write) {
      ::io_uring_prep_write_fixed(&entry, descriptor, request.memory, bytes, offset, region);
    } else {
      ::io_uring_prep_read_fixed(&entry, descriptor, request.memory, bytes, offset, region);
    }
    if (file >= 0) entry.flags |= IOSQE_FIXED_FILE;
    entry.user_data = request.slot;
  }

  void wait(std::vector<BlockCompletion>& completions) override {
    const int error = ::io_uring_submit_and_wait(&ring_, 1);
    // Interrupted, or completions must be taken first.
    if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
      throw SystemError("io_uring_enter: {}", std::strerror(-error));
    }
    bool woken = false;
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(&ring_, &entry) == 0) {
      if (entry->user_data == kWakeUp) {
        woken = true;
      } else {
        completions.push_back({entry->user_data, entry->res});
      }
      ::io_uring_cqe_seen(&ring_, entry);
    }
    if (!woken) return;
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(event_, &count, sizeof(count));
    watch_event();
  }

  void wake() noexcept override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto put = ::write(event_, &one, sizeof(one));
  }

 private:
  bool has_operations() {
    io_uring_probe* const probe = ::io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return false;
    bool has_all = true;
    for (const int operation : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READ_FIXED,
                                IORING_OP_WRITE_FIXED, IORING_OP_POLL_ADD}) {
      has_all = has_all && ::io_uring_opcode_supported(probe, operation) != 0;
    }
    ::io_uring_free_probe(probe);
    return has_all;
  }

  void close_all() {
    ::io_uring_queue_exit(&ring_);
    if (event_ >= 0) ::close(event_);
  }

  // The engine works without it if the limit of locked memory is too small.
  void register_memory(const StorageOptions& options, std::span<std::byte> buffers) {
    std::vector<std::span<std::byte>> memory = {buffers};
    memory.insert(memory.end(), options.staging.begin(), options.staging.end());
    std::vector<iovec> regions;
    for (std::span<std::byte> rest : memory) {
      while (!rest.empty()) {
        const auto region = rest.first(std::min(rest.size(), kLargestRegion));
        regions.push_back({region.data(), region.size()});
        rest = rest.subspan(region.size());
      }
    }
    while (!regions.empty() && !is_registered(regions)) {
      // The buffers alone may be within the limit.
      regions.resize(regions.size() > 1 ? 1 : 0);
    }
    regions_ = std::move(regions);
  }
  bool is_registered(const std::vector<iovec>& regions) {
    return ::io_uring_register_buffers(&ring_, regions.data(),
                                       static_cast<unsigned>(regions.size())) == 0;
  }

  // The registered region of the request's memory, or -1.
  int registered_region(const BlockRequest& request) const {
    const std::less_equal<> not_behind;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      const auto* const begin = static_cast<const std::byte*>(regions_[i].iov_base);
      if (not_behind(begin, request.memory) &&
          not_behind(request.memory + request.bytes, begin + regions_[i].iov_len)) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  int registered_file(int descriptor) {
    const std::lock_guard lock(files_mutex_);
    const auto place = std::ranges::find(files_, descriptor);
    return place == files_.end() ? -1 : static_cast<int>(place - files_.begin());
  }
  bool set_file(std::ptrdiff_t place, int descriptor) noexcept {
    return ::io_uring_register_files_update(&ring_, static_cast<unsigned>(place), &descriptor, 1) ==
           1;
  }

  // The queue has room for all requests that may be under way.
  io_uring_sqe& next_entry() {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    PHALANX_CHECK(entry != nullptr, "more requests than the queue is deep");
    return *entry;
  }
  void watch_event() {
    io_uring_sqe& entry = next_entry();
    ::io_uring_prep_poll_add(&entry, event_, POLLIN);
    entry.user_data = kWakeUp;
  }

  io_uring ring_{};
  int event_ = -1;
  std::vector<iovec> regions_;
  std::mutex files_mutex_;
  std::vector<int> files_;  // descriptors by place; -1: free
};

}  // namespace

std::unique_ptr<BlockEngine> make_uring_engine(const StorageOptions& options,
                                               std::span<std::byte> buffers) {
  return std::make_unique<UringEngine>(options, buffers);
}

std::unique_ptr<BlockEngine> make_engine(const StorageOptions& options,
                                         std::span<std::byte> buffers) {
  if (options.engine == StorageEngine::kThreads) return make_thread_engine(options);
  if (options.engine == StorageEngine::kIoUring) return make_uring_engine(options, buffers);
  try {
    return make_uring_engine(options, buffers);
  } catch (const SystemError& error) {
    return make_thread_engine(options, error.what());
  }
}

}  // namespace phalanx
