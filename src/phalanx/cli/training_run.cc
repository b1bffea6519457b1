#include "phalanx/cli/training_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/stack_dump.h"
#include "phalanx/cli/agent_watch.h"
#include "phalanx/cli/job_environment.h"
#include "phalanx/cli/last_saved_sink.h"
#include "phalanx/cli/signals.h"
#include "phalanx/flag_table/deepspeed/deepspeed_config.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/start/process_runner.h"
#include "phalanx/train/pretrain.h"
#include "phalanx/train/run_sinks.h"

namespace phalanx {
namespace {

// Ranks of this machine that share the cores of this process. Slurm may have given each of them
// cores of its own.
std::int64_t ranks_on_these_cores(const LaunchEnvironment& environment) {
  const char* const own = std::getenv("SLURM_CPUS_PER_TASK");
  const bool has_own_cores = environment.source == "Slurm" && own != nullptr &&
                             std::to_string(cores_of_thread().size()) == own;
  return has_own_cores ? 1 : environment.local_size;
}

// Whether the ranks are threads of this process, although a launcher started it.
bool starts_threads(const std::optional<LaunchEnvironment>& environment, const FlagSet& flags,
                    const TrainConfig& config) {
  const bool wants_threads = environment && flags.given("--nproc") &&
                             (environment->world_size > 1 || config.layout.world_size > 1);
  // The only process of torchrun or Slurm has no others to join.
  const bool may_start_threads =
      environment && environment->world_size == 1 && environment->hosts_coordinator;
  if (wants_threads && !may_start_threads) {
    throw UsageError(
        "--nproc starts ranks as threads of this process, but {} {} started ({}): leave --nproc "
        "out; the launcher's --nproc-per-node says how many ranks there are",
        environment->world_size, environment->world_size == 1 ? "process was" : "processes were",
        environment->source);
  }
  return wants_threads;
}

// Threads of this process, or this process as one rank of many.
std::unique_ptr<RankRunner> runner_of(const std::optional<LaunchEnvironment>& environment,
                                      const TrainConfig& config, const StopRequests& stop) {
  if (!environment) return make_thread_runner(static_cast<int>(config.layout.world_size));
  if (environment->rank == 0 && !environment->note.empty()) log_info("> {}", environment->note);
  return make_process_runner(*environment, config.run, timeout_of(config.run), [&stop] {
    if (stop.received() != 0) throw StoppedEarly{};
  });
}

RunEnd train(const std::optional<LaunchEnvironment>& environment, const TrainConfig& config) {
  const StopSignals signals(!config.run.save.empty(), signal_number(config.run.exit_signal));
  RunSinks sinks = default_sinks(config.run);
  if (auto sink = make_last_saved_sink(config.run.save)) sinks.add(std::move(sink));
  return pretrain(
      config, [&signals] { return signals.received(); }, sinks,
      [&] { return runner_of(environment, config, signals); });
}

int status_of(RunEnd end) {
  switch (end) {
    case RunEnd::kFinished:
      return 0;
    case RunEnd::kPreempted:
      return static_cast<int>(ErrorCode::kPreempted);
    case RunEnd::kStopped:
      return static_cast<int>(ErrorCode::kTemporary);
  }
  return static_cast<int>(ErrorCode::kInternal);
}

}  // namespace

std::optional<LaunchEnvironment> begin_process(CommandIo& io, TrainConfig& config) {
  if (!io.owns_process()) return std::nullopt;
  std::optional<LaunchEnvironment> environment = read_launch_environment();
  // Of many processes only the first one logs; all of them print errors.
  if (environment && environment->rank > 0) set_log_level(LogLevel::kError);
  install_stack_dump(STDERR_FILENO, environment ? environment->rank : -1);
  if (environment) {
    config.layout.world_size = environment->world_size;
    // A single process may still start ranks as threads.
    if (environment->world_size > 1) {
      config.layout.local_size = ranks_on_these_cores(*environment);
    }
  }
  return environment;
}

void add_other_train_flags(FlagSet& flags, TrainConfig& config) {
  for (const TrainFlag& flag : train_flags()) {
    const bool is_own = std::ranges::any_of(
        flags.rows(), [&](const FlagRow& row) { return answers_to(flag.spec, row.spec.name); });
    if (is_own) continue;
    flags.section(std::string(flag.section));
    flags.add(flag.spec, flag.target != nullptr ? flag.target(config) : FlagTarget{});
  }
}

void add_start_flags(FlagSet& flags, TrainConfig& config) {
  flags.section("Start");
  flags.add({.name = "--nproc",
             .help = "Ranks: the run starts this many on this machine",
             .range = from_to(1, 1048576)},
            &config.layout.world_size);
  flags.add_yaml();
  add_deepspeed_config(flags, config);
}

std::unique_ptr<RankRunner> start_ranks(const std::optional<LaunchEnvironment>& environment,
                                        const FlagSet& flags, const TrainConfig& config,
                                        const StopRequests& stop) {
  const bool as_threads = starts_threads(environment, flags, config);
  return runner_of(as_threads ? std::nullopt : environment, config, stop);
}

int run_training(CommandIo& io, const std::optional<LaunchEnvironment>& environment,
                 const FlagSet& flags, TrainConfig& config) {
  if (!io.owns_process()) return status_of(train_on_threads(flags, config, nullptr, nullptr));
  let_log_drop_lines();
  for (const std::string& note : flags.notes()) log_info("{}", note);
  read_job(config.run);
  const auto agent = environment ? watch_agent(*environment, timeout_of(config.run)) : nullptr;
  return status_of(
      train(starts_threads(environment, flags, config) ? std::nullopt : environment, config));
}

RunEnd train_on_threads(const FlagSet& flags, TrainConfig& config, const StopToken& stop,
                        std::unique_ptr<RunSink> listener) {
  if (flags.given("--exit-signal")) {
    throw ConfigError(
        "--exit-signal {}: a run inside another program listens to no signals: leave it out, and "
        "ask the run to stop from the program",
        config.run.exit_signal);
  }
  for (const std::string& note : flags.notes()) log_info("{}", note);
  read_job(config.run);
  RunSinks sinks = default_sinks(config.run, HasTerminal::kNo);
  if (listener != nullptr) sinks.add(std::move(listener));
  return pretrain(config, stop, sinks);
}

}  // namespace phalanx
