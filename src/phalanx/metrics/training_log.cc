#include "phalanx/metrics/training_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace phalanx {
namespace {

std::string local_time(std::chrono::system_clock::time_point time) {
  std::tm local{};
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  ::localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string datetime_line(std::string_view what, std::chrono::system_clock::time_point time) {
  return fmt::format("[{}] datetime: {} ", what, local_time(time));
}

std::string format_memory(std::int64_t iteration, std::span<const ArenaBytes> ranks) {
  std::string text;
  for (const ArenaBytes& rank : ranks) {
    if (!text.empty()) text += '\n';
    fmt::format_to(std::back_inserter(text),
                   "[Rank {0}] (after {1} iterations) memory (MB) | allocated: {2:.2f} | max "
                   "allocated: {2:.2f} | reserved: {2:.2f} | max reserved: {2:.2f}",
                   rank.rank, iteration, megabytes(rank.bytes));
  }
  return text;
}

std::string format_footprints(std::int64_t weight_and_optimizer_bytes,
                              std::int64_t activation_bytes) {
  return fmt::format(
      "Theoretical memory footprints: weight and optimizer={:.2f} MB, activation={:.2f} MB, "
      "total={:.2f} MB",
      megabytes(weight_and_optimizer_bytes), megabytes(activation_bytes),
      megabytes(weight_and_optimizer_bytes + activation_bytes));
}

std::string format_training_line(const TrainingLine& line) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, " [{}]", local_time(line.time));
  fmt::format_to(out, " iteration {:8d}/{:8d} |", line.iteration, line.train_iterations);
  fmt::format_to(out, " consumed samples: {:12d} |", line.consumed_samples);
  if (line.skipped_samples > 0) {
    fmt::format_to(out, " skipped samples: {:12d} |", line.skipped_samples);
  }
  fmt::format_to(out, " elapsed time per iteration (ms): {:.1f} |",
                 line.milliseconds_per_iteration);
  if (line.tera_flops_per_second) {
    fmt::format_to(out, " throughput per GPU (TFLOP/s/GPU): {:.1f} |", *line.tera_flops_per_second);
  }
  fmt::format_to(out, " learning rate: {:.6E} |", line.learning_rate);
  if (line.decoupled_learning_rate) {
    fmt::format_to(out, " decoupled learning rate: {:.6E} |", *line.decoupled_learning_rate);
  }
  fmt::format_to(out, " global batch size: {:5d} |", line.global_batch_size);
  for (const auto& loss : line.losses) {
    if (loss.value > 0) fmt::format_to(out, " {}: {:.6E} |", title_of(loss), loss.value);
  }
  fmt::format_to(out, " loss scale: {:.1f} |", line.loss_scale);
  if (line.grad_norm) fmt::format_to(out, " grad norm: {:.3f} |", *line.grad_norm);
  if (line.zeros_in_gradients) {
    fmt::format_to(out, " num zeros: {:.1f} |", *line.zeros_in_gradients);
  }
  if (line.parameters_norm) fmt::format_to(out, " params norm: {:.3f} |", *line.parameters_norm);
  fmt::format_to(out, " number of skipped iterations: {:3d} |", line.skipped_iterations);
  fmt::format_to(out, " number of nan iterations: {:3d} |", line.nan_iterations);
  return text;
}

std::string format_expert_lines(const ExpertLoads& loads) {
  std::string text;
  const auto add_rest = [&](double dropped, const std::optional<ExpertLoads::Bias>& bias) {
    fmt::format_to(std::back_inserter(text), ", dropped {:.1f} %", 100.0 * dropped);
    if (!bias) return;
    fmt::format_to(std::back_inserter(text), ", bias {:.4g} to {:.4g}", bias->least, bias->most);
  };
  text = fmt::format("   experts: load {:.2f} (mean of layers {:.2f})", loads.worst, loads.mean);
  add_rest(loads.dropped, loads.bias);
  for (const ExpertLoads::Layer& layer : loads.layers) {
    fmt::format_to(std::back_inserter(text), "\n   experts of {}: load {:.2f}", layer.name,
                   layer.most_to_mean);
    add_rest(layer.dropped, layer.bias);
  }
  return text;
}

double perplexity(double loss) { return std::exp(loss > 20.0 ? 20.0 : loss); }

std::string format_answer_line(std::int64_t iteration, const AnswersReport::Answer& answer) {
  const auto quoted = [](std::string_view text) {
    constexpr std::size_t kShown = 200;  // bytes
    using nlohmann::json;
    const std::string shown(text.substr(0, kShown));
    return json(shown).dump(-1, ' ', false, json::error_handler_t::ignore) +
           (text.size() > kShown ? "..." : "");
  };
  return fmt::format(
      " answer after iteration {} | asked: {} | answered{}: {} | expected: {}", iteration,
      quoted(answer.messages.empty() ? "" : answer.messages.back().second),
      answer.is_ended ? "" : ", without an end", quoted(answer.text), quoted(answer.expected));
}

std::string format_evaluation_block(std::string_view place, std::span<const NamedLoss> losses,
                                    std::span<const NamedLoss> scores) {
  std::string text = fmt::format(" validation loss at {} | ", place);
  const auto out = std::back_inserter(text);
  for (const auto& loss : losses) {
    fmt::format_to(out, "{} value: {:.6E} | ", title_of(loss), loss.value);
    if (!loss.title.empty()) continue;
    fmt::format_to(out, "{} PPL: {:.6E} | ", loss.name, perplexity(loss.value));
  }
  for (const auto& score : scores) {
    fmt::format_to(out, "{}: {:.6f} | ", title_of(score), score.value);
  }
  const std::string rule(text.size() + 1, '-');
  return rule + "\n" + text + "\n" + rule;
}

void LogInterval::add(std::span<const NamedLoss> losses, double seconds, bool skipped) {
  ++iterations_;
  seconds_ += seconds;
  if (skipped) {
    ++skipped_iterations_;
    const bool finite =
        std::ranges::all_of(losses, [](const auto& loss) { return std::isfinite(loss.value); });
    if (!finite) ++nan_iterations_;
    return;
  }
  for (const auto& loss : losses) {
    const auto sum = std::ranges::find(sums_, loss.name, &NamedLoss::name);
    if (sum == sums_.end()) {
      sums_.push_back(loss);
    } else {
      sum->value += loss.value;
    }
  }
}

LogInterval::Summary LogInterval::take() {
  Summary summary;
  const auto advanced = std::max<std::int64_t>(1, iterations_ - skipped_iterations_);
  for (auto& sum : sums_) sum.value /= static_cast<double>(advanced);
  summary.losses = std::move(sums_);
  summary.milliseconds_per_iteration =
      1e3 * seconds_ / static_cast<double>(std::max<std::int64_t>(1, iterations_));
  summary.skipped_iterations = skipped_iterations_;
  summary.nan_iterations = nan_iterations_;
  *this = LogInterval();
  return summary;
}

const StepPart* farthest_off(const std::vector<StepPart>& parts) {
  const auto miss = [](const StepPart& part) { return std::abs(part.measured - part.predicted); };
  const auto found = std::ranges::max_element(parts, {}, miss);
  return found == parts.end() ? nullptr : &*found;
}

std::string format_prediction_line(double predicted, double measured,
                                   const std::vector<StepPart>& parts) {
  constexpr double kToldShare = 0.05;
  const double off = measured / predicted - 1.0;
  if (std::abs(off) < kToldShare) return {};
  std::string text = fmt::format("predicted {:.4g} s, measured {:.4g} s ({:+.1f} %)", predicted,
                                 measured, 100.0 * off);
  if (const StepPart* const part = farthest_off(parts)) {
    text += fmt::format("; most of it: {} {:.4g} s, predicted {:.4g} s", part->name, part->measured,
                        part->predicted);
  }
  return text;
}

}  // namespace phalanx
