#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rank/step_run.h"

namespace phalanx {
namespace {

// Counts the family's scores after every forward pass of a unit.
class ScoreCounting final : public nn::UnitHooks {
 public:
  ScoreCounting(const EvaluationScores& scores, Context& context, std::span<double> counts)
      : scores_(scores), counts_(counts), read_([&context](const Tensor& tensor, auto bytes) {
          context.backend.read_back(context.queue, tensor, bytes);
        }) {}

  void after(const nn::Unit& unit, nn::PassKind pass, int /*microbatch*/,
             const nn::UnitTensors& tensors) override {
    if (pass == nn::PassKind::kForward) scores_.count(unit, tensors, read_, counts_);
  }

 private:
  const EvaluationScores& scores_;
  std::span<double> counts_;
  EvaluationScores::ReadBack read_;
};

}  // namespace

EvaluationRun::EvaluationRun(Rank& rank, const BatchSource* source,
                             const std::function<bool()>* stop)
    : StepRun(rank, rank.programs().evaluation(), source) {
  if (const EvaluationScores* scores = rank.losses().scores.get()) {
    score_counts_.resize(static_cast<std::size_t>(scores->counts()));
  }
  if (stop != nullptr) stop_.emplace(*rank.ranks().control, rank.stop_slots(), *stop);
  rank.states().begin_passes(context(), -1);
}

std::optional<StepResult> EvaluationRun::run() {
  const EvaluationScores* scores = rank_.losses().scores.get();
  std::optional<ScoreCounting> counting;
  if (scores != nullptr) counting.emplace(*scores, context(), score_counts_);
  nn::HooksInTurn hooks =
      rank_.states().hooks({rank_.programs().saved_files(), counting ? &*counting : nullptr});
  {
    // As in Megatron, evaluations are no part of a step's times.
    const TimerScope time(rank_.timers(), StepTimer::kEvaluation);
    program_.executor->run(context(), rank_.arenas()["saved"], settings(), *this, hooks);
  }
  if (stop_ && stop_->end(rank_.host_context())) return std::nullopt;
  context().backend.throw_faults(context().queue);
  losses_.sum_over_ranks();
  StepResult result;
  result.losses = losses_.read();
  if (scores != nullptr) {
    sum_score_counts();
    result.counts = std::move(score_counts_);
  }
  return result;
}

void EvaluationRun::rehearse() {
  nn::HooksInTurn hooks = rank_.states().hooks({rank_.programs().saved_files()});
  program_.executor->rehearse(context(), rank_.arenas()["saved"], settings(), *this, hooks);
  if (rank_.losses().scores != nullptr) sum_score_counts();
}

// Only the stage with the head counts, the others add zeros.
void EvaluationRun::sum_score_counts() {
  const Tensor& counts = rank_.losses().score_counts;
  Context& host = rank_.host_context();
  const RankCommunicators& ranks = rank_.ranks();
  host.backend.upload(host.queue, counts, std::as_bytes(std::span(std::as_const(score_counts_))));
  sum_over(host, ranks.on_host(ranks.data.get()), counts);
  sum_over(host, ranks.on_host(ranks.pipeline.get()), counts);
  host.backend.read_back(host.queue, counts, std::as_writable_bytes(std::span(score_counts_)));
}

bool EvaluationRun::is_given_up(int microbatch) {
  return stop_ && stop_->is_given_up(rank_.host_context(), microbatch);
}

}  // namespace phalanx
