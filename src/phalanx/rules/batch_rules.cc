// The part of resolve() that is about the global batch and how it changes.

#include <fmt/core.h>

#include <string>

#include "phalanx/rules/rules.h"
#include "phalanx/settings/batch_flags.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// A step is a list of actions: several for each microbatch.
constexpr std::int64_t kMostMicrobatches = 1'000'000;

// The flag of a batch and its value, for messages.
std::string batch_text(const LayoutConfig& l, const BatchSchedule::Piece& piece) {
  if (l.rampup_batch_size.empty() && l.step_batch_size_schedule.empty()) {
    return fmt::format("--global-batch-size {}", piece.batch);
  }
  return fmt::format("{}: the batch of {} samples (after {} samples)",
                     l.rampup_batch_size.empty() ? "--step-batch-size-schedule" : rampup_text(l),
                     piece.batch, piece.from);
}

// "8 or 12 is": the multiples next to a batch, without 0.
std::string neighbours_text(std::int64_t batch, std::int64_t factor) {
  const std::int64_t below = batch / factor * factor;
  const std::int64_t above = below + factor;
  return below == 0 ? fmt::format("{} is", above) : fmt::format("{} or {} is", below, above);
}

void check_batch(const LayoutConfig& l, const BatchSchedule::Piece& piece) {
  const std::int64_t together = samples_per_microbatch(l);
  const std::string product = fmt::format("{}: --micro-batch-size {} x {} data-parallel ranks",
                                          together, l.micro_batch_size, data_parallel_size(l));
  if (l.decrease_batch_size_if_needed ? piece.batch < together : piece.batch % together != 0) {
    if (l.decrease_batch_size_if_needed) {
      throw ConfigError("{} is less than {}: --decrease-batch-size-if-needed leaves nothing of it",
                        batch_text(l, piece), product);
    }
    throw ConfigError(
        "{} is not a multiple of {}: {} (or give --decrease-batch-size-if-needed)",
        batch_text(l, piece), product,
        l.rampup_batch_size.empty()
            ? neighbours_text(piece.batch, together)
            : fmt::format("make the ramp's first batch and its steps multiples of {}", together));
  }
  if (num_microbatches(l, piece.batch) > kMostMicrobatches) {
    throw ConfigError(
        "{} is {} microbatches a step of each data-parallel rank, more than {}: raise "
        "--micro-batch-size",
        batch_text(l, piece), num_microbatches(l, piece.batch), kMostMicrobatches);
  }
}

}  // namespace

void resolve_batch(TrainConfig& c) {
  LayoutConfig& l = c.layout;
  if (!l.step_batch_size_schedule.empty()) {
    if (!l.rampup_batch_size.empty()) {
      throw ConfigError(
          "--step-batch-size-schedule and --rampup-batch-size exclude each other: give one");
    }
    const std::int64_t last = given_batches(c).last();
    if (l.global_batch_size != 0 && l.global_batch_size != last) {
      throw ConfigError(
          "--step-batch-size-schedule ends with a batch of {} samples, --global-batch-size says "
          "{}: leave the second out",
          last, l.global_batch_size);
    }
    l.global_batch_size = last;
  }
  if (l.global_batch_size == 0 && l.rampup_batch_size.empty()) {
    l.global_batch_size = samples_per_microbatch(l);
  }
  const BatchSchedule batches = given_batches(c);
  for (const BatchSchedule::Piece& piece : batches.pieces()) check_batch(l, piece);
}

}  // namespace phalanx
