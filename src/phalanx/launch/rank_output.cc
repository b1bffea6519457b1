#include "phalanx/launch/rank_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

constexpr std::size_t kPiece = 65536;
constexpr int kPiecesAtEnd = 32;  // a pipe holds less
constexpr std::size_t kLongestLine = 16384;
constexpr std::string_view kError = "error: ";

}  // namespace

RankStream::RankStream(int rank, ConsoleStream stream, const StreamPlan& plan,
                       const std::filesystem::path& path, const LogWriting& writing)
    : rank_(rank), stream_(stream), plan_(plan) {
  if (plan_.is_inherited) return;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw SystemError("no pipe for the output of rank {}: {} (see ulimit -n)", rank,
                      std::strerror(errno));
  }
  pipe_ = FileDescriptor(ends[0]);
  child_ = FileDescriptor(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  if (plan_.has_file) file_ = LogFile(path, writing.writer, writing.most_bytes);
}

bool RankStream::should_wait(const Console& console) const {
  const bool is_shown = plan_.console != ConsoleMode::kNothing;
  return (is_shown && console.should_wait(stream_)) || file_.should_wait();
}

void RankStream::read_some(const OutputSinks& sinks) { read_once(sinks); }

void RankStream::finish(const OutputSinks& sinks) {
  for (int i = 0; i < kPiecesAtEnd && read_once(sinks); ++i) {
  }
  if (!begun_line_.empty()) take_line(std::exchange(begun_line_, {}), sinks);
  pipe_.close();
}

// Whether there may be more.
bool RankStream::read_once(const OutputSinks& sinks) {
  if (!pipe_.is_open()) return false;
  std::array<char, kPiece> bytes;
  const ssize_t count = ::read(pipe_.get(), bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR;
  if (count == 0) {
    pipe_.close();
    return false;
  }
  take({bytes.data(), static_cast<std::size_t>(count)}, sinks);
  return true;
}

void RankStream::report_fault(const OutputSinks& sinks) {
  const std::string fault = file_.take_fault();
  if (fault.empty() || std::exchange(sinks.has_failed_file, true)) return;
  sinks.console.line(fmt::format(
      "warning: phalanx launch: {}; what the ranks print is lost, the run goes on", fault));
}

void RankStream::take(std::string_view bytes, const OutputSinks& sinks) {
  file_.write(bytes);
  report_fault(sinks);
  if (plan_.console == ConsoleMode::kRaw) sinks.console.write(stream_, bytes);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    begun_line_ += bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    const bool is_long = begun_line_.size() > kLongestLine;
    if (is_long) begun_line_.resize(kLongestLine);
    if (end != std::string_view::npos || is_long) {
      take_line(std::exchange(begun_line_, {}), sinks);
    }
  }
}

void RankStream::take_line(std::string line, const OutputSinks& sinks) {
  if (line.ends_with('\r')) line.pop_back();
  if (plan_.console == ConsoleMode::kLines) {
    sinks.console.write(stream_, fmt::format("[rank {}] {}\n", rank_, line));
  }
  if (line.find_first_not_of(" \t") == std::string::npos) return;
  if (line.starts_with(kError)) error_line_ = line;
  last_line_ = line;
  if (plan_.console == ConsoleMode::kErrors) {
    sinks.errors.add(rank_, std::move(line), RepeatedLines::Clock::now());
  }
}

}  // namespace phalanx::launch
