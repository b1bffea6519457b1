#include "phalanx/launch/launcher.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/background_writer.h"
#include "phalanx/base/error.h"
#include "phalanx/base/shared_memory.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/launch/attempt.h"
#include "phalanx/launch/console.h"
#include "phalanx/launch/last_saved.h"
#include "phalanx/launch/left_memory.h"
#include "phalanx/launch/log_directory.h"
#include "phalanx/launch/outcome.h"
#include "phalanx/launch/rank_end.h"
#include "phalanx/launch/restart_policy.h"
#include "phalanx/launch/saved_progress.h"
#include "phalanx/launch/summary.h"

namespace phalanx::launch {
namespace {

constexpr int kEndedAtOnce = 130;
constexpr auto kTick = std::chrono::milliseconds(100);
// How node 0's text begins where what the job saved is gone.
constexpr std::string_view kLoss = "lost: ";
// Between two looks for what the job saved.
constexpr auto kLook = std::chrono::milliseconds(500);

class IgnoredBrokenPipes {
 public:
  IgnoredBrokenPipes() {
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignored, &before_);
  }
  IgnoredBrokenPipes(const IgnoredBrokenPipes&) = delete;
  IgnoredBrokenPipes& operator=(const IgnoredBrokenPipes&) = delete;
  ~IgnoredBrokenPipes() { ::sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// What the launchers of a run must agree on, or exchange, before anything starts.
struct NodeHello {
  std::string host;
  int ranks = 0;
  int nodes = 0;
  int max_restarts = 0;
  bool has_save = false;
  std::string run_name;  // all use node 0's
};

std::string to_text(const NodeHello& hello) {
  const nlohmann::json json = {{"host", hello.host},         {"ranks", hello.ranks},
                               {"nodes", hello.nodes},       {"max_restarts", hello.max_restarts},
                               {"has_save", hello.has_save}, {"run_name", hello.run_name}};
  return json.dump();
}

NodeHello parse_hello(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {.host = json.at("host").get<std::string>(),
            .ranks = json.at("ranks").get<int>(),
            .nodes = json.at("nodes").get<int>(),
            .max_restarts = json.at("max_restarts").get<int>(),
            .has_save = json.at("has_save").get<bool>(),
            .run_name = json.at("run_name").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    throw DataError("what another launcher says of its node cannot be read: {}", error.what());
  }
}

// Every launcher finds the same difference.
void check_alike(const std::vector<NodeHello>& hellos) {
  const NodeHello& first = hellos[0];
  for (std::size_t node = 1; node < hellos.size(); ++node) {
    const NodeHello& other = hellos[node];
    const auto differ = [&](const char* flag, const auto& one, const auto& two) {
      throw ConfigError(
          "the launchers differ in {}: {} on node 0 (host {}), {} on node {} (host {}); give all "
          "nodes the same",
          flag, one, first.host, two, node, other.host);
    };
    if (other.nodes != first.nodes) differ("--nnodes", first.nodes, other.nodes);
    if (other.max_restarts != first.max_restarts) {
      differ("--max-restarts", first.max_restarts, other.max_restarts);
    }
    if (other.has_save != first.has_save) differ("--save", first.has_save, other.has_save);
  }
}

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const LaunchSetup& setup)
      : options_(options),
        setup_(setup),
        save_(save_directory_of(options.command)),
        interruptions_(options.stop_signals),
        inbox_(interruptions_.signals()),
        console_(setup.output, setup.error),
        policy_(options.max_restarts, !save_.empty()) {
    if (takes_snapshots(options.command)) memory_files_ = MemoryFiles::make(options.ranks);
    if (!save_.empty() && options.node == 0) last_saved_ = LastSavedFile::make();
    summary_.run = options.run_id.empty() ? new_run_name() : options.run_id;
  }

  int run() {
    for (const std::string& note : options_.notes) console_.line(note);
    // Errors of the log directory come before other nodes wait for this one.
    if (!options_.log_directory.empty() && options_.nodes == 1) open_logs();
    // Without --rdzv-id the other nodes learn node 0's name when they meet.
    const bool has_own_name = options_.run_id.empty() && options_.nodes == 1;
    run_id_ = has_own_name ? summary_.run : options_.run_id.empty() ? "none" : options_.run_id;
    group_ = setup_.make_group(run_id_, [this] { leave_if_asked(); });
    meet();
    if (!options_.log_directory.empty() && options_.nodes > 1) open_logs();
    for (int attempt = 0;; ++attempt) {
      try {
        const NextStep step = run_one(attempt);
        if (!step.restarts) {
          if (step.exit_status == 0) deliver_results();
          return step.exit_status;
        }
      } catch (const Error& error) {
        // No rank is at fault: another launcher is gone, or the system refuses.
        summary_.attempts.push_back(
            {.attempt = attempt, .exit_status = error.exit_status(), .culprit = std::nullopt});
        summary_.exit_status = error.exit_status();
        keep_summary();
        throw;
      }
    }
  }

 private:
  void open_logs() {
    logs_.emplace(options_.log_directory, summary_.run, options_.node);
    console_.line(fmt::format("phalanx launch: logs in {}", logs_->path().string()));
  }

  // Waits until all of standard output has been read, also by a slow reader.
  void deliver_results() {
    while (true) {
      switch (console_.wait_for_results(kTick)) {
        case Console::Results::kTaken:
          return;
        case Console::Results::kNobodyTakesThem:
          throw IoError("standard output: nobody reads what the ranks printed; the rest is lost");
        case Console::Results::kWaiting:
          break;
      }
      take_signals();
      if (interruptions_.asked_to_stop()) return;
    }
  }

  // Exchanges texts with all launchers: theirs, by node. Every launcher calls it; stages must rise.
  // Error 75 if some have not come in time.
  std::vector<std::string> exchange(int stage, std::string text,
                                    std::optional<std::chrono::milliseconds> limit = {}) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    group_->post(stage, std::move(text));
    while (true) {
      if (auto texts = group_->texts(stage)) return *texts;
      if (limit && Clock::now() - begin >= *limit) give_up_on_others(stage, *limit);
      std::array<pollfd, 2> polled = {
          {{.fd = group_->board_descriptor(), .events = POLLIN, .revents = 0},
           {.fd = inbox_.descriptor(), .events = POLLIN, .revents = 0}}};
      ::poll(polled.data(), polled.size(), limit ? static_cast<int>(kTick.count()) : -1);
      group_->clear_events();
      take_signals();
    }
  }

  [[noreturn]] void give_up_on_others(int stage, std::chrono::milliseconds waited) const {
    std::string missing;
    const std::vector<std::string> texts = group_->latest(stage);
    for (std::size_t node = 0; node < texts.size(); ++node) {
      if (texts[node].empty()) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", node);
    }
    const Error error(ErrorCode::kTemporary,
                      fmt::format("the launcher of node {} hangs: it has not said for {:.3g} s how "
                                  "its ranks ended",
                                  missing, std::chrono::duration<double>(waited).count()));
    group_->give_up(error.what());
    throw Error(error);
  }

  // While no rank of this node runs.
  void take_signals() {
    for (const int signal : inbox_.take()) {
      const auto meaning = interruptions_.on_signal(signal, Interruptions::Clock::now());
      if (meaning == Interruption::kPause) ::kill(::getpid(), SIGSTOP);
      if (meaning == Interruption::kEndAtOnce) {
        throw Error(static_cast<ErrorCode>(kEndedAtOnce), "ended by a second Ctrl-C");
      }
    }
  }

  // Before the nodes have met: no other launcher need know of it, and nothing is lost.
  void leave_if_asked() {
    take_signals();
    if (!interruptions_.asked_to_stop()) return;
    throw Error(ErrorCode::kPreempted, "asked to leave before all nodes were there");
  }

  void meet() {
    const NodeHello own{.host = setup_.host,
                        .ranks = options_.ranks,
                        .nodes = options_.nodes,
                        .max_restarts = options_.max_restarts,
                        .has_save = !save_.empty(),
                        .run_name = summary_.run};
    std::vector<NodeHello> hellos;
    for (const std::string& text : exchange(0, to_text(own))) {
      hellos.push_back(parse_hello(text));
    }
    check_alike(hellos);
    place_ = {.first_rank = 0, .world_size = 0, .host = setup_.host};
    for (std::size_t node = 0; node < hellos.size(); ++node) {
      if (static_cast<int>(node) < group_->node()) place_.first_rank += hellos[node].ranks;
      place_.world_size += hellos[node].ranks;
    }
    summary_.run = hellos[0].run_name;
    summary_.world_size = place_.world_size;
  }

  NextStep run_one(int attempt) {
    // Stage 2k + 1: attempt k runs; 2k + 2: it has ended.
    const int stage = 2 * attempt + 1;
    const std::string loss = attempt > 0 ? wait_for_saved() : "";
    if (loss.empty()) group_->begin_attempt(attempt, place_.world_size);
    // Node 0 may be further already: then its text is a report.
    const std::string told = exchange(stage, loss.empty() ? "" : std::string(kLoss) + loss).front();
    if (told.starts_with(kLoss)) return end_without_saved(told.substr(kLoss.size()));
    const AttemptSetup setup{
        .options = options_,
        .program = setup_.program,
        .place = place_,
        .attempt = attempt,
        .run_id = run_id_,
        .launch_id = launch_id_,
        .directory = logs_ ? logs_->make_attempt(attempt) : std::filesystem::path(),
        .secret_descriptor = setup_.secret_descriptor,
        .memory_files = memory_files_,
        .last_saved_descriptor = last_saved_.descriptor(),
        .stage = stage,
        .error_is_terminal = ::isatty(setup_.error) == 1,
        .grace = setup_.grace,
        .kill_patience = setup_.kill_patience};
    const auto begin = std::filesystem::file_time_type::clock::now();
    NodeReport own = run_attempt(setup, {.group = *group_,
                                         .console = console_,
                                         .log_writer = log_writer_,
                                         .inbox = inbox_,
                                         .interruptions = interruptions_,
                                         .has_failed_file = has_failed_file_});
    told_ = own.told;
    if (own.failed > 0) remove_left_memory(shared_memory_folder(), begin);
    if (!own.lost_launcher.empty()) return end_without_others(attempt, own);
    if (group_->node() == 0) own.progress = newest_progress();
    std::vector<NodeReport> reports;
    try {
      // After a failure all launchers end their ranks within seconds.
      const bool is_ending = own.failed > 0 || own.verdict;
      const auto limit = is_ending ? std::optional(setup_.others_patience) : std::nullopt;
      for (const std::string& text : exchange(stage + 1, to_text(own), limit)) {
        reports.push_back(parse_node_report(text));
      }
    } catch (const Error& error) {
      // A launcher whose host is cut off may be noticed a moment later than its ranks.
      own.lost_launcher = group_->lost();
      if (own.lost_launcher.empty() && error.code() == ErrorCode::kTemporary) {
        own.lost_launcher = error.what();
      }
      if (own.lost_launcher.empty() || !own.verdict) throw;
      return end_without_others(attempt, own);
    }
    // Node 0's view counts: the others may see a change of the file system later.
    const auto before = std::exchange(progress_, reports[0].progress);
    return decide(attempt, outcome_of(reports), before, progress_);
  }

  // What is there, or was saved by this job before.
  std::optional<SavedProgress> newest_progress() const {
    const auto found = newest_state(save_, memory_files_);
    const auto last = last_saved_.read();
    if (!last || last->iteration == kNothingSaved) return found;
    const SavedProgress saved{.start = last->start, .iteration = last->iteration};
    return !found || is_progress(found, saved) ? saved : found;
  }

  // On node 0, before a restart: waits until --save has what the job saved last, or the time for
  // that is over. Returns what is lost; empty: nothing is.
  std::string wait_for_saved() {
    const auto last = last_saved_.read();
    if (!last) return "";
    const auto begin = std::chrono::steady_clock::now();
    for (bool has_waited = false;; has_waited = true) {
      std::string loss = loss_of(*last);
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (loss.empty()) {
        if (has_waited) console_.line("phalanx launch: it is there again");
        return "";
      }
      if (waited >= options_.save_timeout || interruptions_.asked_to_stop()) return loss;
      if (!has_waited) {
        console_.line(fmt::format(
            "phalanx launch: {}; waiting up to {:.0f} s for it (--rdzv-conf save_timeout)", loss,
            std::chrono::duration<double>(options_.save_timeout).count()));
      }
      pollfd signals{.fd = inbox_.descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&signals, 1, static_cast<int>(kLook.count()));
      take_signals();
    }
  }

  // The job has saved what a restart would not find: it would begin anew.
  NextStep end_without_saved(const std::string& loss) {
    NextStep step{.restarts = false, .exit_status = static_cast<int>(ErrorCode::kIo), .why = loss};
    summary_.exit_status = step.exit_status;
    keep_summary();
    console_.line(fmt::format(
        "phalanx launch: not started again: {}; bring it back (is a file system not mounted, was "
        "the folder moved?) and start the same command again",
        loss));
    console_.line(fmt::format("phalanx launch: what was saved is gone; exit {}", step.exit_status));
    return step;
  }

  // Another launcher is gone: the nodes can no longer decide together.
  NextStep end_without_others(int attempt, const NodeReport& own) {
    // Without a verdict no rank is known to have failed: the launcher ended them.
    if (!own.verdict) throw Error(ErrorCode::kTemporary, own.lost_launcher);
    const Outcome outcome = outcome_of(std::span(&own, 1));
    NextStep step{.restarts = false,
                  .exit_status = static_cast<int>(ErrorCode::kTemporary),
                  .why = own.lost_launcher};
    end_attempt(attempt, outcome, step);
    return step;
  }

  NextStep decide(int attempt, const Outcome& outcome, const std::optional<SavedProgress>& before,
                  const std::optional<SavedProgress>& now) {
    NextStep step = policy_.after(outcome, before, now);
    if (const auto last = last_saved_.read(); step.restarts && last && !loss_of(*last).empty()) {
      step.why = fmt::format("restart {} of {}, from what the job saved: it is not there now",
                             policy_.restarts(), options_.max_restarts);
    }
    end_attempt(attempt, outcome, step);
    return step;
  }

  void end_attempt(int attempt, const Outcome& outcome, const NextStep& step) {
    const int status = step.restarts ? outcome.exit_status : step.exit_status;
    summary_.attempts.push_back(
        {.attempt = attempt, .exit_status = outcome.exit_status, .culprit = outcome.culprit});
    summary_.exit_status = status;
    keep_summary();
    const bool is_told = outcome.culprit && told_.contains(outcome.culprit->rank);
    if (outcome.culprit && !outcome.culprit->message.empty() && !is_told) {
      console_.line("phalanx launch: its last words: " + outcome.culprit->message);
    }
    if (!step.why.empty()) console_.line("phalanx launch: " + step.why);
    console_.line(last_line(outcome, place_.world_size, status, progress_));
  }

  void keep_summary() {
    if (!logs_ || group_->node() != 0) return;
    const std::string fault = write_summary(logs_->path() / "summary.json", summary_);
    if (!fault.empty()) console_.line("warning: phalanx launch: " + fault);
  }

  const LaunchOptions& options_;
  const LaunchSetup& setup_;
  std::filesystem::path save_;
  Interruptions interruptions_;
  IgnoredBrokenPipes no_broken_pipes_;
  SignalInbox inbox_;  // blocks signals before any thread starts
  Console console_;
  BackgroundWriter log_writer_;
  RestartPolicy policy_;
  MemoryFiles memory_files_;  // as long as this lives
  LastSavedFile last_saved_;  // of node 0
  RunSummary summary_;
  std::string run_id_;
  const std::string launch_id_ = random_digits(32);
  std::unique_ptr<NodeGroup> group_;
  std::optional<LogDirectory> logs_;
  WorldPlace place_;
  std::optional<SavedProgress> progress_;  // after the last attempt
  std::set<int> told_;                     // of the last attempt, as in NodeReport
  bool has_failed_file_ = false;
};

}  // namespace

int launch(const LaunchOptions& options, const LaunchSetup& setup) {
  return Launcher(options, setup).run();
}

}  // namespace phalanx::launch
