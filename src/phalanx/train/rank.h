#pragma once
// One rank: its model part, parameters, gradients, optimizer and programs, on a backend, in arenas.
// The same object is built twice: on the planning backend, where a rehearsal leaves the arenas'
// high-water marks (the plan), and on the real one, in arenas of exactly that size.

#include <functional>
#include <memory>
#include <vector>

#include "phalanx/data/gpt_batch.h"
#include "phalanx/optim/adam_optimizer.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/train/config.h"

namespace phalanx {

// A rank's memory by what it is for; the rows of the plan.
struct RankArenas {
  Arena parameters, main_parameters, gradients, optimizer, saved, workspace, communication;

  static RankArenas planning();
  // The high-water mark of every arena, in the order above.
  std::vector<std::int64_t> high_water() const;
  std::vector<const Arena*> all() const;
};

// What a training step brought back to the host.
struct StepResult {
  double loss = 0.0;    // mean over the unmasked tokens of the global batch
  double tokens = 0.0;  // unmasked
  double grad_norm = 0.0;
  bool skipped = false;  // the gradient was not finite: nothing was updated
};

struct StepSchedule {
  double lr = 0.0;
  double weight_decay = 0.0;
  std::int64_t adam_step = 1;
};

// The microbatches of a step, in order.
using BatchSource = std::function<const GptBatch&(int microbatch)>;

class Rank final : private StepServices {
 public:
  // The arenas must outlive the rank.
  Rank(const TrainConfig& config, const GptConfig& model, Backend& backend, RankArenas& arenas);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Draws the weights, zeros the moments.
  void initialise();
  // After weights came from elsewhere (a checkpoint without main parameters): zero moments, no
  // gradient slots in use.
  void initialise_optimizer();
  void initialise_gradients();

  StepResult train_step(const StepSchedule& schedule, const BatchSource& source);
  // Mean loss over the unmasked tokens of one forward-only global batch.
  StepResult evaluate(const BatchSource& source);

  // Runs every distinct pass of every program once, recording; for planning.
  struct Rehearsal {
    std::int64_t flops_per_step = 0;
    std::int64_t saved_per_microbatch = 0;
    int microbatches_in_flight = 0;
  };
  Rehearsal rehearse();

  const nn::ParamTable& table() const { return table_; }
  const ParameterStore& parameters() const { return *parameters_; }
  const GradientStore& gradients() const { return *gradients_; }
  const AdamOptimizer& optimizer() const { return *optimizer_; }
  // For benchmarks: every op of the next steps writes here; null ends it.
  void record_to(Recorder* recorder) { context_.recorder = recorder; }

 private:
  const nn::Batch& load(int microbatch) override;
  const nn::Batch& loaded(int microbatch) override;
  void reduce_gradients(int chunk) override;
  void optimizer_step() override;

  StepSettings settings(bool training) const;
  void begin(const BatchSource* source);
  nn::Batch& slot(int microbatch);
  StepResult read_loss();

  const TrainConfig config_;
  Context context_;
  RankArenas& arenas_;
  nn::ParamTable table_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<ParameterStore> parameters_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<AdamOptimizer> optimizer_;
  std::unique_ptr<Executor> training_, evaluation_;
  std::vector<nn::Batch> batches_;  // one for each microbatch in flight
  nn::LossSums sums_;
  Tensor loss_scale_;
  nn::UnitHooks hooks_;
  const BatchSource* source_ = nullptr;
  StepSchedule schedule_;
};

}  // namespace phalanx
