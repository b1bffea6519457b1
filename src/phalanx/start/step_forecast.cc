#include "phalanx/start/step_forecast.h"

#include <fmt/core.h>

#include <algorithm>

namespace phalanx {

std::string to_text(const StepForecast& forecast) {
  constexpr double kShownShare = 0.02;
  std::string text = fmt::format("a step is predicted to take {:.4g} s", forecast.seconds);
  if (forecast.low < forecast.high) {
    text += fmt::format(" ({:.4g} to {:.4g})", forecast.low, forecast.high);
  }
  text += fmt::format(" on {}", forecast.machine);
  std::vector<StepForecast::Part> parts = forecast.parts;
  std::ranges::stable_sort(parts, std::ranges::greater(), &StepForecast::Part::seconds);
  const char* comma = ": ";
  for (const StepForecast::Part& part : parts) {
    if (part.seconds < kShownShare * forecast.seconds) break;
    text += fmt::format("{}{} {:.4g} s", comma, part.name, part.seconds);
    comma = ", ";
  }
  return text;
}

}  // namespace phalanx
