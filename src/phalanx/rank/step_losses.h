#pragma once
// The losses of a rank's programs: the memory in which microbatches add them up, and what one run
// of a program makes of them.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/families/evaluation_scores.h"
#include "phalanx/model/model.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank_programs.h"
#include "phalanx/rank/step.h"
#include "phalanx/rank/step_numbers.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Allocated once: in the workspace, and what the host counts in its memory.
struct LossMemory {
  // The sums lie in `numbers`.
  LossMemory(const TrainConfig& config, const Model& model, const RankPrograms& programs,
             const StepNumbers& numbers, Arena& workspace, Arena& host);

  // The losses of several updates together, by what was read of `sums`. `count`, where given, is
  // what each is divided by.
  std::vector<LossResult> results(std::span<const double> sums, std::int64_t first_update,
                                  std::int64_t updates, std::optional<double> count) const;

  // The auxiliary losses of the same updates, by what was read of `auxiliary_sums`. `microbatches`:
  // of an update, on all data-parallel ranks.
  std::vector<double> auxiliary_results(std::span<const double> sums, std::int64_t first_update,
                                        std::int64_t updates, double microbatches) const;

  // Whether a step must be told beforehand what each loss counts. With several losses the gradients
  // cannot be divided at the end: by then they are one sum.
  bool wants_counts() const {
    return (num_losses > 1 || !auxiliary_layers.empty()) && !averages_microbatches;
  }

  const bool averages_microbatches;  // --loss-average microbatch: Megatron's mean of means
  std::size_t num_losses;            // of the model
  // By auxiliary loss: the layers that add to it.
  std::vector<std::int64_t> auxiliary_layers;
  // Of a model with one loss: the batch column that says what counts, and its entries per sample.
  std::size_t mask_column = 0;
  std::int64_t counted_per_sample = 1;
  // What evaluations count beside the losses; null where the family has no scores.
  std::shared_ptr<const EvaluationScores> scores;

  Tensor sums;                // f64, [losses, {sum, count}, most updates]
  std::int64_t most_updates;  // of a program
  Tensor auxiliary_sums;      // f64, [auxiliary losses, most updates]
  // With --loss-average microbatch: f64, [losses, {sum, count}, most microbatches of a program].
  Tensor of_microbatches;
  Tensor global_counts;  // f64, [losses], where wants_counts(); on the host
  Tensor score_counts;   // f64, where there are scores; on the host
  Tensor scale;          // [1]: what losses are multiplied by before the backward pass
};

// The losses of one run of a program. It begins with sums of zero; everything must outlive it.
class StepLosses {
 public:
  StepLosses(const TrainConfig& config, const LossMemory& memory, const RankCommunicators& ranks,
             const RankProgram& program, Context& context, Context& host_context);

  // What each loss counts in the whole batch, from what it counts in this rank's part; `own` is
  // empty on ranks that do not read batches. By all ranks at the same time.
  void count(const std::vector<double>& own);
  // Where the microbatch's losses are added, until the next are asked for.
  std::span<const nn::LossTerm> terms(int microbatch);
  std::span<const nn::AuxiliaryTerm> auxiliary_terms(int microbatch);

  // [1] f64 of an update; what an update divides by, or an empty tensor where it divides by
  // nothing.
  Tensor divisor(std::int64_t update) const;
  double tokens_per_update() const;
  double microbatches_per_update() const;  // of all data-parallel ranks
  // Of all microbatches of several updates, where training divides by their number.
  std::optional<double> fixed_count(std::int64_t updates) const;

  // Sums over the ranks. Only the stage with the head has losses and counts, the others add zeros.
  void sum_over_ranks() const;
  // The same of the losses alone, where every stage has summed the counts itself.
  void sum_losses_over_ranks() const;
  // Of an evaluation, once summed over the ranks. Waits for the device.
  std::vector<LossResult> read() const;

 private:
  // --loss-average microbatch: puts the means of this rank's microbatches into the sums.
  void average_microbatches() const;
  double factor(std::size_t loss) const;
  enum class Part : std::uint8_t { kSum, kCount };
  // [1] f64 of one update, and those of all updates.
  Tensor part(std::size_t loss, Part part, std::int64_t update) const;
  Tensor parts(std::size_t loss, Part part) const;

  const LayoutConfig& layout_;
  const LossMemory& memory_;
  const RankCommunicators& ranks_;
  const RankProgram& program_;
  Context& context_;
  Context& host_context_;
  std::vector<nn::LossTerm> terms_;
  std::vector<nn::AuxiliaryTerm> auxiliary_terms_;
  std::vector<double> counts_;  // by loss, once counted
};

// Uploads one element, rounded to the tensor's type: f32 or f64.
void write_scalar(Context& context, const Tensor& scalar, double value);

}  // namespace phalanx
