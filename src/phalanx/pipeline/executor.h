#pragma once
// Runs a program: calls chunks for passes, and its services for everything that is not the model's.
// Knows no schedule.

#include <vector>

#include "phalanx/model/chunk.h"
#include "phalanx/pipeline/action.h"
#include "phalanx/pipeline/saved_plan.h"

namespace phalanx {

// What the executor asks of the rank it runs on.
class StepServices {
 public:
  virtual ~StepServices() = default;
  // Brings the microbatch to the device; it stays valid until its last pass.
  virtual const nn::Batch& load(int microbatch) = 0;
  virtual const nn::Batch& loaded(int microbatch) = 0;
  virtual void reduce_gradients(int chunk) = 0;
  virtual void optimizer_step() = 0;
};

// A chunk with the tables resolved for it.
struct ChunkTables {
  const Chunk* chunk = nullptr;
  nn::Weights weights;
  nn::Gradients gradients;
};

// What holds for all passes of one run.
struct StepSettings {
  nn::BatchShape shape;
  TensorRegion region;
  bool training = true;
  nn::LossSettings loss;
  nn::LossSums sums;
};

class Executor {
 public:
  // Verifies the program and packs its saved tensors.
  Executor(Program program, std::vector<ChunkTables> chunks, const nn::BatchShape& shape);

  const Program& program() const { return program_; }
  const SavedPlan& saved_plan() const { return plan_; }

  void run(Context& context, Arena& saved, const StepSettings& settings, StepServices& services,
           nn::UnitHooks& hooks);

  // What context.recorder (required) would have counted of the whole program.
  struct Rehearsal {
    std::int64_t flops = 0;
    MessageTotals messages;
  };
  // Runs each distinct action once (kind and chunk; the last microbatch, whose gradients are
  // reduced while they come, is a case of its own) and answers for all. On the planning backend
  // this marks all memory a run takes.
  Rehearsal rehearse(Context& context, Arena& saved, const StepSettings& settings,
                     StepServices& services, nn::UnitHooks& hooks);

 private:
  void execute(const Action& action, Context& context, Arena& saved, const StepSettings& settings,
               StepServices& services, nn::UnitHooks& hooks);
  // The saved tensors of an action's microbatch.
  std::span<const Tensor> place(const Action& action, Arena& saved);

  Program program_;
  std::vector<ChunkTables> chunks_;
  std::vector<std::vector<SavedBlock>> blocks_;
  SavedPlan plan_;
  std::vector<Tensor> placed_;
};

}  // namespace phalanx
