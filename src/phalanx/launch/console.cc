#include "phalanx/launch/console.h"

#include <sys/stat.h>

namespace phalanx::launch {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kMostAtEnd = std::chrono::seconds(10);
constexpr auto kPatienceForResults = std::chrono::seconds(60);
constexpr auto kStuck = std::chrono::seconds(1);

// After 2>&1 both are one file: what goes to either must stay in order.
bool is_same_file(int first, int second) {
  struct stat one {};
  struct stat other {};
  return ::fstat(first, &one) == 0 && ::fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

Console::Console(int output, int error)
    : output_(output_writer_.add(output, {}, /*at_once=*/true)),
      error_(is_same_file(output, error) ? output_ : error_writer_.add(error, {}, true)) {}

Console::~Console() {
  error_writer_.flush(kPatience, kMostAtEnd);
  output_writer_.flush(kPatience, kMostAtEnd);
}

void Console::write(ConsoleStream stream, std::string_view bytes) {
  if (bytes.empty()) return;
  if (stream == ConsoleStream::kOutput) {
    has_results_ = true;
    return output_.write_all(bytes);
  }
  error_.write(bytes);
  error_at_line_start_ = bytes.back() == '\n';
}

void Console::line(std::string_view text) {
  std::string bytes = error_at_line_start_ ? "" : "\n";
  bytes += text;
  write(ConsoleStream::kError, bytes + "\n");
}

bool Console::should_wait(ConsoleStream stream) const {
  if (stream == ConsoleStream::kOutput) return output_.is_full();
  return error_.is_full() && error_.stuck_for() < kStuck;
}

Console::Results Console::wait_for_results(std::chrono::milliseconds limit) const {
  if (!has_results_ || output_writer_.flush(std::chrono::hours(24), limit)) return Results::kTaken;
  return output_.stuck_for() < kPatienceForResults ? Results::kWaiting : Results::kNobodyTakesThem;
}

}  // namespace phalanx::launch
