#include "phalanx/settings/batch_flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

// A limit, because every batch has programs of its own.
constexpr std::int64_t kMostBatches = 10'000;
constexpr double kMostSamples = 9007199254740992.0;  // up to here doubles are whole numbers

BatchSchedule::Rampup rampup_of(const LayoutConfig& l) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : l.rampup_batch_size) {
    const auto number = parse_number<std::int64_t>(word);
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
  const auto number = parse_number<double>(text);
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
                           : parse_number<std::int64_t>(std::string_view(step).substr(colon + 1));
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

}  // namespace

std::string rampup_text(const LayoutConfig& l) {
  return fmt::format("--rampup-batch-size {}", fmt::join(l.rampup_batch_size, " "));
}

BatchSchedule given_batches(const TrainConfig& c) {
  const LayoutConfig& l = c.layout;
  if (!l.step_batch_size_schedule.empty()) return step_schedule(c);
  return l.rampup_batch_size.empty() ? BatchSchedule(l.global_batch_size) : rampup_schedule(l);
}

}  // namespace phalanx
