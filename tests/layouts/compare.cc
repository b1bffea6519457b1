#include "compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

std::string difference(const std::string& what, const GlobalValues& a, const GlobalValues& b) {
  for (const auto& [name, values] : b) {
    const auto other = a.find(name);
    if (other == a.end() || other->second.size() != values.size()) return what + " of " + name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float x = other->second[i];
      if (std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(values[i])) {
        return fmt::format("{} of {}, element {}: {} and {}", what, name, i, x, values[i]);
      }
    }
  }
  return "";
}

std::string difference(const std::string& what, const std::vector<double>& a,
                       const std::vector<double>& b) {
  if (a.size() != b.size()) return "number of steps";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i])) {
      return fmt::format("{} of step {}: {:.9g} and {:.9g}", what, i + 1, a[i], b[i]);
    }
  }
  return "";
}

// Square sums, without the elements for which skip(i) holds.
template <typename Skip>
double square_distance(const std::vector<float>& a, const std::vector<float>& b, const Skip& skip) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    if (!skip(i)) sum += d * d;
  }
  return sum;
}

double square_distance(const std::vector<float>& a, const std::vector<float>& b) {
  return square_distance(a, b, [](std::size_t) { return false; });
}

double square_norm(const std::vector<float>& a) {
  return square_distance(a, std::vector<float>(a.size(), 0.0F));
}

double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double error = std::abs(a[i] - b[i]) / std::abs(b[i]);
    largest = std::isfinite(error) ? std::max(largest, error) : HUGE_VAL;
  }
  return largest;
}

void note(double error, const std::string& name, double& largest, std::string& of) {
  if (error <= largest) return;
  largest = std::isfinite(error) ? error : HUGE_VAL;
  of = name;
}

// |a - b| / max(|b|, 1e-3 |all of b|) of every tensor.
void compare_norms(const GlobalValues& a, const GlobalValues& b, double& largest, std::string& of) {
  double all = 0.0;
  for (const auto& [name, values] : b) all += square_norm(values);
  for (const auto& [name, values] : b) {
    const double size = std::max(square_norm(values), 1e-6 * all);
    note(std::sqrt(square_distance(a.at(name), values) / size), name, largest, of);
  }
}

constexpr std::size_t kHeads = 4;
constexpr std::size_t kHeadSize = 8;

// What weight decay applies to.
bool is_matrix(const std::string& name) {
  return !name.ends_with("bias") && name.find("norm") == std::string::npos;
}

}  // namespace

std::string first_difference(const TrainingResult& a, const TrainingResult& b) {
  if (a.skipped != b.skipped) return "steps that were skipped";
  for (const std::string& found :
       {difference("initial weight", a.initial_weights, b.initial_weights),
        difference("gradient", a.first_gradients, b.first_gradients),
        difference("loss", a.losses, b.losses),
        difference("gradient norm", a.grad_norms, b.grad_norms),
        difference("weight", a.weights, b.weights),
        difference("stored weight", a.stored_weights, b.stored_weights),
        difference("first moment", a.exp_avg, b.exp_avg),
        difference("second moment", a.exp_avg_sq, b.exp_avg_sq)}) {
    if (!found.empty()) return found;
  }
  return "";
}

Distance distance(const TrainingResult& a, const TrainingResult& b) {
  Distance result{.loss = relative(a.losses, b.losses),
                  .grad_norm = relative(a.grad_norms, b.grad_norms),
                  .gradient_of = {},
                  .weight_of = {},
                  .moment_of = {}};
  compare_norms(a.first_gradients, b.first_gradients, result.gradient, result.gradient_of);
  compare_norms(a.exp_avg_sq, b.exp_avg_sq, result.moment, result.moment_of);
  double all_moved = 0.0, all_apart = 0.0;
  for (const auto& [name, values] : b.weights) {
    const bool is_qkv_bias = name.ends_with("linear_qkv.bias");
    const bool is_kv_bias = name.ends_with("linear_kv.bias");
    // Group by group the queries, the key and the value.
    const std::size_t heads = values.size() / kHeadSize;
    const std::size_t groups = is_qkv_bias ? (heads - kHeads) / 2 : 1;
    const auto is_key = [&](std::size_t i) {
      const std::size_t head = i / kHeadSize;
      return (is_qkv_bias && head % (heads / groups) == kHeads / groups) ||
             (is_kv_bias && head % 2 == 0);
    };
    const double moved = square_distance(values, b.initial_weights.at(name), is_key);
    const double apart = square_distance(a.weights.at(name), values, is_key);
    note(std::sqrt(apart / moved), name, result.weight, result.weight_of);
    all_moved += moved;
    all_apart += apart;
  }
  result.all_weights = std::sqrt(all_apart / all_moved);
  return result;
}

StepError error_of_first_step(const TrainingResult& result, const TrainConfig& config) {
  const OptimizerSettings settings = optimizer_settings(config.optimizer);
  const auto& adam = std::get<AdamRule>(settings.rule);
  const double average = result.first_factor / loss_scaler(config).scale();
  double squares = 0.0;
  for (const auto& [name, gradient] : result.first_gradients) squares += square_norm(gradient);
  const double norm = average * std::sqrt(squares);
  const double factor = average * std::min(1.0, settings.clip_grad / (norm + 1e-6));

  StepError error{.grad_norm = std::abs(result.grad_norms.front() / norm - 1.0),
                  .moment_of = {},
                  .weight_of = {}};
  for (const auto& [name, gradient] : result.first_gradients) {
    const auto& before = result.initial_weights.at(name);
    const auto& after = result.first_weights.at(name);
    const auto& moment = result.first_exp_avg.at(name);
    const double decay = is_matrix(name) ? kWeightDecay : 0.0;
    double apart = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double g = factor * static_cast<double>(gradient[i]);
      const double expected = (1.0 - adam.beta1) * g;
      const double moment_off = static_cast<double>(moment[i]) - expected;
      apart += moment_off * moment_off;
      size += expected * expected;
      const double moved =
          g / (std::abs(g) + adam.epsilon) + decay * static_cast<double>(before[i]);
      const double has_moved =
          (static_cast<double>(before[i]) - static_cast<double>(after[i])) / kLearningRate;
      note(std::abs(has_moved - moved), name, error.weight, error.weight_of);
    }
    // The first gradients of an adapter's A are zero.
    note(apart > 0.0 ? std::sqrt(apart / size) : 0.0, name, error.moment, error.moment_of);
  }
  return error;
}

}  // namespace phalanx
