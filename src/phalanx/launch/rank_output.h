#pragma once
// The output of a node's ranks in one attempt: from pipes to log files and the console.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/file_descriptor.h"
#include "phalanx/launch/console.h"
#include "phalanx/launch/log_directory.h"
#include "phalanx/launch/repeated_lines.h"
#include "phalanx/launch/stream_plan.h"

namespace phalanx::launch {

// Where the streams of all ranks are shown.
struct OutputSinks {
  Console& console;
  RepeatedLines& errors;
  bool& has_failed_file;  // a failed log file is reported once in a run
};

// How the bytes of a stream are written to a file, on another thread.
struct LogWriting {
  BackgroundWriter& writer;
  std::size_t most_bytes;  // that may wait for each file
};

// One stream of one rank.
class RankStream {
 public:
  // Opens a pipe, and the file `path` if the plan has one. SystemError, OutputError.
  RankStream(int rank, ConsoleStream stream, const StreamPlan& plan,
             const std::filesystem::path& path, const LogWriting& writing);

  // The rank's end of the pipe, which started() closes in the launcher; -1: the launcher's own
  // stream.
  int child_descriptor() const { return child_.get(); }
  void started() { child_.close(); }

  // The launcher's end of the pipe; -1: at its end.
  int descriptor() const { return pipe_.get(); }
  // Whether nothing should be read now because the console or the file is slow.
  bool should_wait(const Console& console) const;
  // Reads what has come, up to a limit, so that one rank with much output does not starve others.
  void read_some(const OutputSinks& sinks);
  // The rank has ended: reads what is left, without waiting.
  void finish(const OutputSinks& sinks);
  // Reports a file that cannot be written.
  void report_fault(const OutputSinks& sinks);

  // The last line that begins with "error: "; empty: none did.
  const std::string& last_error() const { return error_line_; }
  // The last one that is not empty.
  const std::string& last_line() const { return last_line_; }
  // Whether it goes to the launcher's own stream, unread.
  bool is_inherited() const { return plan_.is_inherited; }
  // Whether the console shows its errors.
  bool is_shown() const { return plan_.is_inherited || plan_.console != ConsoleMode::kNothing; }

 private:
  bool read_once(const OutputSinks& sinks);
  void take(std::string_view bytes, const OutputSinks& sinks);
  void take_line(std::string line, const OutputSinks& sinks);

  int rank_;
  ConsoleStream stream_;
  StreamPlan plan_;
  FileDescriptor pipe_;
  FileDescriptor child_;
  LogFile file_;
  std::string begun_line_;
  std::string error_line_;
  std::string last_line_;
};

}  // namespace phalanx::launch
