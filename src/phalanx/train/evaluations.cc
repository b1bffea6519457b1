#include "phalanx/train/evaluations.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace phalanx {

Evaluations::Evaluations(const RunSetup& setup, const StopToken& stop, Rank& rank,
                         HighWaterCheck& high_water, RunState& state, RunLog& log)
    : setup_(setup), stop_(stop), rank_(rank), high_water_(high_water), state_(state), log_(log) {
  constexpr SplitKind kValid = SplitKind::kValid;
  if (goes_on(kValid) && setup.data->sets(kValid).size() == 1) {
    valid_stream_ = setup.stream(kValid, state.consumed_valid_samples, rank.ranks().coordinates);
  }
}

bool Evaluations::at_interval() {
  const bool is_done = evaluate(SplitKind::kValid, fmt::format("iteration {}", state_.iteration));
  state_.evaluation_is_due = !is_done;
  return is_done;
}

bool Evaluations::at_end() {
  const std::string place = fmt::format("iteration {} on ", state_.iteration);
  return evaluate(SplitKind::kValid, place + "validation set") &&
         evaluate(SplitKind::kTest, place + "test set");
}

bool Evaluations::evaluate(SplitKind kind, const std::string& place) {
  const RunConfig& run = setup_.config.run;
  if (run.eval_iters == 0 || !setup_.data->has(kind)) return true;
  const auto busy =
      rank_.ranks().control->busy(fmt::format("evaluating after iteration {}", state_.iteration));
  const auto& sets = setup_.data->sets(kind);
  std::vector<SetResult> results;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    auto result = evaluate_set(kind, set);
    if (!result) return false;
    results.push_back(std::move(*result));
  }
  high_water_.after_evaluation();
  // As many samples of every set were read.
  if (goes_on(kind)) {
    state_.consumed_valid_samples += run.eval_iters * setup_.length.evaluation_batch();
  }
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const std::string& name = sets[set].name;
    log_.evaluation(state_, kind, name, name.empty() ? place : fmt::format("{}, {}", place, name),
                    results[set].losses, results[set].counts);
  }
  return true;
}

// Nothing where the evaluation is given up.
std::optional<Evaluations::SetResult> Evaluations::evaluate_set(SplitKind kind, std::size_t set) {
  // Of several sets only one is open at a time: reading ahead takes no more memory than for one.
  std::unique_ptr<RunData::Stream> own;
  const bool is_open = goes_on(kind) && valid_stream_ != nullptr;
  if (!is_open) {
    own = setup_.stream(kind, goes_on(kind) ? state_.consumed_valid_samples : 0,
                        rank_.ranks().coordinates, set);
  }
  RunData::Stream& stream = is_open ? *valid_stream_ : *own;
  std::vector<LossResult> sums(setup_.model->losses().size());
  SetResult result;
  const std::int64_t iterations = setup_.data->evaluation_iterations(kind, set);
  for (std::int64_t i = 0; i < iterations; ++i) {
    const auto step = rank_.evaluate_unless([this] { return stop_() != 0; }, stream.source());
    if (!step) return std::nullopt;
    for (std::size_t loss = 0; loss < sums.size(); ++loss) {
      sums[loss].mean += step->losses[loss].mean * step->losses[loss].count;
      sums[loss].count += step->losses[loss].count;
    }
    result.counts.resize(step->counts.size());
    std::ranges::transform(result.counts, step->counts, result.counts.begin(), std::plus());
  }
  for (const auto& [sum, count] : sums) result.losses.push_back(count > 0.0 ? sum / count : 0.0);
  return result;
}

}  // namespace phalanx
