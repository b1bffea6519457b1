#pragma once
// Programs written as to_string prints them: "F0.0 B0.0 reduce.0 step".

#include <charconv>
#include <sstream>
#include <string>

#include "phalanx/pipeline/action.h"

namespace phalanx {

inline Action action_of(const std::string& text) {
  const auto number = [](const std::string& digits) {
    int value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  const auto dot = text.find('.');
  if (text == "step") return {ActionKind::kOptimizerStep, 0, 0};
  const int chunk = number(text.substr(dot + 1));
  if (text.starts_with("reduce")) return {ActionKind::kReduceGradients, chunk, 0};
  const int microbatch = number(text.substr(1, dot - 1));
  switch (text[0]) {
    case 'F':
      return {ActionKind::kForward, chunk, microbatch};
    case 'B':
      return {ActionKind::kBackward, chunk, microbatch};
    case 'b':
      return {ActionKind::kBackwardInput, chunk, microbatch};
    default:
      return {ActionKind::kBackwardWeight, chunk, microbatch};
  }
}

inline Program program_of(const std::string& text, int chunks, int microbatches) {
  Program program{.actions = {}, .chunks = chunks, .microbatches = microbatches};
  std::istringstream words(text);
  for (std::string word; words >> word;) program.actions.push_back(action_of(word));
  return program;
}

inline std::string text_of(const Program& program) {
  std::string text;
  for (const Action& action : program.actions) {
    if (!text.empty()) text += ' ';
    text += to_string(action);
  }
  return text;
}

}  // namespace phalanx
