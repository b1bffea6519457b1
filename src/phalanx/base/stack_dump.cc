#include "phalanx/base/stack_dump.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// Code in signal handlers calls only safe functions: no allocation, no lock of ours. backtrace()
// and dladdr() are safe here because they were called once before.

constexpr std::int64_t kAnswerTime = 200'000'000;   // nanoseconds
constexpr std::int64_t kWriteTime = 1'000'000'000;  // for a thread that has started writing
constexpr std::int64_t kWholeTime = 5'000'000'000;
constexpr long kPause = 100'000;
constexpr int kReaderTime = 200;  // milliseconds, once; later lines without room are dropped
constexpr int kMaxFrames = 64;

// The thread that the dump asks, the phase, and a unique number. One atomic word, so that a late
// answer is not taken for another thread's.
enum class Phase : std::uint64_t { kIdle, kAsked, kWriting, kDone };
struct Question {
  std::uint64_t number = 0;
  std::uint64_t thread = 0;
  Phase phase = Phase::kIdle;

  std::uint64_t pack() const {
    return number << 34U | thread << 2U | static_cast<std::uint64_t>(phase);
  }
  static Question unpack(std::uint64_t word) {
    return {word >> 34U, word >> 2U & 0xffffffffU, static_cast<Phase>(word & 3U)};
  }
  Question in(Phase next) const { return {number, thread, next}; }
};

// Process-wide, because signal handlers can use nothing else.
std::atomic<int> dump_descriptor{-1};
std::atomic<int> dump_rank{-1};
std::atomic<bool> dumping{false};
std::atomic<bool> nobody_reads{false};
std::atomic<std::uint64_t> question{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

int ask_signal() { return SIGRTMIN + 5; }

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

pid_t this_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// One line, written at once, because other processes may write to the same file.
class Line {
 public:
  Line& text(std::string_view text) {
    const std::size_t count = std::min(text.size(), bytes_.size() - 1 - size_);
    std::memcpy(bytes_.data() + size_, text.data(), count);
    size_ += count;
    return *this;
  }

  Line& number(std::uint64_t value, unsigned base = 10) {
    std::array<char, 24> digits{};
    std::size_t at = digits.size();
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return text({digits.data() + at, digits.size() - at});
  }

  Line& rank() {
    const int rank = dump_rank.load();
    if (rank >= 0) text("rank ").number(static_cast<std::uint64_t>(rank)).text(" ");
    return *this;
  }

  // A pipe with room takes a line at once. So the dump never waits for a reader, and a pipe without
  // a reader raises no SIGPIPE.
  void write() {
    bytes_[size_++] = '\n';
    pollfd file{dump_descriptor.load(), POLLOUT, 0};
    const int ready = ::poll(&file, 1, nobody_reads.load() ? 0 : kReaderTime);
    if (ready == 0 || (ready > 0 && (file.revents & POLLOUT) == 0) ||
        (file.revents & POLLERR) != 0) {
      nobody_reads = true;
      return;
    }
    const char* at = bytes_.data();
    while (size_ > 0) {
      const ssize_t written = ::write(file.fd, at, size_);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      at += written;
      size_ -= static_cast<std::size_t>(written);
    }
  }

 private:
  std::array<char, 1024> bytes_;  // uninitialised: handlers may run on small stacks
  std::size_t size_ = 0;
};

// "/proc/self/task/4711/comm".
struct ThreadName {
  explicit ThreadName(pid_t thread) {
    std::array<char, 48> path{};
    char* at = path.data();
    const auto append = [&](std::string_view text) {
      std::memcpy(at, text.data(), text.size());
      at += text.size();
    };
    append("/proc/self/task/");
    std::array<char, 12> digits{};
    std::size_t first = digits.size();
    for (auto rest = static_cast<unsigned>(thread); rest != 0; rest /= 10)
      digits[--first] = static_cast<char>('0' + rest % 10);
    append({digits.data() + first, digits.size() - first});
    append("/comm");
    const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t count = ::read(file, bytes.data(), bytes.size());
    ::close(file);
    size = count > 0 ? static_cast<std::size_t>(count) : 0;
    if (size > 0 && bytes[size - 1] == '\n') --size;
  }
  std::string_view text() const { return {bytes.data(), size}; }

  std::array<char, 32> bytes{};
  std::size_t size = 0;
};

Line& begin(Line& line, pid_t thread, const ThreadName& name) {
  return line.rank()
      .text("thread ")
      .number(static_cast<std::uint64_t>(thread))
      .text(" ")
      .text(name.text())
      .text(": ");
}

// "phalanx(_ZN7phalanx4mainEv+0x1c) [0x55d0c0ffee00]".
void add_frame(Line& line, void* frame) {
  const auto address = reinterpret_cast<std::uintptr_t>(frame);
  // The return address may be the next function's start.
  const void* const call = static_cast<const char*>(frame) - 1;
  Dl_info info{};
  if (::dladdr(call, &info) != 0 && info.dli_fname != nullptr) {
    std::string_view file = info.dli_fname;
    file.remove_prefix(file.rfind('/') + 1);
    line.text(file).text("(");
    const bool named = info.dli_sname != nullptr;
    const void* const base = named ? info.dli_saddr : info.dli_fbase;
    if (named) line.text(info.dli_sname);
    line.text("+0x").number(address - reinterpret_cast<std::uintptr_t>(base), 16).text(") ");
  }
  line.text("[0x").number(address, 16).text("]");
}

void write_own_stack(pid_t thread) {
  std::array<void*, kMaxFrames> frames;  // NOLINT: backtrace() fills it
  const int count = ::backtrace(frames.data(), kMaxFrames);
  const ThreadName name(thread);
  for (int i = 0; i < count; ++i) {
    Line line;
    begin(line, thread, name);
    add_frame(line, frames[static_cast<std::size_t>(i)]);
    line.write();
  }
}

void answer(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (info->si_code != SI_TKILL || info->si_pid != ::getpid()) return;
  const int saved = errno;
  std::uint64_t word = question.load();
  const Question asked = Question::unpack(word);
  const pid_t thread = this_thread();
  if (asked.phase == Phase::kAsked && asked.thread == static_cast<std::uint64_t>(thread) &&
      question.compare_exchange_strong(word, asked.in(Phase::kWriting).pack())) {
    write_own_stack(thread);
    word = asked.in(Phase::kWriting).pack();
    question.compare_exchange_strong(word, asked.in(Phase::kDone).pack());
  }
  errno = saved;
}

// Waits until the question leaves `phase`; false after a timeout.
bool wait_while(const Question& in_phase, std::int64_t until) {
  while (question.load() == in_phase.pack()) {
    if (now_ns() >= until) return false;
    const timespec pause{0, kPause};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

void ask(pid_t thread, std::uint64_t number, std::int64_t until) {
  const Question asked{number, static_cast<std::uint64_t>(thread), Phase::kAsked};
  question.store(asked.pack());
  // The thread has ended.
  if (::syscall(SYS_tgkill, ::getpid(), thread, ask_signal()) != 0) return;
  const std::int64_t start = now_ns();
  Line line;
  if (!wait_while(asked, std::min(start + kAnswerTime, until))) {
    std::uint64_t word = asked.pack();
    if (question.compare_exchange_strong(word, asked.in(Phase::kIdle).pack())) {
      begin(line, thread, ThreadName(thread)).text("does not answer").write();
      return;
    }
  }
  if (!wait_while(asked.in(Phase::kWriting), now_ns() + kWriteTime))
    begin(line, thread, ThreadName(thread)).text("does not come to the end of its stack").write();
}

struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];  // variable length, ends with a zero byte
};

// The number in a directory name; 0 for "." and "..".
pid_t thread_of(const char* name) {
  std::int64_t thread = 0;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9' || thread > 0xfffffff) return 0;
    thread = thread * 10 + (*name - '0');
  }
  return static_cast<pid_t>(thread);
}

// Calls `each` with every thread of this process. readdir() would allocate.
template <typename Each>
void for_all_threads(const Each& each) {
  const int directory = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  alignas(DirectoryEntry) std::array<char, 2048> entries{};
  for (;;) {
    const long count = ::syscall(SYS_getdents64, directory, entries.data(), entries.size());
    if (count <= 0) break;
    for (long at = 0; at < count;) {
      const auto* const entry = reinterpret_cast<const DirectoryEntry*>(entries.data() + at);
      const char* const name = entries.data() + at + offsetof(DirectoryEntry, name);
      if (const pid_t thread = thread_of(name); thread > 0) each(thread);
      at += entry->size;
    }
  }
  ::close(directory);
}

void on_signal(int /*signal*/) {
  const int saved = errno;
  dump_stacks();
  errno = saved;
}

void handle(int signal, const struct sigaction& action) {
  if (::sigaction(signal, &action, nullptr) != 0)
    throw SystemError("cannot handle signal {}: {}", signal, std::strerror(errno));
}

}  // namespace

void install_stack_dump(int descriptor, int rank, int signal) {
  // Makes the libraries load and allocate before a handler calls them.
  std::array<void*, 4> frames{};
  ::backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info info{};
  ::dladdr(frames[0], &info);
  dump_rank = rank;
  dump_descriptor = descriptor;
  struct sigaction action {};
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  action.sa_sigaction = answer;
  handle(ask_signal(), action);
  if (signal == 0) return;
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_signal;
  handle(signal, action);
}

bool dump_stacks() noexcept {
  if (dump_descriptor.load() < 0 || dumping.exchange(true)) return false;
  nobody_reads = false;
  const std::int64_t until = now_ns() + kWholeTime;
  const pid_t self = this_thread();
  std::uint64_t threads = 0;
  Line().rank().text("stacks of process ").number(static_cast<std::uint64_t>(::getpid())).write();
  for_all_threads([&](pid_t thread) {
    ++threads;
    if (thread == self) {
      write_own_stack(thread);
    } else if (now_ns() < until) {
      ask(thread, Question::unpack(question.load()).number + 1, until);
    } else {
      Line line;
      begin(line, thread, ThreadName(thread)).text("was not asked any more").write();
    }
  });
  Line().rank().text("end of the stacks of ").number(threads).text(" threads").write();
  dumping = false;
  return true;
}

}  // namespace phalanx
