#include "phalanx/train/run_times.h"

#include <utility>

namespace phalanx {
namespace {

constexpr int kLevelOfSetup = 0;  // also the level of saving

std::int64_t numbers_of(const RunSetup& setup) {
  return setup.grid.world_size() * static_cast<std::int64_t>(kStepTimers);
}

}  // namespace

RunTimes::RunTimes(const RunSetup& setup, Rank& rank, StepTimers& timers,
                   StepTimers::Clock::time_point begin)
    : log_level_(static_cast<int>(setup.config.run.timing_log_level)),
      rank_(rank),
      timers_(timers),
      arena_("times", numbers_of(setup) * size_of(DType::kF64) + kArenaAlignment),
      of_all_(arena_.allocate(DType::kF64, {numbers_of(setup)})) {
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
  const double saved = timers_.seconds(StepTimer::kSaveCheckpoint);
  saving_ = saved - std::exchange(saved_, saved);
}

IterationTimes RunTimes::of_iteration(bool is_logged) {
  IterationTimes times{.data = data_,
                       .messages = messages_,
                       .files = files_,
                       .saving = std::exchange(saving_, 0.0),
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
  const auto count = static_cast<std::int64_t>(wanted.size());
  const Communicator& here = *rank_.ranks().world;
  const Tensor all = of_all_.slice(0, 0, here.size() * count);
  const Tensor mine = all.slice(0, here.rank() * count, count);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    double& gathered = gathered_[static_cast<std::size_t>(wanted[i])];
    const double now = timers_.seconds(wanted[i]);
    const double since = now - std::exchange(gathered, now);
    mine.as<double>()[i] = iterations > 0 ? since / static_cast<double>(iterations) : 0.0;
  }
  rank_.ranks().world->all_gather(rank_.context(), all, mine).wait(rank_.context().queue);
  std::vector<TimerRow> rows;
  if (here.rank() > 0) return rows;
  for (std::int64_t i = 0; i < count; ++i) {
    TimerRow row{.name = std::string(name_of(wanted[static_cast<std::size_t>(i)])), .seconds = {}};
    for (int rank = 0; rank < here.size(); ++rank) {
      row.seconds.push_back(all.as<double>()[rank * count + i]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace phalanx
