#include "phalanx/launch/stream_plan.h"

namespace phalanx::launch {
namespace {

struct Stream {
  bool is_error;
  bool is_teed;
  bool is_redirected;
};

ConsoleMode console_mode(const LaunchOptions& options, int local_rank, int rank, Stream stream) {
  const auto& shown = options.console_ranks;
  if (shown && !shown->contains(local_rank)) return ConsoleMode::kNothing;
  if (stream.is_teed) return ConsoleMode::kLines;
  if (stream.is_redirected) return ConsoleMode::kNothing;
  if (shown) return shown->size() == 1 ? ConsoleMode::kRaw : ConsoleMode::kLines;
  if (rank == 0) return ConsoleMode::kRaw;
  return stream.is_error ? ConsoleMode::kErrors : ConsoleMode::kNothing;
}

}  // namespace

RankStreams plan_streams(const LaunchOptions& options, int local_rank, int rank, bool is_terminal) {
  const bool has_file = !options.log_directory.empty();
  RankStreams plan;
  plan.output = {
      .is_inherited = false,
      .has_file = has_file,
      .console = console_mode(options, local_rank, rank,
                              {.is_error = false,
                               .is_teed = options.tee.takes_output(local_rank),
                               .is_redirected = options.redirects.takes_output(local_rank)})};
  plan.error = {
      .is_inherited = false,
      .has_file = has_file,
      .console = console_mode(options, local_rank, rank,
                              {.is_error = true,
                               .is_teed = options.tee.takes_error(local_rank),
                               .is_redirected = options.redirects.takes_error(local_rank)})};
  plan.error.is_inherited = is_terminal && !has_file && plan.error.console == ConsoleMode::kRaw;
  return plan;
}

}  // namespace phalanx::launch
