#pragma once
// Which layers of a model see only the last keys: --window-size and --window-attn-skip-freq.

#include <cstdint>
#include <vector>

#include "phalanx/flags/model_arguments.h"

namespace phalanx::hugging_face {

struct Window {
  std::int64_t keys = 0;     // keys that a query sees, itself included; 0: all before it
  std::vector<bool> layers;  // which layers have the window
};

// DataError if the flags are not spelt as import and resolved configurations spell them: "L,R", and
// a list of 0 and 1 in brackets, a number or nothing.
Window window_of(const ModelArguments& settings);
void set_window(const Window& window, ModelArguments& settings);

}  // namespace phalanx::hugging_face
