#pragma once
// Programs and schedules written as to_string prints actions: "F0.0 B0.0 reduce.0 step".

#include <charconv>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/pipeline/schedule.h"

namespace phalanx {

inline Action action_of(const std::string& text) {
  const auto number = [](const std::string& digits) {
    int value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  if (text == "step") return {.kind = ActionKind::kOptimizerStep};
  if (text == "gather") return {.kind = ActionKind::kGatherParameters};
  const auto dot = text.find('.');
  const int chunk = number(text.substr(dot + 1));
  if (text.starts_with("reduce")) return {.kind = ActionKind::kReduceGradients, .chunk = chunk};
  const int microbatch = number(text.substr(1, dot - 1));
  switch (text[0]) {
    case 'F':
      return pass(ActionKind::kForward, chunk, microbatch);
    case 'B':
      return pass(ActionKind::kBackward, chunk, microbatch);
    case 'b':
      return pass(ActionKind::kBackwardInput, chunk, microbatch);
    default:
      return pass(ActionKind::kBackwardWeight, chunk, microbatch);
  }
}

// Every step makes the next weight version.
inline std::vector<Action> actions_of(const std::string& text) {
  std::vector<Action> actions;
  int version = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    actions.push_back(action_of(word));
    if (word == "step") actions.back().version = ++version;
  }
  return actions;
}

inline Program program_of(const std::string& text, int chunks, int microbatches) {
  return {.actions = actions_of(text), .chunks = chunks, .microbatches = microbatches};
}

// A list for each rank.
inline Schedule listed_schedule(const Placement& placement, int microbatches,
                                const std::vector<std::string>& lists) {
  Schedule schedule{.kind = "listed",
                    .placement = placement,
                    .microbatches = microbatches,
                    .microbatches_per_update = microbatches,
                    .ranks = {}};
  for (const std::string& list : lists) schedule.ranks.push_back(actions_of(list));
  return schedule;
}

inline std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += to_string(action);
  }
  return text;
}

inline std::string text_of(const Program& program) { return text_of(program.actions); }

}  // namespace phalanx
