#pragma once
// The output of a node's ranks in one attempt: pipes, whose bytes go to log files and the console.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/launch/console.h"
#include "phalanx/launch/descriptor.h"
#include "phalanx/launch/log_directory.h"
#include "phalanx/launch/repeated_lines.h"
#include "phalanx/launch/stream_plan.h"

namespace phalanx::launch {

// What the streams of the ranks write to.
struct OutputSinks {
  Console& console;
  RepeatedLines& errors;
  bool& has_failed_file;  // it is said once in a run
};

// Where the bytes of a stream are kept, beside who reads them.
struct LogWriting {
  BackgroundWriter& writer;
  std::size_t most_bytes;  // that wait for each file
};

// One stream of one rank.
class RankStream {
 public:
  // A pipe, and the file `path` where the plan has one. SystemError, OutputError.
  RankStream(int rank, ConsoleStream stream, const StreamPlan& plan,
             const std::filesystem::path& path, const LogWriting& writing);

  // For the rank; -1: the launcher's own. Closed in the launcher by started().
  int child_descriptor() const { return child_.get(); }
  void started() { child_.close(); }

  // -1: nothing comes any more.
  int descriptor() const { return pipe_.get(); }
  // Whether nothing should be read now, for what it goes to is slow.
  bool should_wait(const Console& console) const;
  // Takes what is there, up to a bound, so that one rank that floods does not starve the others.
  void read_some(const OutputSinks& sinks);
  // The rank has ended: takes what is left, waits for nothing.
  void finish(const OutputSinks& sinks);
  // Says it where its file cannot be written.
  void tell_fault(const OutputSinks& sinks);

  // The last line that begins with "error: ", else the last one that says anything.
  const std::string& last_error() const { return error_line_.empty() ? last_line_ : error_line_; }

 private:
  bool read_once(const OutputSinks& sinks);
  void take(std::string_view bytes, const OutputSinks& sinks);
  void take_line(std::string line, const OutputSinks& sinks);

  int rank_;
  ConsoleStream stream_;
  StreamPlan plan_;
  Descriptor pipe_;
  Descriptor child_;
  LogFile file_;
  std::string begun_line_;
  std::string error_line_;
  std::string last_line_;
};

}  // namespace phalanx::launch
