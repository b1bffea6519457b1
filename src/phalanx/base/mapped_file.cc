#include "phalanx/base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/input_descriptor.h"
#include "phalanx/base/memory_limits.h"
#include "phalanx/base/progress.h"

namespace phalanx {
namespace {

// A map as the handler sees it; its path is a copy at a fixed address.
struct Entry {
  std::atomic<std::uintptr_t> begin = 0;  // 0: free
  std::atomic<std::uintptr_t> end = 0;
  std::array<std::atomic<char>, 512> path{};
};

// The handler never waits: it follows `next` through blocks that stay where they are.
struct Block {
  std::array<Entry, 256> entries{};
  std::atomic<Block*> next = nullptr;
};
Block first_block;
std::mutex blocks_mutex;  // locked by threads that change the table
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);
static_assert(std::atomic<Block*>::is_always_lock_free);
static_assert(std::atomic<char>::is_always_lock_free);

// The entry that begins there; 0: a free one. Null: there is none.
Entry* find(std::uintptr_t begin) {
  for (Block* block = &first_block; block != nullptr; block = block->next) {
    for (Entry& entry : block->entries) {
      if (entry.begin == begin) return &entry;
    }
  }
  return nullptr;
}

Entry* make_free() {
  // Not destroyed: other threads may read maps until the process ends.
  static auto& more = *new std::vector<std::unique_ptr<Block>>();
  Block& made = *more.emplace_back(std::make_unique<Block>());
  Block* last = &first_block;
  while (last->next != nullptr) last = last->next;
  last->next = &made;
  return made.entries.data();
}

void enter(const std::byte* data, std::size_t size, const std::string& path) {
  const std::lock_guard lock(blocks_mutex);
  Entry* const found = find(0);
  Entry* const free = found != nullptr ? found : make_free();
  const std::size_t length = std::min(path.size(), free->path.size() - 1);
  for (std::size_t i = 0; i < length; ++i) free->path[i] = path[i];
  free->path[length] = '\0';
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  free->end = begin + size;
  free->begin = begin;
}

void leave(const std::byte* data) {
  const std::lock_guard lock(blocks_mutex);
  if (Entry* const found = find(reinterpret_cast<std::uintptr_t>(data))) found->begin = 0;
}

// Calls only functions that are safe in a handler.
class Line {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }
  void add(char c) {
    if (length_ < text_.size()) text_[length_++] = c;
  }
  void add(std::uintptr_t number) {
    if (number >= 10) add(number / 10);
    add(static_cast<char>('0' + number % 10));
  }
  void write() const {
    const char* from = text_.data();
    for (std::size_t left = length_; left > 0;) {
      const auto put = ::write(STDERR_FILENO, from, left);
      if (put < 0 && errno != EINTR) return;
      if (put < 0) continue;
      from += put;
      left -= static_cast<std::size_t>(put);
    }
  }

 private:
  std::array<char, 1024> text_{};
  std::size_t length_ = 0;
};

[[noreturn]] void end_unreadable(const Entry& entry, std::uintptr_t address) {
  Line line;
  line.add("error: ");
  for (const auto& c : entry.path) {
    if (c == '\0') break;
    line.add(c.load());
  }
  line.add(": cannot be read beyond byte ");
  line.add(address - entry.begin);
  line.add(" of ");
  line.add(entry.end - entry.begin);
  line.add(
      ": it became shorter while it was in use, or its disk failed. Checkpoints saved so far are "
      "whole: put the file back and resume from the last\n");
  line.write();
  ::_exit(static_cast<int>(ErrorCode::kIo));
}

void on_bus_error(int number, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Block* block = &first_block; block != nullptr; block = block->next) {
    for (const Entry& entry : block->entries) {
      const std::uintptr_t begin = entry.begin;
      if (begin != 0 && address >= begin && address < entry.end) end_unreadable(entry, address);
    }
  }
  // Not in a map: the instruction runs again, and the signal has its default effect.
  std::signal(number, SIG_DFL);
}

}  // namespace

void report_unreadable_maps() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const FileAccess access("opening", path);
  const InputDescriptor file(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    const int reason = errno;  // reading the limits may change it
    const std::string limits = memory_limits();
    throw SystemError("{}: cannot map {} bytes: {}{}", path.string(), size_, std::strerror(reason),
                      limits.empty() ? "" : fmt::format(" ({})", limits));
  }
  data_ = static_cast<const std::byte*>(address);
  enter(data_, size_, path_.string());
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
  if (data_ == nullptr) return;
  leave(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace phalanx
