#pragma once
// One run of a rank's program. It exists as long as the program runs: it gives the executor what
// that asks for, and tells at the end what came of it.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/pipeline/executor.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rank/step_losses.h"
#include "phalanx/rank/stop_agreement.h"

namespace phalanx {

// What training and evaluation have in common: batches and losses.
class StepRun : public StepServices {
 public:
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  const nn::Batch& load(int microbatch) override;
  const nn::Batch& loaded(int microbatch) override;
  std::span<const nn::LossTerm> losses(int microbatch) override {
    return losses_.terms(microbatch);
  }

 protected:
  // `source` is null in rehearsals, which need no data.
  StepRun(Rank& rank, const RankProgram& program, const BatchSource* source);
  ~StepRun() override = default;

  StepSettings settings() const;
  Context& context() const { return rank_.context(); }
  const Program& program() const { return program_.executor->program(); }

  Rank& rank_;
  const RankProgram& program_;
  StepLosses losses_;

 private:
  const BatchSource* source_;
};

// Iterations of training until the pipeline is empty.
class TrainingRun final : public StepRun {
 public:
  // `observer`, where given, is told about the states' moves and updates.
  TrainingRun(Rank& rank, const RankProgram& program, std::span<const StepSchedule> iterations,
              const BatchSource* source, StateObserver* observer = nullptr);
  ~TrainingRun() override;

  // What each loss counts in this rank's part of the batch. Called before run() or rehearse() where
  // the rank wants_loss_counts().
  void count_losses(const std::vector<double>& own) { losses_.count(own); }
  // What the updates take is asked there; the source must outlive run().
  void ask_updates(const UpdateSource& updates) { updates_ = &updates; }
  // `last_hooks`, which may be null, are called after the rank's own.
  void run(PassObserver* observer, nn::UnitHooks* last_hooks);
  // `traces` as Executor::rehearse().
  Executor::Rehearsal rehearse(nn::UnitHooks* last_hooks, std::vector<Trace>* traces = nullptr);
  // By iteration, after run(). Once.
  StepsUnderWay results();

  const nn::Batch& load(int microbatch) override;
  std::span<const nn::AuxiliaryTerm> auxiliary_losses(int microbatch) override {
    return losses_.auxiliary_terms(microbatch);
  }
  nn::RouterCounts router_counts(int microbatch) override {
    return rank_.states().routers().counts(microbatch % program_.microbatches_per_update + 1);
  }
  nn::Weights stale_weights(int version) override;
  void reduce_gradients(int chunk) override;
  void optimizer_step(int version) override;
  void gather_parameters() override;
  StepTimers* timers() override { return rank_.timers(); }

 private:
  void begin_update(int update) const;
  std::int64_t updates_per_iteration() const {
    return program_.updates() / std::ssize(iterations_);
  }
  // Whether the updates are made.
  bool take_settings();
  void sum_parameter_squares() const;

  std::span<const StepSchedule> iterations_;
  StateObserver* const observer_;
  const UpdateSource* updates_ = nullptr;
  bool makes_updates_ = true;
  std::vector<LaterScalar> skips_;  // of the updates but the last: whether each was left out
};

// The forward passes of one global batch.
class EvaluationRun final : public StepRun {
 public:
  // `stop`, where given, is asked between microbatches whether to give the evaluation up.
  EvaluationRun(Rank& rank, const BatchSource* source, const std::function<bool()>* stop = nullptr);

  // Nothing, on all ranks, where it was given up.
  std::optional<StepResult> run();
  void rehearse();

  bool is_given_up(int microbatch) override;

 private:
  void sum_score_counts();

  std::vector<double> score_counts_;
  std::optional<StopAgreement> stop_;
};

}  // namespace phalanx
