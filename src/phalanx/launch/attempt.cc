#include "phalanx/launch/attempt.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/launch/child_process.h"
#include "phalanx/launch/oom_killer.h"
#include "phalanx/launch/rank_environment.h"
#include "phalanx/launch/rank_output.h"

namespace phalanx::launch {
namespace {

using Clock = std::chrono::steady_clock;

// How often the loop looks at stopped ranks and at a slow console or disk.
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr std::size_t kLargestErrorFile = 1 << 16;
// How many bytes may wait for a disk: of all files of a node, and of each file.
constexpr std::size_t kMostWaiting = std::size_t{128} << 20;
constexpr std::size_t kMostOfFile = std::size_t{4} << 20;
constexpr std::size_t kLeastOfFile = std::size_t{256} << 10;
// How long the end of an attempt waits for a disk: without progress, and in all.
constexpr auto kDiskPatience = std::chrono::seconds(2);
constexpr auto kMostForDisk = std::chrono::seconds(10);
constexpr int kPreempted = static_cast<int>(ErrorCode::kPreempted);

struct OutputOfRank {
  RankStream output;
  RankStream error;
};

struct WatchedRank {
  int rank;
  ChildProcess process;
  RankStream output;
  RankStream error;
  bool is_running = true;
  bool was_sent_signal = false;  // one that ends it
  std::optional<Clock::time_point> killed_at = {};
};

// {"message": "..."} or, as torch has it, {"message": {"message": "..."}}.
std::string error_in_file(const std::filesystem::path& path) {
  std::string text(kLargestErrorFile, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  for (int depth = 0; depth < 2 && json.is_object() && json.contains("message"); ++depth) {
    auto inner = json["message"];
    json = std::move(inner);
  }
  return json.is_string() ? json.get<std::string>() : "";
}

// What a process said of its own end. Whoever is killed by another says nothing: its last line is
// one of the log. Others that print no error line may be the C library (abort) or a script.
std::string last_words(const RankStream& errors, const ChildProcess::End& end) {
  if (!errors.last_error().empty()) return errors.last_error();
  return end.signal == 0 || end.signal == SIGABRT ? errors.last_line() : "";
}

class Attempt {
 public:
  Attempt(const AttemptSetup& setup, const AttemptSurroundings& around)
      : setup_(setup),
        around_(around),
        sinks_{.console = around.console,
               .errors = errors_,
               .has_failed_file = around.has_failed_file},
        oom_kills_(oom_kills()),
        began_(Clock::now()) {
    report_.node = around.group.node();
  }

  NodeReport run() {
    report_.was_asked_to_stop = around_.interruptions.asked_to_stop();
    if (report_.was_asked_to_stop && around_.group.nodes() == 1) return report_;
    // Files that cannot be written are an error before any rank runs.
    std::vector<OutputOfRank> streams;
    for (int local = 0; local < setup_.options.ranks; ++local) {
      streams.push_back(output_of(local));
    }
    for (int local = 0; local < setup_.options.ranks; ++local) {
      start(local, std::move(streams[static_cast<std::size_t>(local)]));
    }
    running_ = ranks_.size();
    // The launcher was asked to stop between attempts: the ranks of the other nodes wait for these
    // ranks to react.
    if (report_.was_asked_to_stop) ask_to_leave();
    while (true) {
      // Before the first wait: a signal that came before the ranks ran wakes nobody any more.
      take_signals();
      take_ends();
      take_reports();
      read_streams();
      go_on_stopping();
      tell(errors_.take(Clock::now()));
      if (running_ == 0) break;
      wait();
    }
    tell(errors_.take(Clock::now(), /*all=*/true));
    say_what_no_rank_said();
    finish_logs();
    report_.was_asked_to_stop = around_.interruptions.asked_to_stop();
    report_.lost_launcher = lost_launcher_;
    return std::move(report_);
  }

 private:
  OutputOfRank output_of(int local) const {
    const int rank = setup_.place.first_rank + local;
    const auto plan = plan_streams(setup_.options, local, rank, setup_.error_is_terminal);
    const auto file = [&](const char* end) {
      return setup_.directory / fmt::format("rank_{}.{}", rank, end);
    };
    const auto files = static_cast<std::size_t>(2 * setup_.options.ranks);
    const LogWriting writing{
        .writer = around_.log_writer,
        .most_bytes = std::clamp(kMostWaiting / files, kLeastOfFile, kMostOfFile)};
    return {.output = RankStream(rank, ConsoleStream::kOutput, plan.output, file("out"), writing),
            .error = RankStream(rank, ConsoleStream::kError, plan.error, file("err"), writing)};
  }

  void finish_logs() {
    const bool all = around_.log_writer.flush(kDiskPatience, kMostForDisk);
    for (WatchedRank& rank : ranks_) {
      rank.output.report_fault(sinks_);
      rank.error.report_fault(sinks_);
    }
    if (all) return;
    around_.console.line(fmt::format(
        "warning: phalanx launch: the disk of --log-dir takes nothing: {} bytes of what "
        "the ranks printed are not written",
        around_.log_writer.waiting()));
  }

  void start(int local, OutputOfRank streams) {
    const int rank = setup_.place.first_rank + local;
    ChildOptions options{.program = setup_.program,
                         .words = setup_.options.command,
                         .environment = rank_environment(setup_, around_.group, local),
                         .dropped = dropped_variables(),
                         .output = streams.output.child_descriptor(),
                         .error = streams.error.child_descriptor(),
                         .inherited = {}};
    if (setup_.secret_descriptor >= 0) options.inherited.push_back(setup_.secret_descriptor);
    for (const int file : setup_.memory_files.descriptors()) options.inherited.push_back(file);
    if (setup_.last_saved_descriptor >= 0) {
      options.inherited.push_back(setup_.last_saved_descriptor);
    }
    std::error_code ignored;
    std::filesystem::remove(error_file(setup_, rank), ignored);  // an earlier run's of this name
    ranks_.push_back({.rank = rank,
                      .process = ChildProcess::start(options),
                      .output = std::move(streams.output),
                      .error = std::move(streams.error)});
    ranks_.back().output.started();
    ranks_.back().error.started();
  }

  // Sleeps until something happens.
  void wait() {
    bool is_slow = false;
    polled_.clear();
    add(around_.inbox.descriptor());
    add(around_.group.verdict_descriptor());
    add(around_.group.board_descriptor());
    for (const WatchedRank& rank : ranks_) {
      if (rank.is_running) add(rank.process.watch_descriptor());
      for (const RankStream* stream : {&rank.output, &rank.error}) {
        if (stream->should_wait(around_.console)) {
          is_slow = true;
        } else {
          add(stream->descriptor());
        }
      }
    }
    auto until = errors_.next();
    if (is_slow || stopping_since_) until = std::min(until, Clock::now() + kTick);
    const auto before = Clock::now();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - before);
    constexpr std::chrono::milliseconds kLong = std::chrono::hours(1);
    const auto limit =
        until == Clock::time_point::max() ? kLong : std::clamp(left, left.zero(), kLong);
    ::poll(polled_.data(), polled_.size(), static_cast<int>(limit.count()));
    // If the loop did not sleep, it happened at some time since the last look.
    const auto after = Clock::now();
    const bool slept = after - before > std::chrono::milliseconds(1);
    noticed_since_ = slept ? after : looked_;
    looked_ = before;
  }

  void add(int descriptor) {
    if (descriptor >= 0) polled_.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }

  void take_signals() {
    for (const int signal : around_.inbox.take()) {
      const auto meaning = around_.interruptions.on_signal(signal, Clock::now());
      if (!meaning) continue;
      switch (*meaning) {
        case Interruption::kStop:
          say(fmt::format("{}: the ranks are asked to save and leave", signal_name(signal)));
          ask_to_leave();
          break;
        case Interruption::kEndAtOnce:
          say("SIGINT again: all ranks are ended at once");
          report_.was_ended_at_once = true;
          end_all();
          begin_stopping();
          break;
        case Interruption::kStacks:
          send_all(SIGQUIT);
          break;
        case Interruption::kPause:
          pause();
          break;
        case Interruption::kContinue:
          break;
      }
    }
  }

  void ask_to_leave() {
    is_preempting_ = true;
    send_all(around_.interruptions.signal_for_ranks());
  }

  // Ctrl-Z: stops the ranks together with the launcher; they continue together, too.
  void pause() {
    send_all(SIGSTOP);
    ::kill(::getpid(), SIGSTOP);
    send_all(SIGCONT);
  }

  void take_ends() {
    for (WatchedRank& rank : ranks_) {
      if (!rank.is_running) continue;
      const auto end = rank.process.take_end();
      if (!end) continue;
      rank.is_running = false;
      --running_;
      rank.output.finish(sinks_);
      rank.error.finish(sinks_);
      take_end(rank, *end);
    }
  }

  void take_end(const WatchedRank& rank, const ChildProcess::End& end) {
    const auto now = Clock::now();
    const bool was_preempted =
        is_preempting_ && end.signal != 0 && end.signal == around_.interruptions.signal_for_ranks();
    // The signal came before the rank listened, so nothing is lost. With several nodes the other
    // ranks must learn that it is gone.
    if (was_preempted && !rank.was_sent_signal && around_.group.nodes() == 1) {
      ++report_.preempted;
      return;
    }
    RankEnd result{.rank = rank.rank,
                   .host = setup_.place.host,
                   .exit_code = end.exit_code,
                   .signal = end.signal,
                   .by_launcher = rank.was_sent_signal || was_preempted,
                   .out_of_memory = false,
                   .after_seconds = seconds(now - began_),
                   .detected_seconds = seconds(now - noticed_since_),
                   .message = error_in_file(error_file(setup_, rank.rank))};
    if (!result.failed()) {
      ++(end.exit_code == kPreempted ? report_.preempted : report_.finished);
      return;
    }
    result.out_of_memory =
        end.signal == SIGKILL && !rank.was_sent_signal && oom_kills() > oom_kills_;
    if (result.message.empty()) result.message = last_words(rank.error, end);
    if (rank.error.is_shown() && !result.message.empty()) report_.told.insert(rank.rank);
    around_.group.rank_ended(rank.rank, result.how());
    ++report_.failed;
    report_.failures.push_back(std::move(result));
    begin_stopping();
  }

  // Handles the coordinator's verdict and the reports of the other launchers.
  void take_reports() {
    if (auto entry = around_.group.take_verdict()) take_verdict(std::move(*entry));
    if (around_.group.nodes() == 1) return;
    around_.group.clear_events();
    // A node whose ranks have all ended is one stage further.
    for (const int stage : {setup_.stage, setup_.stage + 1}) {
      for (const std::string& text : around_.group.latest(stage)) {
        if (!text.empty() && !stopping_since_) take_report(parse_node_report(text));
      }
    }
    if (const std::string lost = around_.group.lost(); !lost.empty() && lost_launcher_.empty()) {
      lost_launcher_ = lost;
      begin_stopping();
    }
  }

  // A report of another launcher.
  void take_report(const NodeReport& report) {
    if (report.failed == 0 && !report.verdict) return;
    for (const RankEnd& end : report.failures) around_.group.rank_ended(end.rank, end.how());
    begin_stopping();
  }

  void take_verdict(VerdictBox::Entry entry) {
    if (report_.verdict) return;
    entry.verdict.after_seconds = seconds(entry.time - began_);
    const WatchedRank* const rank = rank_of(entry.verdict.rank);
    report_.told.insert(entry.verdict.rank);
    if (entry.verdict.is_reported && rank != nullptr && rank->error.is_shown()) {
      unsaid_ = {entry.verdict.reason};
      unsaid_.insert(unsaid_.end(), entry.report.begin(), entry.report.end());
    } else {
      say(entry.verdict.reason);
      tell(entry.report);
    }
    report_.verdict = std::move(entry.verdict);
    begin_stopping();
  }

  const WatchedRank* rank_of(int number) const {
    const auto found = std::ranges::find(ranks_, number, &WatchedRank::rank);
    return found == ranks_.end() ? nullptr : &*found;
  }

  // A verdict that its rank has reported is the rank's to print, which may only have blamed
  // another.
  void say_what_no_rank_said() {
    if (unsaid_.empty()) return;
    const WatchedRank& rank = *rank_of(report_.verdict->rank);
    const auto end = std::ranges::find(report_.failures, rank.rank, &RankEnd::rank);
    const std::string& line = rank.error.last_error();
    const bool has_said = rank.error.is_inherited()
                              ? end != report_.failures.end() && !blames_another(*end)
                              : !line.empty() && line.find(kBlame) == std::string::npos;
    if (has_said) return;
    say(unsaid_.front());
    tell({unsaid_.begin() + 1, unsaid_.end()});
  }

  void read_streams() {
    for (WatchedRank& rank : ranks_) {
      for (RankStream* stream : {&rank.output, &rank.error}) {
        if (!stream->should_wait(around_.console)) stream->read_some(sinks_);
      }
    }
  }

  void begin_stopping() {
    if (stopping_since_) return;
    stopping_since_ = Clock::now();
    // The other launchers stop their ranks, too.
    if (around_.group.nodes() > 1) around_.group.post(setup_.stage, to_text(report_));
  }

  void go_on_stopping() {
    if (!stopping_since_) return;
    leave_behind_unkillable();
    const auto time = Clock::now() - *stopping_since_;
    if (time >= 2 * setup_.grace) return end_all();
    for (WatchedRank& rank : ranks_) {
      if (!rank.is_running) continue;
      // A stopped process gets no other signal.
      if (rank.process.is_stopped()) {
        end(rank, SIGKILL);
      } else if (time >= setup_.grace && !rank.was_sent_signal) {
        const bool hangs =
            report_.verdict && report_.verdict->is_hang() && report_.verdict->rank == rank.rank;
        end(rank, hangs ? SIGKILL : SIGTERM);
      }
    }
  }

  void end(WatchedRank& rank, int signal) {
    rank.was_sent_signal = true;
    if (signal == SIGKILL && !rank.killed_at) rank.killed_at = Clock::now();
    rank.process.send(signal);
  }

  void leave_behind_unkillable() {
    for (WatchedRank& rank : ranks_) {
      if (!rank.is_running || !rank.killed_at) continue;
      if (Clock::now() - *rank.killed_at < setup_.kill_patience) continue;
      say(
          fmt::format("rank {} (pid {}) cannot be ended: SIGKILL has no effect for {:.0f} s, it "
                      "waits in the kernel for a disk or a file system; it is left behind",
                      rank.rank, rank.process.pid(), seconds(setup_.kill_patience)));
      rank.process.abandon();
      rank.is_running = false;
      --running_;
      ++report_.left_behind;
      rank.output.finish(sinks_);
      rank.error.finish(sinks_);
      take_end(rank, {.exit_code = 0, .signal = SIGKILL});
    }
  }

  void end_all() {
    for (WatchedRank& rank : ranks_) {
      if (rank.is_running) end(rank, SIGKILL);
    }
  }

  void send_all(int signal) {
    for (const WatchedRank& rank : ranks_) {
      if (rank.is_running) rank.process.send(signal);
    }
  }

  void say(const std::string& text) { around_.console.line("phalanx launch: " + text); }
  void tell(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) around_.console.line(line);
  }
  static double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }

  const AttemptSetup& setup_;
  const AttemptSurroundings& around_;
  RepeatedLines errors_;
  OutputSinks sinks_;
  std::int64_t oom_kills_;
  Clock::time_point began_;
  Clock::time_point looked_ = began_;         // the last look for ends
  Clock::time_point noticed_since_ = began_;  // ends that are seen now happened after this
  std::vector<WatchedRank> ranks_;
  std::size_t running_ = 0;
  std::vector<pollfd> polled_;
  NodeReport report_;
  bool is_preempting_ = false;
  std::optional<Clock::time_point> stopping_since_;
  std::string lost_launcher_;
  std::vector<std::string> unsaid_;  // the verdict's reason and report, while its rank may say it
};

}  // namespace

NodeReport run_attempt(const AttemptSetup& setup, const AttemptSurroundings& around) {
  return Attempt(setup, around).run();
}

}  // namespace phalanx::launch
