#pragma once
// One rank: its model part, parameters, gradients, optimizer and programs, on a backend, in arenas.
// The same object is built twice: on the planning backend, where a rehearsal leaves the arenas'
// high-water marks (the plan), and on the real one, in arenas of exactly that size.

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/ops/backend_pieces.h"
#include "phalanx/rank/asynchronous_updates.h"
#include "phalanx/rank/batch_memory.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank_arenas.h"
#include "phalanx/rank/rank_programs.h"
#include "phalanx/rank/rank_states.h"
#include "phalanx/rank/step.h"
#include "phalanx/rank/step_losses.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class Rank final {
 public:
  // What ranks that are made one after another can use together.
  struct Shared {
    SavedPlans saved;
    WholeModels models;
  };
  // Programs, communicators and arenas must outlive the rank; `shared` too, where it is given.
  Rank(const TrainConfig& config, const Model& any_rank, const StepPrograms& programs,
       const RankCommunicators& ranks, Backend& backend, RankArenas& arenas,
       Shared* shared = nullptr);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  // An exception that ends a rank ends the world: peers may not read its arenas any more.
  ~Rank();

  // Draws the weights, zeros the moments.
  void initialise();
  // After weights came from elsewhere (a checkpoint without main parameters): zero moments, no
  // gradient slots in use.
  void initialise_optimizer() { states_.optimizer().initialise(context_); }
  // From now on an exception that ends this rank is not its failure: it ends all ranks.
  void end_together() { ends_together_ = true; }
  void initialise_gradients() { states_.gradients().initialise(context_); }

  // Runs as many iterations as there are schedules, all of one batch, after which the pipeline is
  // empty; there must be a program of that size. `last_hooks` are called for every unit's passes
  // after this rank's own hooks.
  std::vector<StepResult> train(std::span<const StepSchedule> iterations, const BatchSource& source,
                                PassObserver* observer = nullptr,
                                nn::UnitHooks* last_hooks = nullptr) {
    return begin_training(iterations, source, observer, last_hooks).wait();
  }
  // The same, without waiting for the device: on a host, which computes at once, the results are
  // there. `updates`, where given, is asked as its type says.
  StepsUnderWay begin_training(std::span<const StepSchedule> iterations, const BatchSource& source,
                               PassObserver* observer = nullptr,
                               nn::UnitHooks* last_hooks = nullptr,
                               const UpdateSource& updates = nullptr);
  StepResult train_step(const StepSchedule& schedule, const BatchSource& source) {
    return train({&schedule, 1}, source).front();
  }
  // Waits for the parameters that other ranks updated: after a step they may still be on their way.
  void finish_gather() { states_.data_parallel().finish_gather(); }
  // Whether a step must be told beforehand what each loss counts (LossMemory).
  bool wants_loss_counts() const { return losses_.wants_counts(); }
  // The losses of one forward-only global batch. Microbatches that are masked throughout do not
  // count in means of means: they only fill up a set that is read whole.
  StepResult evaluate(const BatchSource& source);
  // The same, but nothing, on all ranks, where any rank's `stop` says between two microbatches to
  // give it up.
  std::optional<StepResult> evaluate_unless(const std::function<bool()>& stop,
                                            const BatchSource& source);

  const TrainConfig& config() const { return config_; }
  const RankCommunicators& ranks() const { return ranks_; }
  Context& context() { return context_; }
  // For numbers of this rank's host, which travel over ranks().control and on_host(): its tensors
  // lie in host memory. It is context() where that has host memory.
  Context& host_context() { return host_ ? host_->context : context_; }
  // How the host reads and writes this rank's tensors between steps.
  HostPieces& host_pieces() { return host_pieces_; }
  RankArenas& arenas() { return arenas_; }
  const RankStates& states() const { return states_; }
  // Bytes of this rank's files on the disk.
  std::int64_t file_bytes() const;
  const nn::ParamTable& table() const { return states_.model().table; }
  const std::vector<Chunk>& chunks() const { return states_.model().chunks; }
  // All of the model, as one pipeline rank would have it.
  const nn::ParamTable& whole_table() const { return states_.model().whole->table; }
  const ParameterStore& parameters() const { return states_.parameters(); }
  const GradientStore& gradients() const { return states_.gradients(); }
  const Optimizer& optimizer() const { return states_.optimizer(); }
  // Between steps: what this rank updates, tile by tile (tile_file.h).
  void visit(std::span<const TileAccess> accesses,
             const std::function<void(const StateLayout::Tile&, Tensors)>& body) {
    visit_tiles(context_, parameters().states(), parameters().staging(), accesses, body);
  }
  // From now on updates ask the fence before they change what this rank has; null: nobody.
  void fence_with(TileFence* fence) { states_.fence_with(fence); }
  // u8, all of the arena "snapshot"; empty where nothing is planned for it.
  const Tensor& snapshot_memory() const { return snapshot_memory_; }
  // The largest of all ranks' values; every rank asks at the same time.
  int largest_of_all(int value);

  // Every op of the next steps is written there, for plans and benchmarks; null ends it.
  void record_to(Recorder* recorder) {
    context_.recorder = recorder;
    host_context().recorder = recorder;
  }
  // Training steps count their time there from now on; null: nowhere.
  void time_with(StepTimers* timers);

  // What a run of a program works with (step_run.h).
  const RankPrograms& programs() const { return programs_; }
  const nn::BatchShapes& shapes() const { return shapes_; }
  const TensorRegion& region() const { return region_; }
  ContextRegion context_region() const {
    return ContextRegion(ranks_.context.get(), context_levels_.heads.get(),
                         context_levels_.ring.get());
  }
  ExpertRegion expert_region() const { return ranks_.expert_region(); }
  const LossMemory& losses() const { return losses_; }
  const BatchMemory& batches() const { return batches_; }
  // Null unless the schedule is asynchronous.
  AsynchronousUpdates* asynchronous() const { return asynchronous_.get(); }
  StepTimers* timers() const { return timers_; }
  // i32 on the host, for StopAgreement; empty where this is the only rank.
  const Tensor& stop_slots() const { return stop_slots_; }

 private:
  // Where the backend's tensors lie on a device.
  struct Host {
    explicit Host(int ranks);
    std::unique_ptr<Backend> backend;
    Arena memory;
    Context context;
  };

  const TrainConfig config_;
  const int exceptions_at_birth_ = std::uncaught_exceptions();
  bool ends_together_ = false;
  const RankCommunicators& ranks_;
  TensorRegion region_;
  RankCommunicators::ContextLevels context_levels_;  // where some layer exchanges on two levels
  Context context_;
  std::unique_ptr<Host> host_;
  BackendPieces host_pieces_{context_};
  RankArenas& arenas_;
  std::shared_ptr<const Model> family_model_;  // of this rank's place
  BatchSchema schema_;                         // of this rank's part of a microbatch
  nn::BatchShapes shapes_;
  RankStates states_;
  RankPrograms programs_;
  LossMemory losses_;
  std::unique_ptr<AsynchronousUpdates> asynchronous_;
  BatchMemory batches_;  // a slot for each microbatch in flight
  Tensor stop_slots_;
  Tensor snapshot_memory_;
  StepTimers* timers_ = nullptr;
};

}  // namespace phalanx
