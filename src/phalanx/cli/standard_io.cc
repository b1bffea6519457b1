#include "phalanx/cli/standard_io.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "phalanx/base/error.h"
#include "phalanx/cli/signals.h"

namespace phalanx {
namespace {

class StandardOutputError final : public Error {
 public:
  explicit StandardOutputError(const std::error_code& reason)
      : Error(ErrorCode::kCannotCreate,
              fmt::format("standard output: cannot be written: {}", reason.message())),
        has_reader_(reason != std::errc::broken_pipe) {}
  bool has_reader() const { return has_reader_; }

 private:
  bool has_reader_;
};

StandardOutputError error_of_last_call() {
  return StandardOutputError(std::error_code(errno, std::generic_category()));
}

}  // namespace

bool StandardIo::read_more(std::string& text) {
  constexpr std::size_t kBlock = 1 << 20;
  while (true) {
    const std::size_t size = text.size();
    if (text.capacity() - size < kBlock) text.reserve(2 * size + kBlock);
    text.resize(size + kBlock);
    const ssize_t count = ::read(STDIN_FILENO, text.data() + size, kBlock);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count >= 0) return count > 0;
    if (errno != EINTR) {
      throw IoError("standard input: {}", std::generic_category().message(errno));
    }
  }
}

void StandardIo::put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw error_of_last_call();
}

void StandardIo::flush() {
  if (std::fflush(stdout) != 0) throw error_of_last_call();
}

bool StandardIo::is_typed() const { return ::isatty(STDIN_FILENO) == 1; }

bool StandardIo::is_dialogue() const { return is_typed() && ::isatty(STDOUT_FILENO) == 1; }

std::unique_ptr<StopRequests> StandardIo::listen(const char* line) {
  return std::make_unique<StopSignals>(line);
}

int with_checked_output(StandardIo& io, const std::function<int()>& command) {
  constexpr int kSignalled = 128;
  try {
    const int status = command();
    io.flush();
    return status;
  } catch (const StandardOutputError& error) {
    if (error.has_reader()) throw;
    return kSignalled + SIGPIPE;
  }
}

}  // namespace phalanx
