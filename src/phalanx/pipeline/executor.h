#pragma once
// Runs a rank's program: calls chunks for passes, the pipeline's communicator for messages, and its
// services for everything that is neither. Knows no schedule.
//
// A message moves while passes run: a receive begins at its place in the program and is waited for
// by the pass that reads it, a send is waited for where the program says so.

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

// What the executor asks of the rank it runs on.
class StepServices {
 public:
  virtual ~StepServices() = default;
  // Brings the microbatch to the device, before its first pass; it stays valid until its last.
  virtual const nn::Batch& load(int microbatch) = 0;
  virtual const nn::Batch& loaded(int microbatch) = 0;
  // Where the microbatch's losses are added.
  virtual std::span<const nn::LossTerm> losses(int microbatch) = 0;
  // Weights as they were when `version` steps had been made.
  virtual nn::Weights stale_weights(int version);
  virtual void reduce_gradients(int chunk) = 0;
  // Makes this version of the weights.
  virtual void optimizer_step(int version) = 0;
  virtual void gather_parameters() = 0;
  // Of an evaluation: whether this microbatch and all behind it are left out.
  virtual bool is_given_up(int /*microbatch*/) { return false; }
  // Where a run's time is counted; null: nowhere.
  virtual StepTimers* timers() { return nullptr; }
};

// Is told when a pass begins on the host, with everything there that it reads, and when it ends.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void begin(const Action& pass) = 0;
  virtual void end(const Action& pass) = 0;
};

// A chunk with the tables resolved for it.
struct ChunkTables {
  const Chunk* chunk = nullptr;
  nn::Weights weights;  // the newest
  nn::Gradients gradients;
  // Who keeps these tables, where that is not the same for all units.
  std::vector<nn::PassStates*> states = {};
};

// What holds for all passes of one run.
struct StepSettings {
  nn::BatchShapes shapes;
  TensorRegion region;
  bool training = true;
  nn::LossSettings loss;
  std::span<const Tensor> constants = {};
};

class Executor {
 public:
  // The program must have been verified with those of the other ranks of `pipeline`, which is null
  // where there are none. Packs its saved tensors, unless `plans` has them. With `files` some leave
  // memory between the passes; these are opened when all executors are made, and outlive them.
  Executor(Program program, std::vector<ChunkTables> chunks, const nn::BatchShapes& shapes,
           Communicator* pipeline = nullptr, SavedPlans* plans = nullptr,
           SavedFiles* files = nullptr);

  const Program& program() const { return program_; }
  const SavedPlan& saved_plan() const { return *plan_; }
  const BatchSlots& batch_slots() const { return batch_slots_; }

  void run(Context& context, Arena& saved, const StepSettings& settings, StepServices& services,
           nn::UnitHooks& hooks, PassObserver* observer = nullptr);

  // What context.recorder (required) would have counted of the whole program.
  struct Rehearsal {
    std::int64_t flops = 0;
    MessageTotals messages;
    TransferTotals transfers;
  };
  // Runs each distinct action once and answers for all. On the planning backend this marks all
  // memory a run takes.
  Rehearsal rehearse(Context& context, Arena& saved, const StepSettings& settings,
                     StepServices& services, nn::UnitHooks& hooks);
  // By number, which distinct actions there are (kind, payload and chunk; whether it loads its
  // microbatch; whether it adds to gradients, as all but the first do; whether it is the last
  // before the chunk's gradients are reduced, which then begins while they come). A program with
  // the same ones takes the same memory beside its saved tensors.
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
    // Not all passes run: what one writes to a file another reads.
    bool is_rehearsal = false;
  };
  void execute(std::size_t index, Run& run);
  void execute_pass(std::size_t index, Run& run);
  void compute(const Action& action, nn::Pass& pass, Run& run);
  // Tells those who lend weights and gradients, or keep what is saved in files, where a pass finds
  // them.
  void enter(const Action& action, std::span<const Tensor> blocks, Run& run) const;
  static const nn::Batch& load(int microbatch, Run& run);
  void await_input(const Action& pass, Run& run);
  void await_send(const Action& action, Run& run);
  void send(const Action& action, Run& run);
  void receive(const Action& action, Run& run);
  void hand_over(const Action& action, Run& run);
  // The saved tensors of a microbatch on a chunk, until the next are asked for.
  enum class Life : std::uint8_t { kFirst, kSecond };
  std::span<const Tensor> place(int chunk, int microbatch, Arena& saved, Life life = Life::kFirst);
  const Chunk& chunk(int index) const { return *chunks_[static_cast<std::size_t>(index)].chunk; }
  // By action: whether it is the last weight gradient of its chunk before a reduction.
  std::vector<bool> completing_actions() const;
  // By action: the number that alike ones share.
  std::vector<std::size_t> numbers_of_actions() const;
  std::size_t most_numbers() const;

  Program program_;
  std::vector<ChunkTables> chunks_;
  std::vector<nn::PassOrder> orders_;           // by chunk
  std::vector<std::vector<std::size_t>> lent_;  // by chunk: how many blocks each of its states has
  std::vector<std::size_t> own_;                // by chunk: how many it has itself
  std::vector<std::vector<SavedTensor>>
      blocks_;  // by chunk: its own, then those, then second lives
  SavedFiles* files_;
  std::vector<std::vector<SavedLeave>> leaves_;  // by chunk: what leaves memory
  std::vector<std::vector<int>> file_slots_;     // by chunk and microbatch
  // By chunk, life and block: the block in whose place it is.
  std::vector<std::array<std::vector<std::size_t>, 2>> homes_;
  std::shared_ptr<const SavedPlan> plan_;
  BatchSlots batch_slots_;
  StageMessages messages_;
  // By chunk: what place() fills again for every pass. In a deep model these are many.
  std::vector<std::vector<Tensor>> placed_;
};

}  // namespace phalanx
