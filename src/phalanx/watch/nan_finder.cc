#include "phalanx/watch/nan_finder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "phalanx/rank/gather.h"
#include "phalanx/rank/rank_texts.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/watch/finite.h"

namespace phalanx {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NonFinite, pass, microbatch, stage, unit, unit_name, step,
                                   tensor, input, weight)
// Without `first`, which is optional.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NanEvidence, rank, failed, failed_again, loss, loss_again,
                                   gradient, weight, gradient_again, gradient_is_lost)

namespace {

using Json = nlohmann::json;
using nn::PassKind;

// The first parameter with a part on this rank, of gradients or weights, that is not finite; "" if
// none.
template <typename TensorOf>
std::string non_finite_parameter(Rank& rank, std::span<const TileAccess> accesses,
                                 const TensorOf& tensor_of) {
  ParamId first = rank.table().size();
  rank.visit(accesses, [&](const auto& tile, auto tensors) {
    for (const Segment& segment : tile.segments) {
      if (segment.id < first && !is_finite(rank.context(), tensor_of(segment, tensors))) {
        first = segment.id;
      }
    }
  });
  return first < rank.table().size() ? rank.table()[first].name : std::string();
}
std::string non_finite_gradient(Rank& rank) {
  const TileAccess access = rank.gradients().access(true, false);
  return non_finite_parameter(rank, {&access, 1}, [&](const Segment& segment, auto tensors) {
    return rank.gradients().gradient(segment, tensors[0]);
  });
}
std::string non_finite_weight(Rank& rank) {
  for (const Segment& segment : rank.parameters().states().frozen()) {
    if (!is_finite(rank.context(), rank.parameters().weight(segment))) {
      return rank.table()[segment.id].name;
    }
  }
  return non_finite_parameter(rank, rank.parameters().accesses(true, false),
                              [&](const Segment& segment, auto tensors) {
                                return rank.parameters().main(segment, tensors);
                              });
}

bool failed(const StepResult& result) { return result.skipped || !std::isfinite(result.loss()); }
bool any_failed(std::span<const StepResult> results) {
  return std::ranges::any_of(results, failed);
}

// The first iteration whose loss is not finite, else the last. All ranks know the losses.
std::size_t failed_iteration(std::span<const StepResult> results) {
  const auto found = std::ranges::find_if(
      results, [](const StepResult& result) { return !std::isfinite(result.loss()); });
  return found == results.end() ? results.size() - 1
                                : static_cast<std::size_t>(found - results.begin());
}

// As text, for comparison. The sign of NaN has no meaning.
std::string loss_of(std::span<const StepResult> results) {
  const double loss = results[failed_iteration(results)].loss();
  return std::isnan(loss) ? "nan" : fmt::format("{}", loss);
}

std::string to_text(const NanEvidence& e) {
  Json json = e;
  if (e.first) json["first"] = *e.first;
  return json.dump();
}

NanEvidence evidence_of(const std::string& text) {
  const Json json = Json::parse(text);
  auto e = json.get<NanEvidence>();
  if (json.contains("first")) e.first = json["first"].get<NonFinite>();
  return e;
}

// The order that the header describes.
auto order_of(const NonFinite& found) {
  const bool is_forward = found.pass == PassKind::kForward;
  const int sign = is_forward ? 1 : -1;
  return std::tuple(!found.input.empty(), !is_forward, found.microbatch, sign * found.stage,
                    sign * found.unit, found.pass, found.step, found.weight.empty());
}

const NanEvidence* first_of_all(const std::vector<NanEvidence>& evidence) {
  const NanEvidence* first = nullptr;
  for (const NanEvidence& e : evidence) {
    if (e.first && (first == nullptr || order_of(*e.first) < order_of(*first->first))) first = &e;
  }
  return first;
}

// "rank 1 on host a, rank 3 on host b and 5 more".
template <typename Predicate>
std::string ranks_that(const std::vector<NanEvidence>& evidence, const Predicate& predicate) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> ranks;
  for (const NanEvidence& e : evidence) {
    if (predicate(e)) ranks.push_back(e.rank);
  }
  const std::size_t shown = std::min(ranks.size(), kShown);
  std::string text = fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + shown, ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

std::string name_of(PassKind pass) {
  constexpr std::array kNames = {"forward pass", "backward pass (input gradients)",
                                 "backward pass (weight gradients)"};
  return kNames.at(static_cast<std::size_t>(pass));
}

// "in layer 3, forward pass of microbatch 0, on rank 2: fc1 output; its inputs ... were finite".
std::string describe(const NonFinite& found, const std::string& rank) {
  std::string text = fmt::format("in {}, {} of microbatch {}, on {}: {}; ", found.unit_name,
                                 name_of(found.pass), found.microbatch, rank, found.tensor);
  if (!found.weight.empty()) {
    text += fmt::format("the parameter {} was already not finite before the step", found.weight);
    if (!found.input.empty()) text += fmt::format(", nor was its {}", found.input);
  } else if (!found.input.empty()) {
    text += fmt::format(
        "its {} was not finite when it was read, though every pass that was looked at wrote finite "
        "numbers before",
        found.input);
  } else {
    text += "its inputs and parameters were finite";
  }
  return text;
}

constexpr std::string_view kAdvice =
    "Nothing was saved of this step. Lower --lr, raise the warm-up (--lr-warmup-iters) or lower "
    "--clip-grad, and resume from the last checkpoint";
constexpr std::string_view kSkipAdvice =
    "; --iterations-to-skip leaves out the samples of an iteration";
constexpr std::string_view kSuspicion =
    "Memory or a processor is suspicious. Nothing was saved of this step: start again from the "
    "last "
    "checkpoint, without that machine if it happens again";

// Findings of the first run that help the user.
std::string first_run_findings(const std::vector<NanEvidence>& evidence) {
  if (evidence.front().gradient_is_lost) {
    return "the gradients of the first run are not known any more, as the next step had begun";
  }
  const auto has_trace = [](const NanEvidence& e) { return !e.gradient.empty(); };
  const auto count = std::ranges::count_if(evidence, has_trace);
  if (count == 0)
    return "in the first run every gradient was finite, and the loss or the norm was not";
  if (count == std::ssize(evidence) && count > 1) {
    return "the first run left gradients that are not finite on all ranks, so it cannot be told "
           "where it began";
  }
  const auto first = std::ranges::find_if(evidence, has_trace);
  return fmt::format("in the first run gradients were not finite on {} alone, the first that of {}",
                     ranks_that(evidence, has_trace), first->gradient);
}

NanVerdict of_machine(std::int64_t iteration, const std::string& what) {
  return {ErrorCode::kTemporary, fmt::format("iteration {}: {}. {}", iteration, what, kSuspicion)};
}

NanVerdict of_run(std::int64_t iteration, const std::string& what,
                  std::string_view more_advice = {}) {
  return {ErrorCode::kDoNotRestart,
          fmt::format("iteration {}: {}. {}{}", iteration, what, kAdvice, more_advice)};
}

NanVerdict judge_without_run(std::int64_t iteration, const std::vector<NanEvidence>& evidence,
                             const std::string& schedule) {
  std::string what = fmt::format(
      "the loss or gradient is not finite (loss {}). With --pipeline-schedule {} weights change "
      "during a step, so it cannot be run again to see where that began; what is left of it: ",
      evidence.front().loss, schedule);
  const auto has_weight = [](const NanEvidence& e) { return !e.weight.empty(); };
  const auto has_gradient = [](const NanEvidence& e) { return !e.gradient.empty(); };
  if (const auto e = std::ranges::find_if(evidence, has_weight); e != evidence.end()) {
    what += fmt::format("the parameter {} is not finite on {}", e->weight, e->rank);
  } else if (const auto g = std::ranges::find_if(evidence, has_gradient); g != evidence.end()) {
    what += fmt::format("the gradient of {} is not finite on {}; all parameters are finite",
                        g->gradient, g->rank);
  } else {
    what += fmt::format("an earlier update failed on {}; parameters and last gradients are finite",
                        ranks_that(evidence, [](const NanEvidence& one) { return one.failed; }));
  }
  return of_run(iteration, what);
}

// The message if every unit wrote finite numbers.
std::string text_of_finite_units(const std::vector<NanEvidence>& evidence) {
  const auto has_sum = [](const NanEvidence& e) { return !e.gradient_again.empty(); };
  const auto found = std::ranges::find_if(evidence, has_sum);
  if (found == evidence.end()) {
    return "all passes of all units wrote finite numbers, and all gradients are finite: the norm "
           "of "
           "the gradient is too large for fp32";
  }
  return fmt::format(
      "all passes of all units wrote finite numbers: it is the sum over ranks that is not finite, "
      "of the gradient of {} on {}",
      found->gradient_again, found->rank);
}

}  // namespace

NanVerdict judge(std::int64_t iteration, const std::vector<NanEvidence>& evidence,
                 const std::string& schedule, bool ran_again) {
  if (!schedule.empty()) return judge_without_run(iteration, evidence, schedule);
  const auto failed_once = [](const NanEvidence& e) { return e.failed; };
  if (!ran_again) {
    return of_machine(
        iteration,
        fmt::format(
            "the loss or gradient is not finite on {} alone (loss {}), and all ranks had the "
            "same sums",
            ranks_that(evidence, failed_once), evidence.front().loss));
  }
  const auto failed_twice = [](const NanEvidence& e) { return e.failed_again; };
  const std::string& loss = evidence.front().loss;
  if (std::ranges::none_of(evidence, failed_twice)) {
    return of_machine(
        iteration,
        fmt::format("the loss or gradient was not finite (loss {}), but the same step, run again "
                    "from the same weights and samples, was (loss {}): {}",
                    loss, evidence.front().loss_again, first_run_findings(evidence)));
  }
  const NanEvidence* first = first_of_all(evidence);
  const std::string where = first != nullptr ? "first " + describe(*first->first, first->rank)
                                             : text_of_finite_units(evidence);
  const auto differs = [](const NanEvidence& e) { return e.loss != e.loss_again; };
  if (const auto e = std::ranges::find_if(evidence, differs); e != evidence.end()) {
    return of_machine(iteration,
                      fmt::format("the loss or gradient is not finite, but the same step, "
                                  "run again from the same weights and samples, had "
                                  "another loss: {} and then {}; in the second run {}",
                                  e->loss, e->loss_again, where));
  }
  return of_run(
      iteration,
      fmt::format("the loss or gradient is not finite (loss {}), nor is it when the step is "
                  "run again on the same samples: {}",
                  loss, where),
      kSkipAdvice);
}

void explain_failed_step(Rank& rank, const TrainConfig& config, const Placement& placement,
                         const std::vector<RankPlace>& places, const FailedStep& step) {
  Communicator& world = *rank.ranks().control;
  NanEvidence mine{.rank = rank_text(rank.ranks(), places),
                   .failed = any_failed(step.results),
                   .loss = loss_of(step.results),
                   .loss_again = {},
                   .gradient = step.next_has_run ? std::string() : non_finite_gradient(rank),
                   .weight = non_finite_weight(rank),
                   .gradient_again = {},
                   .first = {},
                   .gradient_is_lost = step.next_has_run};
  const bool is_stale = is_asynchronous(config.layout);
  // Ranks that completed the step have changed their weights.
  const bool all_failed = rank.largest_of_all(mine.failed ? 0 : 1) == 0;
  const bool runs_again = !is_stale && all_failed;
  if (runs_again) {
    NanWatch watch(rank, placement, step.first_hooks);
    rank.states().routers().restore_biases(rank.context());
    const auto again = rank.train(step.schedules, step.source, step.observer, &watch);
    rank.finish_gather();
    mine.failed_again = any_failed(again);
    mine.loss_again = loss_of(again);
    mine.gradient_again = non_finite_gradient(rank);
    mine.first = watch.first();
  }
  std::vector<NanEvidence> evidence;
  for (const std::string& text : gather_texts(world, rank.host_context(), to_text(mine))) {
    evidence.push_back(evidence_of(text));
  }
  const NanVerdict verdict =
      judge(step.iteration + static_cast<std::int64_t>(failed_iteration(step.results)), evidence,
            is_stale ? config.layout.pipeline_schedule : std::string(), runs_again);
  throw Error(verdict.code, verdict.text);
}

}  // namespace phalanx
