#include "phalanx/launch/restart_policy.h"

#include <fmt/core.h>

#include <cstdint>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

constexpr int kMostWithoutProgress = 3;
constexpr int kEndedAtOnce = 130;

enum class Repeat : std::uint8_t { kNever, kOnce, kAlways };

Repeat repeat_after(int status) {
  switch (status) {
    case 69:
    case 74:
    case 75:
    case 124:
      return Repeat::kAlways;
    case 64:
    case 65:
    case 66:
    case 71:
    case 73:
    case 77:
    case 78:
    case 85:
    case 93:
    case kEndedAtOnce:
      return Repeat::kNever;
    default:
      return Repeat::kOnce;
  }
}

}  // namespace

NextStep RestartPolicy::after(const Outcome& outcome, const std::optional<SavedProgress>& before,
                              const std::optional<SavedProgress>& now) {
  const int status = outcome.exit_status;
  const auto end = [&](std::string why) {
    return NextStep{.restarts = false, .exit_status = status, .why = std::move(why)};
  };
  if (outcome.failed == 0 || outcome.was_ended_at_once) return end("");
  if (restarts_ > 0) without_progress_ = is_progress(before, now) ? 0 : without_progress_ + 1;
  if (outcome.was_asked_to_stop) return end("not started again: it was asked to stop");
  if (max_restarts_ == 0) return end("");
  // A process that was left behind may hold files and memory, and write when it continues.
  if (outcome.left_behind > 0)
    return end("not started again: a process is left that cannot be ended");
  const Repeat repeat = repeat_after(status);
  if (repeat == Repeat::kNever) {
    return end(fmt::format("not started again: after exit {} it would fail again", status));
  }
  if (repeat == Repeat::kOnce && internal_errors_++ > 0) {
    return end(fmt::format("not started again: exit {} has come back", status));
  }
  if (without_progress_ >= kMostWithoutProgress) {
    return {.restarts = false,
            .exit_status = static_cast<int>(ErrorCode::kDoNotRestart),
            .why = fmt::format(
                "not started again: {} restarts wrote no newer checkpoint{}", without_progress_,
                now ? fmt::format(" than that of iteration {}", now->iteration) : "")};
  }
  if (restarts_ >= max_restarts_) {
    return end(fmt::format("not started again: --max-restarts {} are used up", max_restarts_));
  }
  if (!has_save_) {
    return end(
        "not started again: without --save in the command there is no checkpoint to go on "
        "from");
  }
  ++restarts_;
  return {
      .restarts = true,
      .exit_status = 0,
      .why = now ? fmt::format("restart {} of {}, from the checkpoint of iteration {}", restarts_,
                               max_restarts_, now->iteration)
                 : fmt::format("restart {} of {}, from the beginning: there is no checkpoint yet",
                               restarts_, max_restarts_)};
}

}  // namespace phalanx::launch
