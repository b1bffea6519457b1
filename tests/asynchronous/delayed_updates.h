#pragma once
// Training with stale weights as papers write it down, without a pipeline: one copy of the model,
// the history of all its weights, and for every microbatch the weights that it is said to read put
// together from it, stage by stage.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/model/gpt.h"
#include "phalanx/optim/optimizer.h"
#include "phalanx/rank/batch_memory.h"
#include "phalanx/start/run_setup.h"

namespace phalanx {

// What an asynchronous schedule is known for. Microbatches and versions are counted from when the
// pipeline was last empty.
struct DelayRule {
  int stages = 1;
  int microbatches_per_update = 1;
  int drain_interval = 1;  // iterations
  // The weights of the stage that the microbatch reads, forward and backward: those after so many
  // updates.
  std::function<int(int microbatch, int stage)> version;
};

class DelayedUpdates {
 public:
  // Layers of the model on equal stages. A rank of the setup is a data-parallel one.
  DelayedUpdates(const RunSetup& setup, DelayRule rule);

  // All iterations of the run.
  void train();

  // By iteration, as precise as a run reports them.
  const std::vector<float>& losses() const { return losses_; }
  // Weights and moments that have not the same bits in the checkpoint.
  std::vector<std::string> differences(const CheckpointReader& checkpoint) const;

 private:
  // What a data-parallel rank has for itself.
  struct Replica {
    RunData::Stream stream;
    GradientStore gradients;
    nn::LossTerm losses;
  };

  int stage_of(const std::string& parameter) const;
  void iteration(std::int64_t iteration);
  void microbatch(int number, Replica& replica);
  void assemble_weights(int microbatch);
  void remember_weights();
  void begin_update();
  void add_replicas();

  const RunSetup& setup_;
  DelayRule rule_;
  nn::BatchShape shape_;
  Arena memory_, workspace_;
  std::unique_ptr<Backend> backend_;
  Context context_;
  nn::ParamTable table_;
  Chunk chunk_;
  ParameterStore parameters_;
  std::vector<Replica> replicas_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Tensor> saved_;
  BatchMemory batch_;
  Tensor loss_scale_;
  Tensor stale_flat_;
  std::vector<Tensor> stale_;                    // by ParamId
  std::vector<std::vector<std::byte>> history_;  // of the weights in storage type, by version
  int microbatches_ = 0;                         // since the pipeline was empty, of a replica
  std::vector<float> losses_;
};

}  // namespace phalanx
