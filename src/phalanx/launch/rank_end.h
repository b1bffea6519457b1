#pragma once
// How ranks have ended: what the launchers of a run report to each other.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/launch/saved_progress.h"

namespace phalanx::launch {

struct RankEnd {
  int rank = 0;
  std::string host;
  int exit_code = 0;              // if no signal ended it
  int signal = 0;                 // that ended it; 0: none
  bool by_launcher = false;       // the launcher had sent it a signal before
  bool out_of_memory = false;     // the kernel's OOM-killer has killed a process meanwhile
  double after_seconds = 0.0;     // since the attempt began
  double detected_seconds = 0.0;  // from the end to when it was noticed, at most
  std::string message;            // its last error line; empty: it said none

  bool failed() const;
  // "killed by signal 9 (SIGKILL)", "ended with exit code 70".
  std::string how() const;
};

// The coordinator's verdict about an attempt: the first rank that failed.
struct RankVerdict {
  int rank = 0;
  std::string host{};
  ErrorCode code =
      ErrorCode::kTemporary;      // 75 lost, 69 has not joined, 124 hang, 74 hang in a file
  std::string reason;             // a line
  double after_seconds = 0.0;     // since the attempt began
  double detected_seconds = 0.0;  // from its last sign of life
  // The rank itself says the reason, where it prints errors; not sent to other launchers.
  bool is_reported = false;

  bool is_hang() const { return code == ErrorCode::kHang || code == ErrorCode::kIo; }
};

// The result of an attempt on one node, when all of its ranks have ended.
struct NodeReport {
  int node = 0;
  int finished = 0;   // ranks that ended with 0
  int preempted = 0;  // ended with 85
  int failed = 0;
  int left_behind = 0;                      // of those: processes that the kernel does not end
  bool was_asked_to_stop = false;           // by a signal to the launcher
  bool was_ended_at_once = false;           // by a second Ctrl-C
  std::vector<RankEnd> failures;            // the first ones, of either kind
  std::optional<RankVerdict> verdict;       // node 0
  std::optional<SavedProgress> progress{};  // node 0
  // Not sent to other launchers:
  std::string lost_launcher{};  // that of another node, for people
  std::set<int> told{};         // ranks about which this console has said why they ended
};

// At most 16 KiB.
std::string to_text(const NodeReport& report);
// DataError.
NodeReport parse_node_report(const std::string& text);

// Whether the status is that of a rank which stopped because of another.
bool blames_another(const RankEnd& end);
// What such a rank prints begins so, after the command; the other one has said why.
inline constexpr std::string_view kBlame = "ended because rank ";

// "SIGKILL"; "signal 40" where it has no name.
std::string signal_name(int signal);

}  // namespace phalanx::launch
