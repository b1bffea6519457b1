#include "phalanx/train/step_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "phalanx/train/step_parts.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

bool StepComparison::add(IterationReport& report) {
  const bool is_usual = !report.skipped && report.global_batch_size == forecast_.global_batch;
  if (is_usual) report.predicted_seconds = forecast_.seconds;
  // What is slow once is not compared.
  if (std::exchange(is_first_, false)) return is_usual;
  interval_.is_usual = interval_.is_usual && is_usual;
  interval_.steps += 1;
  interval_.seconds += report.seconds;
  if (!is_usual) return false;
  steps_ += 1;
  seconds_.add(static_cast<double>(report.iteration), report.seconds);
  return true;
}

std::vector<StepPart> StepComparison::take_parts(const std::vector<std::vector<double>>& of_ranks) {
  const Interval interval = std::exchange(interval_, {});
  const auto rank = static_cast<std::size_t>(forecast_.rank);
  if (interval.steps == 0 || !interval.is_usual || rank >= of_ranks.size()) return {};
  const std::vector<double>& measured = of_ranks[rank];
  const auto predicted = parts_of(forecast_);
  const auto steps = static_cast<double>(interval.steps);
  const double known = std::accumulate(measured.begin(), measured.end(), 0.0);
  std::vector<StepPart> parts;
  for (std::size_t i = 0; i < kMeasuredParts.size(); ++i) {
    parts.push_back({.name = std::string(kMeasuredParts.at(i)),
                     .predicted = predicted.at(i),
                     .measured = measured.at(i)});
  }
  parts.push_back({.name = "other",
                   .predicted = predicted.back(),
                   .measured = std::max(0.0, interval.seconds / steps - known)});
  std::erase_if(parts,
                [](const StepPart& part) { return part.predicted == 0.0 && part.measured == 0.0; });
  for (const StepPart& part : parts) {
    auto sum = std::ranges::find(sums_, part.name, &StepPart::name);
    if (sum == sums_.end()) {
      sum = sums_.insert(sums_.end(), {.name = part.name, .predicted = part.predicted});
    }
    sum->measured += steps * part.measured;
  }
  steps_with_parts_ += interval.steps;
  return parts;
}

std::vector<StepPart> StepComparison::mean_parts() const {
  std::vector<StepPart> parts = sums_;
  for (StepPart& part : parts) part.measured /= static_cast<double>(steps_with_parts_);
  return parts;
}

std::string StepComparison::to_text() const {
  const double measured = seconds_.median();
  std::string text = fmt::format(
      "a step was predicted to take {:.4g} s and took {:.4g} s (median of {}, {:+.1f} %)",
      forecast_.seconds, measured, steps_, 100.0 * (measured / forecast_.seconds - 1));
  const std::vector<StepPart> parts = mean_parts();
  if (const StepPart* const part = farthest_off(parts)) {
    text += fmt::format("; farthest off: {} {:.4g} s, predicted {:.4g} s", part->name,
                        part->measured, part->predicted);
  }
  return text;
}

std::string StepComparison::to_json() const {
  Json parts = Json::object();
  for (const StepPart& part : mean_parts()) {
    parts[part.name] = {{"predicted", part.predicted}, {"measured", part.measured}};
  }
  const Json json = {
      {"seconds", forecast_.seconds},  {"low", forecast_.low}, {"high", forecast_.high},
      {"measured", seconds_.median()}, {"steps", steps_},      {"rank", forecast_.rank},
      {"parts", std::move(parts)}};
  return json.dump();
}

std::string with_member(const std::string& object, const std::string& name,
                        const std::string& value) {
  Json json = object.empty() ? Json::object() : Json::parse(object);
  json[name] = Json::parse(value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace phalanx
