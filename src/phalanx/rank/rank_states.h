#pragma once
// A rank's memory: its part of the model, what it keeps of parameters, gradients and optimizer
// states, and who else has which of them. What it does with them in a step is rank.h's.

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
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class RankStates {
 public:
  // `tokens_per_step`: at most, by sequence. `whole_models` may know the rank's. All must outlive
  // this.
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
  // What files of states take of the disk.
  std::int64_t file_bytes() const;
  // For what forward saves for backward; null: it stays in memory.
  Storage* activation_storage() const { return activations_; }
  // Reductions, updates and waits for files are counted there from now on; null: nowhere.
  void time_with(StepTimers* timers) const;
  std::span<const Tensor> constants() const { return constants_.tensors(); }

  // What passes over the chunks read and write.
  std::vector<ChunkTables> tables() const;
  // These states' own hooks, and behind them those of others that are not null.
  nn::HooksInTurn hooks(std::initializer_list<nn::UnitHooks*> others) const;
  // Is told what becomes of these states from now on; null: nobody.
  void observe_with(StateObserver* observer) const;
  // Before the passes of an update whose last microbatch is this; of an evaluation, -1.
  void begin_passes(Context& context, int last_microbatch) const;

  // Draws the weights as every layout does.
  void draw_weights(Context& context) const;

  // The ranks of the pipeline with a shared parameter, this one among them; null: it alone.
  Communicator* holders_of(const SharedSum& sum) const {
    return shared_[static_cast<std::size_t>(sum.parameter)].get();
  }
  Communicator* box_holders() const { return box_holders_.get(); }
  Communicator* replicas() const { return sharding_.replicas.get(); }

 private:
  // Ranks that share one copy of the states; null: nothing is cut.
  Communicator* shard_group() const;
  ReductionGroups reduction_groups() const;
  StateCut state_cut() const;
  // Where states lie in files: the memory through which they come, and where the files go.
  StateFiles open_files(const StateLayout& layout, DType storage, RankArenas& arenas);
  Storage* open_storage(const std::string& directory, RankArenas& arenas);
  std::vector<UnitOrder> unit_orders() const;
  std::vector<int> gradient_uses() const;

  const TrainConfig& config_;
  const RankCommunicators& ranks_;
  RankModel model_;
  std::vector<std::unique_ptr<Communicator>>
      shared_;  // of holders, by the model's shared parameters
  std::unique_ptr<Communicator> box_holders_;
  RankCommunicators::Sharding sharding_;  // of several copies of the states
  std::unique_ptr<TileStaging> staging_;
  std::map<std::string, std::unique_ptr<TimedStorage>> storages_;  // by directory
  Storage* activations_ = nullptr;
  std::unique_ptr<ParameterStore> parameters_;
  nn::Constants constants_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<WeightGathers> gathers_;  // of weights that are cut
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace phalanx
