#pragma once
// Where the output of a rank goes: which files, and what of it the console shows.

#include <cstdint>

#include "phalanx/launch/options.h"

namespace phalanx::launch {

enum class ConsoleMode : std::uint8_t {
  kNothing,
  kRaw,     // bytes as they come: the rank that logs
  kLines,   // every line, after the rank
  kErrors,  // lines of standard error; equal ones of many ranks once
};

struct StreamPlan {
  bool is_inherited = false;  // the launcher's own descriptor: a terminal with its progress bar
  bool has_file = false;
  ConsoleMode console = ConsoleMode::kNothing;
};
struct RankStreams {
  StreamPlan output;
  StreamPlan error;
};

// `is_terminal`: whether the launcher's standard error is one.
RankStreams plan_streams(const LaunchOptions& options, int local_rank, int rank, bool is_terminal);

}  // namespace phalanx::launch
