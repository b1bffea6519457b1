#include "phalanx/train/run_times.h"

#include <utility>

#include "phalanx/rank/gather.h"

namespace phalanx {
namespace {

constexpr int kLevelOfSetup = 0;  // also the level of saving

}  // namespace

RunTimes::RunTimes(const RunSetup& setup, Rank& rank, StepTimers& timers,
                   StepTimers::Clock::time_point begin)
    : log_level_(static_cast<int>(setup.config.run.timing_log_level)),
      rank_(rank),
      timers_(timers) {
  timers_.add(StepTimer::kModelSetup, StepTimers::Clock::now() - begin);
  timers_.add(StepTimer::kDataSetup, setup.data_time);
  rank_.time_with(&timers_);
}

std::vector<TimerRow> RunTimes::of_setup() {
  return gather({StepTimer::kLoadCheckpoint, StepTimer::kModelSetup, StepTimer::kDataSetup}, 1);
}

std::vector<TimerRow> RunTimes::of_save() { return gather({StepTimer::kSaveCheckpoint}, 1); }

void RunTimes::end_iterations(std::int64_t count) {
  iterations_ += count;
  const auto share = [&](StepTimer timer) {
    const double since = timers_.seconds(timer) - begin_[static_cast<std::size_t>(timer)];
    return since / static_cast<double>(count);
  };
  data_ = share(StepTimer::kData);
  messages_ = share(StepTimer::kMessages);
  files_ = share(StepTimer::kFiles);
  snapshot_ = share(StepTimer::kSnapshot);
  const double saved = timers_.seconds(StepTimer::kSaveCheckpoint);
  saving_ = saved - std::exchange(saved_, saved);
}

IterationTimes RunTimes::of_iteration(bool is_logged) {
  IterationTimes times{.data = data_,
                       .messages = messages_,
                       .files = files_,
                       .saving = std::exchange(saving_, 0.0),
                       .snapshot = snapshot_,
                       .rows = {}};
  if (!is_logged || log_level_ == 0) return times;
  std::vector<StepTimer> wanted;
  for (std::size_t i = 0; i < kStepTimers; ++i) {
    const auto timer = static_cast<StepTimer>(i);
    if (level_of(timer) > kLevelOfSetup && level_of(timer) <= log_level_) wanted.push_back(timer);
  }
  times.rows = gather(wanted, std::exchange(iterations_, 0));
  return times;
}

std::vector<TimerRow> RunTimes::gather(const std::vector<StepTimer>& wanted,
                                       std::int64_t iterations) {
  std::vector<double> mine;
  for (const StepTimer timer : wanted) {
    double& gathered = gathered_[static_cast<std::size_t>(timer)];
    const double now = timers_.seconds(timer);
    const double since = now - std::exchange(gathered, now);
    mine.push_back(iterations > 0 ? since / static_cast<double>(iterations) : 0.0);
  }
  Communicator& world = *rank_.ranks().control;
  const auto of_ranks = gather_numbers(world, rank_.host_context(), mine);
  std::vector<TimerRow> rows;
  if (world.rank() > 0) return rows;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TimerRow& row = rows.emplace_back(TimerRow{std::string(name_of(wanted[i])), {}});
    for (const std::vector<double>& of_rank : of_ranks) row.seconds.push_back(of_rank[i]);
  }
  return rows;
}

}  // namespace phalanx
