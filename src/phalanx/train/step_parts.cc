#include "phalanx/train/step_parts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "phalanx/clock/pricing.h"

namespace phalanx {
namespace {

// More are not awaited at all.
constexpr std::size_t kMostUnderWay = 4096;

// A part of a prediction as it is measured; the last: everything else.
std::size_t row_of(std::string_view part) {
  if (part == "pp" || part == "bubble") part = "pipeline";
  const auto* const found = std::ranges::find(kMeasuredParts, part);
  return static_cast<std::size_t>(found - kMeasuredParts.begin());
}

}  // namespace

std::array<double, kMeasuredParts.size() + 1> parts_of(const StepForecast& forecast) {
  std::array<double, kMeasuredParts.size() + 1> rows{};
  for (const StepForecast::Part& part : forecast.parts) rows.at(row_of(part.name)) += part.seconds;
  return rows;
}

StepParts::Part StepParts::part_of(const MessageGroup& group) {
  switch (part_of_group(group.name)) {
    case TimePart::kTensor:
      return Part::kTensor;
    case TimePart::kContext:
      return Part::kContext;
    case TimePart::kExpert:
      return Part::kExpert;
    case TimePart::kPipeline:
      return Part::kPipeline;
    default:
      return Part::kData;
  }
}

void StepParts::begin() {
  recorder_.clear();
  counted_ = 0;
  rank_.record_to(&recorder_);
}

void StepParts::end(std::int64_t iterations) {
  rank_.record_to(nullptr);
  count(false);
  if (std::exchange(is_first_, false)) {
    seconds_.fill(0.0);
  } else {
    iterations_ += iterations;
  }
  if (under_way_.size() > kMostUnderWay) under_way_.clear();
}

void StepParts::update_ends() { count(true); }

void StepParts::count(bool is_update) {
  const Trace& events = recorder_.events();
  for (; counted_ < events.size(); ++counted_) {
    const TraceEvent& event = events[counted_];
    if (const auto* op = std::get_if<OpRun>(&event)) {
      add(is_update && counted_ >= update_ ? Part::kOptimizer
          : op->cost.product.batch > 0     ? Part::kProducts
          : op->cost.attention.batch > 0   ? Part::kAttention
                                           : Part::kMemory,
          op->seconds);
    } else if (const auto* message = std::get_if<MessageBegun>(&event)) {
      under_way_.insert_or_assign(message->work, part_of(*message->group));
    } else if (const auto* transfer = std::get_if<TransferBegun>(&event)) {
      under_way_.insert_or_assign(transfer->work, Part::kDisk);
    } else if (const auto* awaited = std::get_if<Awaited>(&event)) {
      const auto begun = under_way_.find(awaited->work);
      if (begun == under_way_.end()) continue;
      add(begun->second, awaited->seconds);
      under_way_.erase(begun);
    }
  }
}

std::vector<double> StepParts::take() {
  std::vector<double> means;
  const auto iterations = static_cast<double>(std::max<std::int64_t>(1, iterations_));
  for (double& seconds : seconds_) means.push_back(std::exchange(seconds, 0.0) / iterations);
  iterations_ = 0;
  return means;
}

}  // namespace phalanx
