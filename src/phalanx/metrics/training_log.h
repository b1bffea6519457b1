#pragma once
// The lines that Megatron-LM prints while it trains, byte for byte (the format of core 0.8), so
// that people's log parsers keep working; and the averages in these lines.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// One training line. Learning rates and loss scale are those after the step.
struct TrainingLine {
  std::chrono::system_clock::time_point time;  // printed as local time
  std::int64_t iteration = 0;
  std::int64_t train_iterations = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t skipped_samples = 0;             // printed when > 0
  double milliseconds_per_iteration = 0;        // average of the interval
  std::optional<double> tera_flops_per_second;  // per device; with --log-throughput
  double learning_rate = 0;
  std::optional<double> decoupled_learning_rate;  // with --decoupled-lr
  std::int64_t global_batch_size = 0;
  std::vector<NamedLoss> losses;  // averages; one that is not above zero is not printed
  double loss_scale = 1;
  std::optional<double> grad_norm;
  std::optional<double> zeros_in_gradients;
  std::optional<double> parameters_norm;
  std::int64_t skipped_iterations = 0;  // of the interval
  std::int64_t nan_iterations = 0;      // of the interval
};

std::string format_training_line(const TrainingLine& line);

// "experts: load 1.25 (mean of layers 1.10), dropped 0.0 %, bias -0.003 to 0.004", and a line for
// each layer where there are any; no newline at the end.
std::string format_expert_lines(const ExpertLoads& loads);

// One line: what was asked last, the answer, and what was expected, each cut where it is long.
std::string format_answer_line(std::int64_t iteration, const AnswersReport::Answer& answer);

// The three lines of an evaluation (no newline at the end): a rule, the losses with their
// perplexities and the scores, a rule. A loss with a title is not one of tokens and has no
// perplexity. `place` is "iteration 100" or "iteration 100 on validation set".
std::string format_evaluation_block(std::string_view place, std::span<const NamedLoss> losses,
                                    std::span<const NamedLoss> scores = {});

// "[after training is done] datetime: 2024-07-02 13:02:03 ", in local time.
std::string datetime_line(std::string_view what, std::chrono::system_clock::time_point time);

// Megatron's lines of memory after the first iterations, one for each rank. Arenas are allocated
// before the first iteration.
std::string format_memory(std::int64_t iteration, std::span<const ArenaBytes> ranks);
// Megatron's line of theoretical memory; the numbers are planned instead of estimated.
std::string format_footprints(std::int64_t weight_and_optimizer_bytes,
                              std::int64_t activation_bytes);

// exp(loss), the loss capped at 20; NaN stays NaN.
double perplexity(double loss);

// Collects iterations for the next training line.
class LogInterval {
 public:
  struct Summary {
    // Averages over the iterations that were not skipped, in order of first arrival.
    std::vector<NamedLoss> losses;
    double milliseconds_per_iteration = 0;
    std::int64_t skipped_iterations = 0;
    std::int64_t nan_iterations = 0;  // skipped ones with a loss that is not finite
  };

  // `seconds`: without evaluation and checkpoints.
  void add(std::span<const NamedLoss> losses, double seconds, bool skipped);
  // The summary; the next interval begins.
  Summary take();

 private:
  std::vector<NamedLoss> sums_;
  double seconds_ = 0;
  std::int64_t iterations_ = 0;
  std::int64_t skipped_iterations_ = 0;
  std::int64_t nan_iterations_ = 0;
};

// "predicted 1.23 s, measured 1.45 s (+17.9 %); most of it: products 0.8 s, predicted 0.62 s";
// empty where they differ by less than 5 %. No newline.
std::string format_prediction_line(double predicted, double measured,
                                   const std::vector<StepPart>& parts);

}  // namespace phalanx
