#pragma once
// A picture of the memory of ranks: a bar for each plan, made of parts for the classes of memory,
// on one axis of bytes. Memory of libraries is not in it.

#include <span>
#include <string>
#include <vector>

#include "phalanx/planner/plan.h"

namespace phalanx {

struct MemoryBar {
  std::string name;   // the flags of the run; empty if there is only one
  std::string ranks;  // "rank 0", "ranks 2, 3"; "each of 8 ranks" where all are alike
  MemoryPlan memory;
};

// A bar for each different memory plan of the run's ranks.
std::vector<MemoryBar> memory_bars(const RunPlan& plan, const std::string& name);

// "GPT, 354,824,192 parameters, bf16".
std::string model_words(const RunPlan& plan);

// One SVG document. ConfigError where there are too many for a picture.
std::string to_svg(std::span<const MemoryBar> bars, const std::string& title);
// A line for each, for people.
std::string to_text(std::span<const MemoryBar> bars);

}  // namespace phalanx
