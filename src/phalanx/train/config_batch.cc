// The part of resolve() that is about the global batch and how it changes.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/train/config_rules.h"
#include "phalanx/train/config_views.h"

namespace phalanx {
namespace {

// A step is a list of actions: several for each microbatch.
constexpr std::int64_t kMostMicrobatches = 1'000'000;
// Every batch has programs of its own.
constexpr std::int64_t kMostBatches = 10'000;
constexpr double kMostSamples = 9007199254740992.0;  // up to here doubles are whole numbers

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string rampup_text(const LayoutConfig& l) {
  return fmt::format("--rampup-batch-size {}", fmt::join(l.rampup_batch_size, " "));
}

BatchSchedule::Rampup rampup_of(const LayoutConfig& l) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : l.rampup_batch_size) {
    const auto number = number_of<std::int64_t>(word);
    if (number && *number > 0 && static_cast<double>(*number) <= kMostSamples) {
      numbers.push_back(*number);
    }
  }
  if (numbers.size() != 3 || l.rampup_batch_size.size() != 3) {
    throw ConfigError(
        "{}: give three whole numbers above 0: the first batch, what each step adds to it, and the "
        "samples after which it is --global-batch-size",
        rampup_text(l));
  }
  return {.start = numbers[0], .increment = numbers[1], .samples = numbers[2]};
}

BatchSchedule rampup_schedule(const LayoutConfig& l) {
  const BatchSchedule::Rampup rampup = rampup_of(l);
  if (l.global_batch_size == 0) {
    throw ConfigError("{} needs --global-batch-size, the batch that it ends with", rampup_text(l));
  }
  const std::int64_t rise = l.global_batch_size - rampup.start;
  if (rise < 0) {
    throw ConfigError("{} begins above --global-batch-size {}", rampup_text(l),
                      l.global_batch_size);
  }
  if (rise % rampup.increment != 0) {
    throw ConfigError(
        "{} does not come to --global-batch-size {}: from {} it is {} more, no multiple of {}",
        rampup_text(l), l.global_batch_size, rampup.start, rise, rampup.increment);
  }
  if (rise / rampup.increment > kMostBatches) {
    throw ConfigError("{} has {} steps, more than {}: raise what each adds", rampup_text(l),
                      rise / rampup.increment, kMostBatches);
  }
  return {rampup, l.global_batch_size};
}

// A count as "64", "300K" or "2.4B"; nothing where it is none.
std::optional<std::int64_t> count_of(std::string_view text) {
  constexpr std::string_view kSuffixes = "KMBT";
  double scale = 1.0;
  if (!text.empty()) {
    const auto suffix = kSuffixes.find(static_cast<char>(text.back() & ~0x20));  // either case
    if (suffix != std::string_view::npos) {
      scale = std::pow(1000.0, static_cast<double>(suffix + 1));
      text.remove_suffix(1);
    }
  }
  const auto number = number_of<double>(text);
  if (!number || !(*number >= 0.0) || *number * scale > kMostSamples) return std::nullopt;
  return std::llround(*number * scale);
}

// The words of the flag, whether the shell has kept them together or not.
std::vector<std::string> steps_of(const LayoutConfig& l) {
  std::vector<std::string> steps;
  for (const std::string& argument : l.step_batch_size_schedule) {
    for (std::size_t at = 0;
         (at = argument.find_first_not_of(" \t\n,", at)) != std::string::npos;) {
      const std::size_t end = std::min(argument.find_first_of(" \t\n,", at), argument.size());
      steps.push_back(argument.substr(at, end - at));
      at = end;
    }
  }
  return steps;
}

BatchSchedule step_schedule(const TrainConfig& c) {
  std::vector<BatchSchedule::Piece> pieces;
  const auto refuse = [](const std::string& step, std::string_view reason) {
    throw ConfigError("--step-batch-size-schedule {}: {}", step, reason);
  };
  const std::vector<std::string> steps = steps_of(c.layout);
  if (steps.empty()) refuse("\"\"", "give TOKENS:BATCH, the first of 0 tokens");
  for (const std::string& step : steps) {
    const std::size_t colon = step.find(':');
    const auto tokens = count_of(std::string_view(step).substr(0, colon));
    const auto batch = colon == std::string::npos
                           ? std::nullopt
                           : number_of<std::int64_t>(std::string_view(step).substr(colon + 1));
    if (!tokens || !batch || *batch < 1) {
      refuse(step,
             "each step is TOKENS:BATCH, as 2.4B:320 (K, M, B and T are thousands, millions, "
             "billions and trillions)");
    }
    const std::int64_t from = *tokens / c.data.seq_length;
    if (pieces.empty() && *tokens != 0) refuse(step, "the first step must begin at 0");
    if (!pieces.empty() && from <= pieces.back().from) {
      refuse(step, fmt::format("{} tokens are {} samples of --seq-length {}, and the step before "
                               "begins after {}: steps must come further and further on",
                               *tokens, from, c.data.seq_length, pieces.back().from));
    }
    pieces.push_back({.from = from, .batch = *batch});
  }
  if (std::ssize(pieces) > kMostBatches) {
    refuse(steps.front(), fmt::format("there are more than {} steps", kMostBatches));
  }
  return BatchSchedule(pieces);
}

// Where a batch comes from and which it is, for messages.
std::string batch_text(const LayoutConfig& l, const BatchSchedule::Piece& piece) {
  if (l.rampup_batch_size.empty() && l.step_batch_size_schedule.empty()) {
    return fmt::format("--global-batch-size {}", piece.batch);
  }
  return fmt::format("{}: the batch of {} samples (after {} samples)",
                     l.rampup_batch_size.empty() ? "--step-batch-size-schedule" : rampup_text(l),
                     piece.batch, piece.from);
}

BatchSchedule given_schedule(const TrainConfig& c) {
  const LayoutConfig& l = c.layout;
  if (!l.step_batch_size_schedule.empty()) return step_schedule(c);
  return l.rampup_batch_size.empty() ? BatchSchedule(l.global_batch_size) : rampup_schedule(l);
}

// "8 or 12 is": the multiples around a batch, of which 0 is none.
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

BatchSchedule batch_schedule(const TrainConfig& c) {
  if (!c.layout.decrease_batch_size_if_needed) return given_schedule(c);
  return given_schedule(c).rounded_down(samples_per_microbatch(c.layout));
}

void resolve_batch(TrainConfig& c) {
  LayoutConfig& l = c.layout;
  if (!l.step_batch_size_schedule.empty()) {
    if (!l.rampup_batch_size.empty()) {
      throw ConfigError(
          "--step-batch-size-schedule and --rampup-batch-size exclude each other: give one");
    }
    const std::int64_t last = step_schedule(c).last();
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
  const BatchSchedule batches = given_schedule(c);
  for (const BatchSchedule::Piece& piece : batches.pieces()) check_batch(l, piece);
}

}  // namespace phalanx
