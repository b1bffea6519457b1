#include "phalanx/metrics/training_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>

namespace phalanx {
namespace {

class TrainingLog : public testing::Test {
 protected:
  TrainingLog() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  // The values of Megatron's documented example.
  static TrainingLine example() {
    TrainingLine line;
    line.time = std::chrono::system_clock::from_time_t(1719925323);
    line.iteration = 100;
    line.train_iterations = 500000;
    line.consumed_samples = 800;
    line.milliseconds_per_iteration = 612.3;
    line.learning_rate = 4.687e-6;
    line.global_batch_size = 8;
    line.losses = {{"lm loss", 9.512345}};
    line.loss_scale = 65536.0;
    line.grad_norm = 2.345;
    return line;
  }
};

TEST_F(TrainingLog, LineIsMegatrons) {
  EXPECT_EQ(
      format_training_line(example()),
      " [2024-07-02 13:02:03] iteration      100/  500000 | consumed samples:          800 |"
      " elapsed time per iteration (ms): 612.3 | learning rate: 4.687000E-06 |"
      " global batch size:     8 | lm loss: 9.512345E+00 | loss scale: 65536.0 | grad norm: 2.345 |"
      " number of skipped iterations:   0 | number of nan iterations:   0 |");
}

TEST_F(TrainingLog, LineWithEveryField) {
  auto line = example();
  line.skipped_samples = 16;
  line.tera_flops_per_second = 0.1234;
  line.losses = {{"lm loss", 2.0},
                 {"zero", 0.0},
                 {"nan", std::numeric_limits<double>::quiet_NaN()},
                 {"sop loss", 0.5}};
  line.decoupled_learning_rate = 1.25e-4;
  line.zeros_in_gradients = 3;
  line.parameters_norm = 12.34567;
  line.skipped_iterations = 2;
  line.nan_iterations = 1;
  EXPECT_EQ(format_training_line(line),
            " [2024-07-02 13:02:03] iteration      100/  500000 | consumed samples:          800 |"
            " skipped samples:           16 | elapsed time per iteration (ms): 612.3 |"
            " throughput per GPU (TFLOP/s/GPU): 0.1 | learning rate: 4.687000E-06 |"
            " decoupled learning rate: 1.250000E-04 |"
            " global batch size:     8 | lm loss: 2.000000E+00 | sop loss: 5.000000E-01 |"
            " loss scale: 65536.0 | grad norm: 2.345 | num zeros: 3.0 | params norm: 12.346 |"
            " number of skipped iterations:   2 | number of nan iterations:   1 |");
}

TEST_F(TrainingLog, SaysHowBusyExpertsAre) {
  ExpertLoads loads{.worst = 1.25, .mean = 1.125, .dropped = 0.0625};
  EXPECT_EQ(format_expert_lines(loads),
            "   experts: load 1.25 (mean of layers 1.12), dropped 6.2 %");
  const ExpertLoads::Bias bias{.least = -0.003, .most = 0.004};
  loads.bias = bias;
  loads.layers = {{.name = "decoder.layers.3", .most_to_mean = 1.25, .dropped = 0, .bias = bias}};
  EXPECT_EQ(format_expert_lines(loads),
            "   experts: load 1.25 (mean of layers 1.12), dropped 6.2 %, bias -0.003 to 0.004\n"
            "   experts of decoder.layers.3: load 1.25, dropped 0.0 %, bias -0.003 to 0.004");
}

TEST_F(TrainingLog, EvaluationBlockIsMegatrons) {
  const std::vector<NamedLoss> losses = {{"lm loss", 2.5}};
  const std::string text =
      " validation loss at iteration 100 | lm loss value: 2.500000E+00 | lm loss PPL: 1.218249E+01 "
      "| ";
  const std::string rule(text.size() + 1, '-');
  EXPECT_EQ(format_evaluation_block("iteration 100", losses), rule + "\n" + text + "\n" + rule);
}

// A loss that is not of tokens has a title and no perplexity.
TEST_F(TrainingLog, AClassifiersEvaluationSaysHowMuchIsRight) {
  const std::vector<NamedLoss> losses = {{"lm loss", 0.5, "classification loss"}};
  const std::vector<NamedLoss> scores = {{"accuracy", 0.875}, {"f1", 0.75, "F1"}};
  const std::string text =
      " validation loss at iteration 8 | classification loss value: 5.000000E-01 | accuracy: "
      "0.875000 | F1: 0.750000 | ";
  const std::string rule(text.size() + 1, '-');
  EXPECT_EQ(format_evaluation_block("iteration 8", losses, scores),
            rule + "\n" + text + "\n" + rule);
  TrainingLine line = example();
  line.losses = losses;
  EXPECT_NE(format_training_line(line).find(" | classification loss: 5.000000E-01 | "),
            std::string::npos);
}

TEST_F(TrainingLog, DatesAreMegatrons) {
  EXPECT_EQ(datetime_line("after training is done", example().time),
            "[after training is done] datetime: 2024-07-02 13:02:03 ");
}

TEST_F(TrainingLog, MemoryIsMegatrons) {
  const std::vector<ArenaBytes> ranks = {{0, 3 << 20}, {4, 1 << 19}};
  EXPECT_EQ(format_memory(10, ranks),
            "[Rank 0] (after 10 iterations) memory (MB) | allocated: 3.00 | max allocated: 3.00 | "
            "reserved: 3.00 | max reserved: 3.00\n"
            "[Rank 4] (after 10 iterations) memory (MB) | allocated: 0.50 | max allocated: 0.50 | "
            "reserved: 0.50 | max reserved: 0.50");
  EXPECT_EQ(format_footprints(5 << 20, 1 << 18),
            "Theoretical memory footprints: weight and optimizer=5.00 MB, activation=0.25 MB, "
            "total=5.25 MB");
}

TEST(PredictionLine, NamesThePartThatIsFarthestOff) {
  const std::vector<StepPart> parts = {{.name = "products", .predicted = 0.5, .measured = 0.4},
                                       {.name = "tp", .predicted = 0.1, .measured = 0.3}};
  EXPECT_EQ(format_prediction_line(0.6, 0.75, parts),
            "predicted 0.6 s, measured 0.75 s (+25.0 %); most of it: tp 0.3 s, predicted 0.1 s");
  EXPECT_EQ(format_prediction_line(0.5, 0.25, {}), "predicted 0.5 s, measured 0.25 s (-50.0 %)");
  EXPECT_EQ(format_prediction_line(0.5, 0.52, parts), "");
}

TEST(Perplexity, IsCapped) {
  EXPECT_DOUBLE_EQ(perplexity(1.0), std::exp(1.0));
  EXPECT_DOUBLE_EQ(perplexity(1000.0), std::exp(20.0));
}

TEST(LogInterval, AveragesWhatWasNotSkippedAndStartsAnew) {
  LogInterval interval;
  const auto infinity = std::numeric_limits<double>::infinity();
  interval.add(std::vector<NamedLoss>{{"lm loss", 3.0}, {"sop loss", 1.0}}, 0.25, false);
  interval.add(std::vector<NamedLoss>{{"lm loss", infinity}, {"sop loss", 1.0}}, 0.5, true);
  interval.add(std::vector<NamedLoss>{{"lm loss", 100.0}, {"sop loss", 1.0}}, 0.5, true);
  interval.add(std::vector<NamedLoss>{{"lm loss", 2.0}, {"sop loss", 0.5}}, 0.75, false);
  const auto summary = interval.take();
  ASSERT_EQ(summary.losses.size(), 2U);
  EXPECT_EQ(summary.losses[0].name, "lm loss");
  EXPECT_DOUBLE_EQ(summary.losses[0].value, 2.5);
  EXPECT_DOUBLE_EQ(summary.losses[1].value, 0.75);
  EXPECT_DOUBLE_EQ(summary.milliseconds_per_iteration, 500.0);
  EXPECT_EQ(summary.skipped_iterations, 2);
  EXPECT_EQ(summary.nan_iterations, 1);

  const auto empty = interval.take();
  EXPECT_TRUE(empty.losses.empty());
  EXPECT_EQ(empty.skipped_iterations, 0);
  EXPECT_DOUBLE_EQ(empty.milliseconds_per_iteration, 0.0);
}

}  // namespace
}  // namespace phalanx
