#pragma once
// Everything that the ranks of a process share during a run: settings, tokenizer, the checkpoint to
// begin with, data, programs and memory plans. Nothing of it changes while the run goes on.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/base/machine.h"
#include "phalanx/optim/parameter_schedule.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/saving/data_digests.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/saving/run_directory.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/saving/run_saver.h"
#include "phalanx/settings/run_length.h"
#include "phalanx/start/answer_prompts.h"
#include "phalanx/start/rank_affinity.h"
#include "phalanx/start/rank_memory.h"
#include "phalanx/start/rank_runner.h"
#include "phalanx/start/run_data.h"
#include "phalanx/start/run_decisions.h"
#include "phalanx/start/step_forecast.h"

namespace phalanx {

struct RunSetup {
  // Resolves the configuration, opens the inputs, plans; throws where any of it is wrong, before
  // anything large is allocated. `stop` is asked while the data's order is made, which can take
  // minutes. Called by all processes at the same time, within RankRunner::prepare(). None of the
  // checkpoints in `refused` is chosen: the ranks could not read them.
  RunSetup(const TrainConfig& config, RankRunner& runner,
           const std::function<bool()>& stop = nullptr,
           std::span<const RefusedCheckpoint> refused = {});
  // For ranks that are threads of this process.
  explicit RunSetup(const TrainConfig& config, const std::function<bool()>& stop = nullptr);

  TrainConfig config;
  std::optional<DirectoryLock> lock;  // on --save, as long as the run; of the leading process
  std::vector<RankPlace> places;      // by rank
  ParallelGrids grids;
  std::unique_ptr<Tokenizer> tokenizer;
  // What the run begins with, or null. Each rank gives it up once it is read, so that files that
  // are removed later give their space back.
  std::shared_ptr<const CheckpointReader> checkpoint;
  // Of the weights that the run does not train, where it has adapters and does not save them.
  std::optional<Manifest::Base> base;
  std::optional<Manifest> loaded;  // the checkpoint's
  bool loads_from_memory = false;  // the checkpoint is a snapshot
  bool loads_from_save = false;    // --save has the checkpoint
  RunIdentity identity;
  std::optional<RunDirectory> directory;  // --save; of the leading process
  std::string name;  // unique name of this start, the same in all its processes
  RunInputs inputs;
  // In the leading process, or null.
  std::unique_ptr<const DataDigests> digests;
  RunLength length;
  ParameterSchedule schedule;
  MeasuredDevice device;
  std::shared_ptr<const Model> model;
  StepPrograms programs;
  std::vector<RankPlan> plans;           // of the ranks of this process
  std::vector<RankFacts> ranks;          // of all, by rank
  std::int64_t peak_bytes = 0;           // the most that the arenas of any rank hold
  double flops_per_step = 0;             // that all ranks compute, recomputation included
  std::optional<DiskStep> disk;          // of a step, where states lie in files
  std::optional<StepForecast> forecast;  // with --cluster, of the leading process
  std::optional<RunData> data;
  std::optional<AnswerPrompts> answers;
  RankAffinity affinity;
  UsableCores cores = usable_cores();  // before any rank is bound to its own
  // For the log: when the first part of the preparation was done, how long it took, and how long
  // the data took.
  std::chrono::system_clock::time_point initialised;
  std::chrono::steady_clock::duration start_time{}, data_time{};

  const MemoryPlan& plan_of(int rank) const;
  // What the run's checkpoints have in common, and where --save puts them.
  SavedRun saved_run() const;
  SaveTarget save_target() const;
  // A data-parallel rank's samples of a split from `consumed` on, and of one of its sets. The
  // threads that read ahead run on the cores of any rank: a rank's own are its team's.
  std::unique_ptr<RunData::Stream> stream(SplitKind kind, std::int64_t consumed,
                                          const GridCoordinates& rank, std::size_t set = 0) const;
  int hosts() const { return places.back().host + 1; }
  // Per second, of all hosts.
  double peak_flops() const { return hosts() * device.peak_flops(); }
  double instruction_peak_flops() const { return hosts() * device.instruction_peak_flops(); }
  // The share of one rank of its host.
  double peak_flops_of(int rank) const {
    return device.peak_flops() / places[static_cast<std::size_t>(rank)].local_size;
  }
  // Of a step, at the peak.
  double arithmetic_seconds() const { return flops_per_step / peak_flops(); }

 private:
  RunSetup(DecidedRun start, RankRunner& runner, const std::function<bool()>& stop);
  std::string planned(std::int64_t shared_bytes) const;
  void plan_memory(RankRunner& runner);
};

}  // namespace phalanx
