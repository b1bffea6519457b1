#pragma once
// One rank: its model part, parameters, gradients, optimizer and programs, on a backend, in arenas.
// The same object is built twice: on the planning backend, where a rehearsal leaves the arenas'
// high-water marks (the plan), and on the real one, in arenas of exactly that size.

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/data/host_batch.h"
#include "phalanx/families/evaluation_scores.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/rank/asynchronous_updates.h"
#include "phalanx/rank/batch_memory.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank_arenas.h"
#include "phalanx/rank/rank_states.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rank/stop_agreement.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// The most that a pass of one unit computes and moves.
struct LargestUnit {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const LargestUnit&, const LargestUnit&) = default;
};

// Over the global batch.
struct LossResult {
  double mean = 0.0;
  // What it is the mean of: what is unmasked, which is tokens, or samples of a loss that is a
  // sample's; with --loss-average microbatch the means of this many microbatches.
  double count = 0.0;
};

// What an iteration brought back to the host.
struct StepResult {
  std::vector<LossResult> losses;  // in the model's order
  double loss() const { return losses.front().mean; }
  double tokens() const { return losses.front().count; }  // with --loss-average token
  // Of the whole model; of an asynchronous schedule, where stages update at different times, NaN.
  double grad_norm = 0.0;
  double zeros_in_grad = 0.0;  // with --log-num-zeros-in-grad
  // Of the whole model after the update, with --log-params-norm; of several iterations that are run
  // together the last has it.
  std::optional<double> parameters_norm = std::nullopt;
  // Of an evaluation: what the family's EvaluationScores count; of all ranks.
  std::vector<double> counts = {};
  bool skipped = false;  // a gradient, or a loss that is checked, was not finite: no update
};

struct StepSchedule {
  double lr = 0.0;
  std::optional<double> decoupled_lr = {};  // of the word table and the output layer; absent: lr
  double weight_decay = 0.0;
  std::int64_t adam_step = 1;  // of the iteration's first update
  double loss_scale = 1.0;
  // Of each data-parallel rank; 0: of the last global batch.
  std::int64_t microbatches = 0;
  // Of a rank that wants_loss_counts(), and reads batches: what each loss counts in this rank's
  // part of the global batch.
  std::vector<double> loss_counts = {};
};

// The microbatches of the iterations of a program, in order; what it returns is read before it is
// asked again. Of a tensor-parallel group only the first rank asks.
using BatchSource = std::function<const HostBatch&(int microbatch)>;

class Rank final : private StepServices {
 public:
  // What ranks that are made one after another need not make each for itself.
  struct Shared {
    SavedPlans saved;
    WholeModels models;
  };
  // Programs, communicators and arenas must outlive the rank; `shared` likewise, where it is there.
  Rank(const TrainConfig& config, const Model& any_rank, const StepPrograms& programs,
       const RankCommunicators& ranks, Backend& backend, RankArenas& arenas,
       Shared* shared = nullptr);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  // Where it leaves with an exception the world ends: peers may not read its arenas any more.
  ~Rank() override;

  // Draws the weights, zeros the moments.
  void initialise();
  // After weights came from elsewhere (a checkpoint without main parameters): zero moments, no
  // gradient slots in use.
  void initialise_optimizer();
  void initialise_gradients();

  // Iterations until the pipeline is empty again: as many as there are schedules, all of one batch;
  // there must be a program of that size. `others` are told of every unit's passes too, behind this
  // rank's own hooks.
  std::vector<StepResult> train(std::span<const StepSchedule> iterations, const BatchSource& source,
                                PassObserver* observer = nullptr, nn::UnitHooks* others = nullptr);
  StepResult train_step(const StepSchedule& schedule, const BatchSource& source) {
    return train({&schedule, 1}, source).front();
  }
  // Parameters that other ranks updated may still be on their way after a step; after this they are
  // there.
  void finish_gather() { states_.data_parallel().finish_gather(); }
  // Whether a step must be told beforehand what each loss counts: with several losses the gradients
  // cannot be divided at the end, for they are one sum then.
  bool wants_loss_counts() const;
  // The losses of one forward-only global batch. Microbatches that are masked throughout take no
  // part in means of means: they fill up a set that is read whole.
  StepResult evaluate(const BatchSource& source);
  // Likewise, unless any rank's `stop` says between two microbatches to give it up: then nothing,
  // on all ranks.
  std::optional<StepResult> evaluate_unless(const std::function<bool()>& stop,
                                            const BatchSource& source);

  // Runs every distinct action of the programs, recording; for planning.
  struct Rehearsal {
    std::int64_t flops_per_step = 0;
    LargestUnit largest_unit;
    MessageTotals messages;    // of the usual program: an iteration, unless weights are stale
    TransferTotals transfers;  // likewise
    MemoryBytes made;          // what the arenas had come to before the first program
    std::vector<ProgramMemory> programs;  // those of training, and the evaluation's
    // Of the program that takes the most:
    std::size_t largest = 0;
    std::vector<std::int64_t> saved_per_microbatch;  // by chunk
    std::vector<int> microbatches_in_flight;         // likewise
    std::int64_t lent = 0;                           // at once, to passes
  };
  Rehearsal rehearse();
  // Plays the whole of the usual program on the planning backend, every action of it: `observer` is
  // told what becomes of its states, `passes` of its units' passes, and `recorder` what it does.
  void play(StateObserver& observer, nn::UnitHooks& passes, Recorder& recorder);

  const RankCommunicators& ranks() const { return ranks_; }
  Context& context() { return context_; }
  const RankStates& states() const { return states_; }
  // What its files take of the disk.
  std::int64_t file_bytes() const {
    return states_.file_bytes() + (saved_files_ ? saved_files_->file_bytes() : 0);
  }
  const nn::ParamTable& table() const { return states_.model().table; }
  const std::vector<Chunk>& chunks() const { return states_.model().chunks; }
  // All of the model, as one pipeline rank would have it.
  const nn::ParamTable& whole_table() const { return states_.model().whole->table; }
  const ParameterStore& parameters() const { return states_.parameters(); }
  const GradientStore& gradients() const { return states_.gradients(); }
  const Optimizer& optimizer() const { return states_.optimizer(); }
  // Between steps: what this rank updates, tile by tile (tile_file.h).
  void visit(std::span<const TileAccess> accesses,
             const std::function<void(const StateLayout::Tile&, std::span<const Tensor>)>& body) {
    visit_tiles(context_, parameters().states(), parameters().staging(), accesses, body);
  }
  // The largest of all ranks' values; every rank asks at the same time.
  int largest_of_all(int value);

  // For benchmarks: every op of the next steps writes here; null ends it.
  void record_to(Recorder* recorder) { context_.recorder = recorder; }
  // Training steps count their time there from now on; null: nowhere.
  void time_with(StepTimers* timers);

 private:
  const nn::Batch& load(int microbatch) override;
  void read_batch(int microbatch, int slot);
  void run_training(Executor& executor, PassObserver* observer, nn::UnitHooks* hooks_behind);
  const nn::Batch& loaded(int microbatch) override;
  std::span<const nn::LossTerm> losses(int microbatch) override;
  nn::Weights stale_weights(int version) override;
  void reduce_gradients(int chunk) override;
  void optimizer_step(int version) override;
  void gather_parameters() override;
  bool is_given_up(int microbatch) override;
  StepTimers* timers() override { return timers_; }

  // A program of training steps, ready to run.
  struct TrainingProgram {
    std::unique_ptr<Executor> executor;
    int microbatches_per_update = 1;
  };

  void make_programs(const StepPrograms& programs, SavedPlans* plans);
  int most_microbatches() const;  // of a program
  int batch_slots() const;
  void sum_over_data_and_stages(const Tensor& tensor);
  void sum_losses();
  void sum_evaluation_counts();
  // --loss-average microbatch: Megatron's mean of means.
  bool averages_microbatches() const { return config_.optimizer.loss_average == "microbatch"; }
  // Puts the means of this rank's microbatches into `losses_`.
  void average_microbatches();
  void sum_loss_counts(const std::vector<double>& own);
  void refuse_loss(std::int64_t update);
  double read_scalar(const Tensor& scalar);
  double parameters_norm();
  void forward_only(const BatchSource& source);
  // What an evaluation came to, on all ranks.
  StepResult evaluated();
  double microbatches_of_update() const;  // of all data-parallel ranks
  double tokens_per_update() const;
  double factor_of(std::size_t loss) const;
  std::int64_t updates_of_iteration() const;  // of the program that runs
  StepSettings settings(bool training) const;
  // `training`: of the program that runs, or null in an evaluation.
  void begin(const BatchSource* source, const TrainingProgram* training);
  void begin_update(int update);
  // The losses of updates, on every rank of the pipeline.
  StepResult read_losses(std::int64_t first_update, std::int64_t updates);
  // [1] f64 of a loss in an update, and those of all updates.
  enum class LossPart : std::uint8_t { kSum, kCount };
  Tensor loss_part(std::size_t loss, LossPart part, std::int64_t update) const;
  Tensor loss_parts(std::size_t loss, LossPart part) const;

  const TrainConfig config_;
  const int exceptions_at_birth_ = std::uncaught_exceptions();
  const RankCommunicators& ranks_;
  const ProgramSize usual_;
  TensorRegion region_;
  Context context_;
  RankArenas& arenas_;
  std::shared_ptr<const Model> family_model_;  // of this place
  nn::BatchShapes shapes_;
  RankStates states_;
  std::unique_ptr<SavedFiles> saved_files_;  // where activations lie in files
  std::map<ProgramSize, TrainingProgram> training_;
  std::unique_ptr<Executor> evaluation_;
  std::unique_ptr<AsynchronousUpdates> asynchronous_;  // of such a schedule
  BatchMemory batches_;                                // a slot for each microbatch in flight
  std::int64_t most_updates_ = 1;                      // that a program has
  Tensor losses_;                                      // f64, [losses, {sum, count}, most updates]
  // With --loss-average microbatch: f64, [losses, {sum, count}, most microbatches of a program].
  Tensor microbatch_losses_;
  std::vector<nn::LossTerm> terms_;  // of the microbatch that runs
  Tensor global_counts_;             // f64, by loss; of a rank that wants_loss_counts()
  std::vector<double> counts_;       // likewise: on the host
  // Of a model with one loss: the column that says what counts, and how many that are of a sample.
  std::size_t loss_mask_ = 0;
  std::int64_t counted_per_sample_ = 1;
  // What evaluations count beside the losses, where the family has scores: f64, and on the host.
  std::shared_ptr<const EvaluationScores> scores_;
  Tensor evaluation_counts_;
  std::vector<double> host_counts_;
  Tensor loss_scale_;
  Tensor agreement_;  // i32, where there are other ranks
  std::unique_ptr<StopAgreement> stop_;
  StepTimers* timers_ = nullptr;
  StateObserver* observer_ = nullptr;
  // Of the run in progress.
  const Executor* running_ = nullptr;
  int microbatches_per_update_ = 1;
  const BatchSource* source_ = nullptr;
  std::span<const StepSchedule> iterations_;
  bool overflowed_ = false;
};

}  // namespace phalanx
