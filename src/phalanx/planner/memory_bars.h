#pragma once
// A picture of the memory of ranks: a bar for each plan, made of its rows, on one axis of bytes.
// The memory of libraries is not drawn.

#include <span>
#include <string>
#include <vector>

#include "phalanx/planner/plan.h"

namespace phalanx {

struct MemoryBar {
  std::string name;   // the flags of the run; empty if there is one run
  std::string ranks;  // "rank 0", "ranks 2 and 3"; "each of 4 ranks" if all are alike
  MemoryPlan memory;
};

// A bar for each group of ranks that take the same memory.
std::vector<MemoryBar> memory_bars(const RunPlan& plan, const std::string& name);

// "GPT, 354,824,192 parameters, bf16".
std::string model_words(const RunPlan& plan);

// One SVG document. ConfigError if there are too many bars for a picture.
std::string to_svg(std::span<const MemoryBar> bars, const std::string& title);
// A line for each bar, for people.
std::string to_text(std::span<const MemoryBar> bars);

}  // namespace phalanx
