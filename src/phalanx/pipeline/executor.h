#pragma once
// Runs a rank's program: it calls chunks for passes, the pipeline's communicator for messages, and
// StepServices for all else. It knows no schedule.
//
// Messages move while passes run: a receive begins at its place in the program, and the pass that
// reads it waits for it; a send is awaited where the program says so.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/comm/communicator.h"
#include "phalanx/model/chunk.h"
#include "phalanx/nn/pass_states.h"
#include "phalanx/pipeline/action.h"
#include "phalanx/pipeline/batch_slots.h"
#include "phalanx/pipeline/saved_files.h"
#include "phalanx/pipeline/saved_plan.h"
#include "phalanx/pipeline/stage_messages.h"

namespace phalanx {

// What the executor needs from the rank on which it runs.
class StepServices {
 public:
  virtual ~StepServices() = default;
  // Brings the microbatch to the device before its first pass; it stays valid until its last pass.
  virtual const nn::Batch& load(int microbatch) = 0;
  virtual const nn::Batch& loaded(int microbatch) = 0;
  // The tensors to which the microbatch's losses are added.
  virtual std::span<const nn::LossTerm> losses(int microbatch) = 0;
  // The same of losses that layers add; none: they are left out.
  virtual std::span<const nn::AuxiliaryTerm> auxiliary_losses(int /*microbatch*/) { return {}; }

  // What a pass of the microbatch counts of routers, and with whom; empty: nothing.
  virtual nn::RouterCounts router_counts(int /*microbatch*/) { return {}; }

  // The next four calls do not occur in an evaluation. By default they throw an InternalError.

  // The weights after `version` optimizer steps.
  virtual nn::Weights stale_weights(int version);
  virtual void reduce_gradients(int chunk);
  // The step that makes this version of the weights.
  virtual void optimizer_step(int version);
  virtual void gather_parameters();

  // In an evaluation: whether this microbatch and all later ones are left out.
  virtual bool is_given_up(int /*microbatch*/) { return false; }
  // The timers of a run; null: none.
  virtual StepTimers* timers() { return nullptr; }
};

// Called when a pass begins on the host, after its inputs have come, and when it ends; and when the
// optimizer's step begins and ends.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void begin(const Action& pass) = 0;
  virtual void end(const Action& pass) = 0;
  virtual void update_begins() {}
  virtual void update_ends() {}
};

// A chunk with its tables of weights and gradients.
struct ChunkTables {
  const Chunk* chunk = nullptr;
  nn::Weights weights;  // the newest
  nn::Gradients gradients;
  // They update these tables from unit to unit.
  std::vector<nn::PassStates*> states = {};
};

// Settings of all passes of a run.
struct StepSettings {
  nn::BatchShapes shapes;
  TensorRegion region;
  ContextRegion context = {};
  ExpertRegion experts = {};
  bool training = true;
  nn::LossSettings loss;
  Tensors constants = {};
};

class Executor {
 public:
  // The program must have been verified together with those of the other ranks of `pipeline` (null:
  // there are none). Packs its saved tensors unless `plans` has their plan. With `files` some of
  // them are kept in files between passes; the files must outlive this, and are opened after all
  // executors have been made.
  Executor(Program program, std::vector<ChunkTables> chunks, const nn::BatchShapes& shapes,
           Communicator* pipeline = nullptr, SavedPlans* plans = nullptr,
           SavedFiles* files = nullptr);

  const Program& program() const { return program_; }
  const SavedPlan& saved_plan() const { return *plan_; }
  const BatchSlots& batch_slots() const { return batch_slots_; }

  void run(Context& context, Arena& saved, const StepSettings& settings, StepServices& services,
           nn::UnitHooks& hooks, PassObserver* observer = nullptr);

  // What context.recorder (required) would count in a run of the whole program.
  struct Rehearsal {
    std::int64_t flops = 0;
    MessageTotals messages;
    TransferTotals transfers;
  };
  // Runs each distinct action once and adds up for all. On the planning backend this marks all
  // memory that a run uses. `traces`, where given, gets what each distinct action does, by its
  // number.
  Rehearsal rehearse(Context& context, Arena& saved, const StepSettings& settings,
                     StepServices& services, nn::UnitHooks& hooks,
                     std::vector<Trace>* traces = nullptr);
  // By action: its number; equal actions have the same number.
  std::vector<std::size_t> numbers_of_actions() const;
  // Which distinct actions the program has, by their number. Actions differ by kind, payload and
  // chunk; by whether they load their microbatch; by whether they add to gradients (all but the
  // first do); by whether they are the last before the chunk's gradients are reduced, which then
  // begins during the pass. Programs with the same distinct actions use the same memory besides
  // saved tensors.
  std::vector<bool> distinct_actions() const;

 private:
  // What the actions of one run share.
  struct Run {
    Context& context;
    Arena& saved;
    const StepSettings& settings;
    StepServices& services;
    nn::UnitHooks& hooks;
    StepTimers* timers = nullptr;
    PassObserver* observer = nullptr;
    int version = 0;  // of the newest weights
    // Not all passes run, so all microbatches use the first slot of files.
    bool is_rehearsal = false;
  };
  void execute(std::size_t index, Run& run);
  void execute_pass(std::size_t index, Run& run);
  void compute(const Action& action, nn::Pass& pass, Run& run);
  // Announces a pass to the states that lend weights and gradients, and to the files of saved
  // tensors.
  void enter(const Action& action, Tensors tensors, Run& run) const;
  static const nn::Batch& load(int microbatch, Run& run);
  void await_input(const Action& pass, Run& run);
  void await_send(const Action& action, Run& run);
  void send(const Action& action, Run& run);
  void receive(const Action& action, Run& run);
  void hand_over(const Action& action, Run& run);
  // The saved tensors of a microbatch on a chunk, valid until the next call. kSecond: tensors that
  // are kept in files are at the place of their second life.
  enum class Life : std::uint8_t { kFirst, kSecond };
  Tensors place(int chunk, int microbatch, Arena& saved, Life life = Life::kFirst);
  const Chunk& chunk(int index) const { return *chunks_[static_cast<std::size_t>(index)].chunk; }
  // By action: whether it adds the last weight gradient of its chunk before a reduction.
  std::vector<bool> completing_actions() const;
  std::size_t most_numbers() const;

  Program program_;
  std::vector<ChunkTables> chunks_;
  std::vector<nn::PassOrder> orders_;  // by chunk
  std::vector<std::vector<std::size_t>>
      lent_counts_;                     // by chunk: how many tensors each of its states has
  std::vector<std::size_t> own_count_;  // by chunk: how many it has itself
  std::vector<std::vector<SavedTensor>>
      tensors_;  // by chunk: its own, then those, then second lives
  SavedFiles* files_;
  std::vector<std::vector<OffloadedTensor>> offloaded_;  // by chunk: what offloaded memory
  std::vector<std::vector<int>> file_slots_;             // by chunk and microbatch
  // By chunk, life and tensor: the tensor whose place it uses.
  std::vector<std::array<std::vector<std::size_t>, 2>> place_indices_;
  std::shared_ptr<const SavedPlan> plan_;
  BatchSlots batch_slots_;
  StageMessages messages_;
  // By chunk: filled by place() for every pass; kept, since a deep model has many tensors.
  std::vector<std::vector<Tensor>> placed_;
};

}  // namespace phalanx
