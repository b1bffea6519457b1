#include "phalanx/launch/outcome.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

constexpr int kEndedAtOnce = 130;
// The kernel closes a dying process's connections a moment before its end can be seen, and the
// launchers' clocks begin at slightly different times.
constexpr double kSameMoment = 0.25;  // s

int status_of(ErrorCode code) { return static_cast<int>(code); }

bool has_own_cause(const RankEnd& end) {
  return end.failed() && !end.by_launcher && !blames_another(end);
}

Culprit culprit_of(const RankEnd& end) {
  const std::string suffix = end.out_of_memory ? " (OOM-killer)" : "";
  return {.rank = end.rank,
          .host = end.host,
          .reason = end.signal != 0 ? fmt::format("signal {}{}", end.signal, suffix)
                                    : fmt::format("exit {}", end.exit_code),
          .text = fmt::format("rank {} (host {}) {}", end.rank, end.host, end.how()),
          .message = end.message,
          .detected_after_seconds = end.detected_seconds};
}

struct VerdictWords {
  const char* reason;
  const char* text;
};

VerdictWords words_of(const RankVerdict& verdict) {
  if (verdict.is_hang()) return {.reason = "hang", .text = "hung"};
  if (verdict.code == ErrorCode::kUnavailable) return {.reason = "absent", .text = "did not join"};
  return {.reason = "lost", .text = "was lost"};
}

Culprit culprit_of(const RankVerdict& verdict, const RankEnd* end) {
  const std::string host = end == nullptr ? verdict.host : end->host;
  const VerdictWords words = words_of(verdict);
  return {.rank = verdict.rank,
          .host = host,
          .reason = words.reason,
          .text = fmt::format("rank {}{} {}", verdict.rank,
                              host.empty() ? "" : fmt::format(" (host {})", host), words.text),
          .message = verdict.reason.empty() && end != nullptr ? end->message : verdict.reason,
          .detected_after_seconds = verdict.detected_seconds};
}

int status_of(const RankEnd& end) {
  return end.signal != 0 ? status_of(ErrorCode::kTemporary) : end.exit_code;
}

struct Failures {
  std::vector<RankEnd> ends;
  std::optional<RankVerdict> verdict;

  const RankEnd* of_rank(int rank) const {
    const auto found = std::ranges::find(ends, rank, &RankEnd::rank);
    return found == ends.end() ? nullptr : &*found;
  }
  template <typename Condition>
  const RankEnd* first(Condition condition) const {
    const RankEnd* best = nullptr;
    for (const RankEnd& end : ends) {
      if (!condition(end)) continue;
      if (best == nullptr ||
          std::tie(end.after_seconds, end.rank) < std::tie(best->after_seconds, best->rank)) {
        best = &end;
      }
    }
    return best;
  }
};

Failures failures_of(std::span<const NodeReport> reports) {
  Failures failures;
  for (const NodeReport& report : reports) {
    failures.ends.insert(failures.ends.end(), report.failures.begin(), report.failures.end());
    if (report.verdict && !failures.verdict) failures.verdict = report.verdict;
  }
  std::erase_if(failures.ends, [](const RankEnd& end) { return !end.failed(); });
  return failures;
}

void blame(const Failures& failures, Outcome& outcome) {
  const auto set = [&](const RankEnd& end) {
    outcome.culprit = culprit_of(end);
    outcome.exit_status = status_of(end);
  };
  const auto& verdict = failures.verdict;
  // If a rank hangs in a file, all ranks end with that status.
  const auto has_cause = [&](const RankEnd& end) {
    const bool follows = verdict && verdict->code == ErrorCode::kIo && end.signal == 0 &&
                         end.exit_code == status_of(ErrorCode::kIo);
    return has_own_cause(end) && !follows;
  };
  const RankEnd* const own = failures.first(has_cause);
  if (verdict) {
    const RankEnd* const judged = failures.of_rank(verdict->rank);
    // The coordinator knows only of a lost connection, the launcher how the process ended.
    if (judged != nullptr && has_cause(*judged)) return set(*judged);
    const bool is_earlier =
        own != nullptr && own->after_seconds < verdict->after_seconds + kSameMoment;
    if (!is_earlier) {
      outcome.culprit = culprit_of(*verdict, judged);
      outcome.exit_status = status_of(verdict->code);
      return;
    }
  }
  if (own != nullptr) return set(*own);
  if (const RankEnd* end = failures.first([](const RankEnd& one) { return !one.by_launcher; })) {
    return set(*end);
  }
  if (const RankEnd* end = failures.first([](const RankEnd&) { return true; })) return set(*end);
  outcome.exit_status = status_of(ErrorCode::kTemporary);
}

}  // namespace

Outcome outcome_of(std::span<const NodeReport> reports) {
  Outcome outcome;
  for (const NodeReport& report : reports) {
    outcome.finished += report.finished;
    outcome.preempted += report.preempted;
    outcome.failed += report.failed;
    outcome.left_behind += report.left_behind;
    outcome.was_asked_to_stop = outcome.was_asked_to_stop || report.was_asked_to_stop;
    outcome.was_ended_at_once = outcome.was_ended_at_once || report.was_ended_at_once;
  }
  if (outcome.was_ended_at_once) {
    outcome.exit_status = kEndedAtOnce;
  } else if (outcome.failed > 0) {
    blame(failures_of(reports), outcome);
  } else if (outcome.preempted > 0 || (outcome.was_asked_to_stop && outcome.finished == 0)) {
    outcome.exit_status = status_of(ErrorCode::kPreempted);
  }
  return outcome;
}

}  // namespace phalanx::launch
