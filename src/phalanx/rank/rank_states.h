#pragma once
// The states of a rank: its part of the model, what it keeps of parameters, gradients and optimizer
// states, and the groups of ranks that share them. What happens to them in a step is in step_run.h.

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/data_parallel/data_parallel.h"
#include "phalanx/data_parallel/weight_gathers.h"
#include "phalanx/nn/hooks_in_turn.h"
#include "phalanx/offload/timed_storage.h"
#include "phalanx/optim/optimizer.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank_arenas.h"
#include "phalanx/rank/rank_model.h"
#include "phalanx/rank/router_states.h"
#include "phalanx/rank/step_numbers.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class RankStates {
 public:
  // `tokens_per_step`: the most, by sequence. `whole_models`, where given, may already have the
  // rank's model. All arguments must outlive this.
  RankStates(const TrainConfig& config, const Model& model, const StepPrograms& programs,
             const RankCommunicators& ranks, const std::vector<std::int64_t>& tokens_per_step,
             Context& context, RankArenas& arenas, WholeModels* whole_models = nullptr);
  RankStates(const RankStates&) = delete;
  RankStates& operator=(const RankStates&) = delete;

  const RankModel& model() const { return model_; }
  const ParameterStore& parameters() const { return *parameters_; }
  GradientStore& gradients() const { return *gradients_; }
  DataParallel& data_parallel() const { return *data_parallel_; }
  Optimizer& optimizer() const { return *optimizer_; }
  const StepNumbers& numbers() const { return *numbers_; }
  const RouterStates& routers() const { return *routers_; }
  // From now on what changes states at the end of a step asks the fence before; null: nobody.
  void fence_with(TileFence* fence) {
    fence_ = fence;
    optimizer_->fence_with(fence);
  }
  TileFence* fence() const { return fence_; }
  // Bytes of the states' files on the disk.
  std::int64_t file_bytes() const;
  // Where forward passes put what backward passes need; null: it stays in memory.
  Storage* activation_storage() const { return activations_; }
  // From now on reductions, updates and waits for files count their time there; null: nowhere.
  void time_with(StepTimers* timers) const;
  Tensors constants() const { return constants_.tensors(); }

  // What passes over the chunks read and write.
  std::vector<ChunkTables> tables() const;
  // The hooks of these states, followed by those of `last_hooks` that are not null.
  nn::HooksInTurn hooks(std::initializer_list<nn::UnitHooks*> last_hooks) const;
  // From now on the observer is told what happens to these states; null: nobody.
  void observe_with(StateObserver* observer) const;
  // Called before the passes of an update. `last_microbatch` is the update's; -1 for an evaluation.
  void begin_passes(Context& context, int last_microbatch) const;

  // Draws the weights; they are the same under every layout.
  void draw_weights(Context& context) const;

  // The shared parameters that this rank has, trained or not, in the model's order, each with the
  // group of pipeline ranks that have it; null: only this rank has it.
  std::vector<std::pair<ParamId, Communicator*>> shared_parameters() const;
  Communicator* box_holders() const { return box_holders_.get(); }
  // The ranks with the same part of every copy of a domain's states; null: there is one copy.
  PerDomain<Communicator*> replicas() const;

 private:
  // Ranks that share one copy of the states of a domain; null: nothing is cut.
  PerDomain<Communicator*> shard_groups() const;
  ReductionGroups reduction_groups() const;
  PerDomain<DomainCut> domain_cuts() const;
  StateCut state_cut() const;
  // Where states lie in files: makes the memory through which they come and go, and the files.
  StateFiles open_files(const StateLayout& layout, DType storage, RankArenas& arenas);
  Storage* open_storage(const std::string& directory, RankArenas& arenas);
  std::vector<UnitOrder> unit_orders() const;
  std::vector<int> gradient_uses() const;

  const TrainConfig& config_;
  const RankCommunicators& ranks_;
  RankModel model_;
  std::vector<std::unique_ptr<Communicator>>
      shared_;  // the ranks with each of the model's shared parameters
  std::unique_ptr<Communicator> box_holders_;
  PerDomain<RankCommunicators::Sharding> sharding_;  // where there are several copies of the states
  std::unique_ptr<TileStaging> staging_;
  std::map<std::string, std::unique_ptr<TimedStorage>> storages_;  // by directory
  Storage* activations_ = nullptr;
  std::unique_ptr<ParameterStore> parameters_;
  nn::Constants constants_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<WeightGathers> gathers_;  // where weights are cut
  std::unique_ptr<StepNumbers> numbers_;
  std::unique_ptr<RouterStates> routers_;
  std::unique_ptr<Optimizer> optimizer_;
  TileFence* fence_ = nullptr;
};

}  // namespace phalanx
