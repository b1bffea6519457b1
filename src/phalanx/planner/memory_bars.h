#pragma once
// A picture of what ranks take of memory: a bar for each plan, of the classes that it is the sum
// of, all on one axis of bytes. What libraries take is no part of it.

#include <span>
#include <string>
#include <vector>

#include "phalanx/planner/plan.h"

namespace phalanx {

struct MemoryBar {
  std::string name;   // of the run: its flags; empty of an only one
  std::string ranks;  // "rank 0", "ranks 2 and 3"; of the ranks of a run that are all alike: "each"
  MemoryPlan memory;
};

// A bar for each of the run's ranks that differ in what they take.
std::vector<MemoryBar> memory_bars(const RunPlan& plan, const std::string& name);

// "GPT, 354,824,192 parameters, bf16".
std::string model_words(const RunPlan& plan);

// One SVG document. ConfigError where there are too many for a picture.
std::string to_svg(std::span<const MemoryBar> bars, const std::string& title);
// A line for each, for people.
std::string to_text(std::span<const MemoryBar> bars);

}  // namespace phalanx
