#include "phalanx/report/metrics_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/metrics/metrics_file.h"

namespace phalanx {
namespace {

ReportMetrics read(std::initializer_list<std::string_view> lines) {
  ReportMetrics metrics;
  MetricsReader reader(metrics);
  for (const auto line : lines) {
    if (!reader.read(line)) ++metrics.unusable;
  }
  return metrics;
}

TEST(ReportMetrics, SeveralValidationSetsHaveSeriesOfTheirOwn) {
  EvaluationReport evaluation;
  evaluation.iteration = 2;
  evaluation.split = "valid";
  std::vector<std::string> lines;
  for (const char* set : {"wiki", "books \"2\""}) {
    evaluation.set = set;
    evaluation.losses = {{"lm loss", lines.empty() ? 8.5 : 7.5}};
    lines.push_back(to_json_line(evaluation));
  }
  const ReportMetrics metrics = read({lines[0], lines[1]});
  EXPECT_EQ(metrics.unusable, 0);
  ASSERT_EQ(metrics.validation.size(), 2U);
  EXPECT_EQ(metrics.validation[0].name, "lm_loss wiki");
  EXPECT_EQ(metrics.validation[0].series.last(), 8.5);
  EXPECT_EQ(metrics.validation[1].name, "lm_loss books \"2\"");
  EXPECT_EQ(metrics.validation[1].series.last(), 7.5);
}

TEST(ReportMetrics, ScoresOfTheValidationSetHaveSeries) {
  EvaluationReport evaluation;
  evaluation.losses = {{"lm loss", 1}};
  std::vector<std::string> lines;
  for (const auto& [iteration, split, accuracy] :
       {std::tuple(2, "valid", 0.5), std::tuple(4, "valid", 0.75), std::tuple(4, "test", 1.0)}) {
    evaluation.iteration = iteration;
    evaluation.split = split;
    evaluation.scores = {{"accuracy", accuracy}, {"f1", accuracy / 2, "F1"}};
    lines.push_back(to_json_line(evaluation));
  }
  const ReportMetrics metrics = read({lines[0], lines[1], lines[2]});
  ASSERT_EQ(metrics.scores.size(), 2U);
  EXPECT_EQ(metrics.scores[0].name, "accuracy");
  EXPECT_EQ(metrics.scores[0].series.count(), 2);
  EXPECT_EQ(metrics.scores[0].series.last(), 0.75);
  EXPECT_EQ(metrics.scores[1].name, "f1");
  EXPECT_EQ(metrics.scores[1].series.last(), 0.375);
}

TEST(MetricsReader, TakesWhatRunsWrite) {
  IterationReport report;
  report.iteration = 1;
  report.consumed_samples = 16;
  report.tokens = 4096;
  report.model_flops = 5e9;
  report.losses = {{"lm loss", 9.0109}, {"sop loss", 0.5}};
  report.learning_rate = 3e-4;
  report.grad_norm = 2.5;
  report.seconds = 0.5;
  report.rss_bytes = 1 << 30;
  EvaluationReport evaluation;
  evaluation.iteration = 2;
  evaluation.split = "valid";
  evaluation.losses = {{"lm loss", 8.5}};
  const std::string first = to_json_line(report, 1e12);
  report.iteration = 2;
  report.consumed_samples = 48;
  report.losses[0].value = 8.75;
  const std::string second = to_json_line(report, 1e12);
  const std::string third = to_json_line(evaluation);
  const ReportMetrics metrics = read({first, second, third});
  EXPECT_EQ(metrics.lines, 2);
  EXPECT_EQ(metrics.unusable, 0);
  EXPECT_EQ(metrics.last_iteration, 2);
  ASSERT_EQ(metrics.losses.size(), 2U);
  EXPECT_EQ(metrics.losses[0].name, "lm_loss");
  EXPECT_EQ(metrics.losses[0].series.last(), 8.75);
  EXPECT_EQ(metrics.losses[1].series.last(), 0.5);
  ASSERT_EQ(metrics.validation.size(), 1U);
  EXPECT_EQ(metrics.validation[0].series.last(), 8.5);
  EXPECT_EQ(metrics[Metric::kLearningRate].last(), 3e-4);
  EXPECT_EQ(metrics[Metric::kTokensPerSecond].last(), 8192);
  EXPECT_EQ(metrics[Metric::kFlopsPerSecond].last(), 1e10);
  EXPECT_EQ(metrics[Metric::kMfu].last(), 0.01);
  EXPECT_EQ(metrics[Metric::kSaving].last(), 0.0);
  EXPECT_EQ(metrics[Metric::kResidentBytes].last(), 1 << 30);
  EXPECT_EQ(metrics.tokens, 2 * 4096);
  EXPECT_EQ(metrics.batch_sizes.least(), 16);
  EXPECT_EQ(metrics.batch_sizes.last(), 32);
}

// One is at an interval, the other at the end of the run on other samples.
TEST(MetricsReader, BothEvaluationsOfAnIterationAreThere) {
  const ReportMetrics metrics =
      read({R"({"iteration": 2, "eval": "valid", "lm_loss": 5, "ppl": 7})",
            R"({"iteration": 4, "eval": "valid", "lm_loss": 4, "ppl": 6})",
            R"({"iteration": 4, "eval": "valid", "lm_loss": 3, "ppl": 5})",
            R"({"iteration": 4, "eval": "test", "lm_loss": 2, "new": 1})"});
  EXPECT_EQ(metrics.unusable, 0);
  EXPECT_EQ(means(metrics.validation[0].series.bins()),
            (std::vector<ChartPoint>{{2, 5}, {4, 4}, {4, 3}}));
  ASSERT_EQ(metrics.evaluations.size(), 4U);
  using Numbers = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(metrics.evaluations[1].numbers, (Numbers{{"lm_loss", 4}, {"ppl", 6}}));
  EXPECT_EQ(metrics.evaluations[3].split, "test");
  EXPECT_EQ(metrics.evaluations[3].numbers, (Numbers{{"lm_loss", 2}, {"new", 1}}));
}

TEST(MetricsReader, SkipsAreRanges) {
  const ReportMetrics metrics =
      read({R"({"iteration": 1, "lm_loss": null, "loss_scale": 8, "skipped": true})",
            R"({"iteration": 2, "lm_loss": 5, "loss_scale": 4, "skipped": true})",
            R"({"iteration": 3, "lm_loss": 4, "loss_scale": 4, "skipped": false})",
            R"({"iteration": 4, "lm_loss": 4, "loss_scale": 2, "skipped": true})"});
  EXPECT_EQ(metrics.skipped, 3);
  ASSERT_EQ(metrics.skipped_ranges.size(), 2U);
  EXPECT_EQ(metrics.skipped_ranges[0].first, 1);
  EXPECT_EQ(metrics.skipped_ranges[0].last, 2);
  EXPECT_EQ(metrics.skipped_ranges[0].loss_scale, 4);
  EXPECT_EQ(metrics.losses[0].series.count(), 3);  // null is no value
}

// Lines with few fields, other names, another order, lists.
TEST(MetricsReader, TakesWhatOthersWrite) {
  const ReportMetrics metrics =
      read({R"({"step":1,"train_loss":2.5e0})", R"({"train_loss": 2, "step": 2})",
            R"({"iteration": 3, "more": [1, {"a": 2}], "train_loss": 1.5})",
            R"({"iteration": 4, "note": "a \" b", "train_loss": 1})"});
  EXPECT_EQ(metrics.lines, 4);
  ASSERT_EQ(metrics.losses.size(), 1U);
  EXPECT_EQ(metrics.losses[0].series.sum(), 7);
}

TEST(MetricsReader, RefusesWhatIsNoMetricsLine) {
  const ReportMetrics metrics = read(
      {"", "x", "[1]", "{}", R"({"lm_loss": 3})", R"({"iteration": -1})", R"({"iteration": 1e300})",
       R"({"iteration": 1, "lm_loss": 1.2.3})", R"({"iteration": 1, "lm_loss": inf})",
       R"({"iteration": 1} {"iteration": 2})", R"({"iteration": "1"})", R"({"iteration": 1)",
       R"({"iteration": 2, "lm_loss": 1})", R"({"iteration": 2, "lm_loss": 2})"});
  EXPECT_EQ(metrics.unusable, 13);
  EXPECT_EQ(metrics.lines, 1);
  EXPECT_EQ(metrics.losses.front().series.count(), 1);
}

TEST(ReadMetrics, ForgivesATornLastLineAndLongFiles) {
  const auto path = std::filesystem::path(testing::TempDir()) / "report_metrics_test.jsonl";
  {
    std::ofstream file(path);
    // Some lines go over the end of what is read at once.
    for (int i = 1; i <= 40'000; ++i) {
      file << R"({"iteration": )" << i << R"(, "lm_loss": )" << i % 7 << "}\n";
      if (i == 100) file << "foreign\n\n";
    }
    file << R"({"iteration": 40001, "lm_l)";
  }
  const ReportMetrics metrics = read_metrics(path);
  EXPECT_EQ(metrics.lines, 40'000);
  EXPECT_EQ(metrics.unusable, 1);
  EXPECT_EQ(metrics.losses.front().series.most(), 6);
  std::filesystem::remove(path);
  EXPECT_THROW(read_metrics(path), InputMissingError);
}

}  // namespace
}  // namespace phalanx
