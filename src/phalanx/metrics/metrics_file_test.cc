#include "phalanx/metrics/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

IterationReport example(std::int64_t iteration) {
  IterationReport report;
  report.iteration = iteration;
  report.consumed_samples = 16 * iteration;
  report.tokens = 4096;
  report.model_flops = 3.125e10;
  report.hardware_flops = 3.90625e10;
  report.losses = {{"lm loss", 9.012345F}};
  report.learning_rate = 1e-4;
  report.grad_norm = 1.5;
  report.seconds = 0.25;
  report.data_seconds = 0.0625;
  report.message_seconds = 0.03125;
  report.saving_seconds = 2;
  report.peak_bytes = 1LL << 33;
  report.rss_bytes = 123;
  return report;
}

EvaluationReport evaluation(std::int64_t iteration) {
  EvaluationReport report;
  report.iteration = iteration;
  report.split = "valid";
  report.losses = {{"lm loss", 0}};
  return report;
}

class MetricsFileTest : public testing::Test {
 protected:
  MetricsFileTest()
      : path_(std::filesystem::temp_directory_path() /
              ("phalanx_metrics_" + std::to_string(::getpid()) + ".jsonl")) {
    std::filesystem::remove(path_);
  }
  ~MetricsFileTest() override { std::filesystem::remove(path_); }

  void put(std::string_view text) const { std::ofstream(path_) << text; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(MetricsLine, HasTheDocumentedKeysInOrder) {
  EXPECT_EQ(
      to_json_line(example(3), 2.5e11),
      R"({"iteration": 3, "consumed_samples": 48, "lm_loss": 9.012345, "learning_rate": 0.0001, )"
      R"("grad_norm": 1.5, "loss_scale": 1, "skipped": false, "elapsed_s": 0.25, )"
      R"("tokens_per_second": 16384, "model_flops_per_second": 125000000000, )"
      R"("peak_bytes": 8589934592, "rss_bytes": 123, "mfu": 0.5, "hfu": 0.625, )"
      R"("waited_for_data_s": 0.0625, "waited_for_messages_s": 0.03125, "saving_s": 2})");
  IterationReport with_files = example(3);
  with_files.file_seconds = 0.5;
  EXPECT_THAT(to_json_line(with_files, 2.5e11),
              testing::EndsWith(R"("waited_for_messages_s": 0.03125, "waited_for_files_s": 0.5, )"
                                R"("saving_s": 2})"));
  EXPECT_EQ(to_json_line(EvaluationReport{.iteration = 3,
                                          .consumed_samples = 48,
                                          .split = "valid",
                                          .place = {},
                                          .losses = {{"lm loss", 0}}}),
            R"({"iteration": 3, "consumed_samples": 48, "eval": "valid", "lm_loss": 0, "ppl": 1})");
}

TEST(MetricsLine, HasWhatWasPredicted) {
  IterationReport report = example(3);
  report.predicted_seconds = 0.5;
  EXPECT_THAT(to_json_line(report, 2.5e11),
              testing::EndsWith(R"("saving_s": 2, "predicted_s": 0.5})"));
  report.parts = {{.name = "products", .predicted = 0.25, .measured = 0.125}};
  EXPECT_THAT(to_json_line(report, 2.5e11),
              testing::EndsWith(R"("predicted_s": 0.5, "seconds/products": 0.125, )"
                                R"("predicted_seconds/products": 0.25})"));
}

TEST(MetricsLine, SaysHowBusyExpertsAre) {
  IterationReport report = example(3);
  report.expert_loads = ExpertLoads{.worst = 1.5, .mean = 1.25, .dropped = 0.125};
  EXPECT_THAT(to_json_line(report, 2.5e11),
              testing::HasSubstr(R"("lm_loss": 9.012345, "expert_load": 1.5, )"
                                 R"("expert_load_mean": 1.25, "expert_dropped": 0.125, )"
                                 R"("learning_rate")"));
  const ExpertLoads::Bias bias{.least = -0.5, .most = 0.25};
  report.expert_loads->bias = bias;
  report.expert_loads->layers = {
      {.name = "decoder.layers.3", .most_to_mean = 1.5, .dropped = 0.125, .bias = bias}};
  EXPECT_THAT(to_json_line(report, 2.5e11),
              testing::HasSubstr(R"("expert_bias_min": -0.5, "expert_bias_max": 0.25, )"
                                 R"("expert_load/decoder.layers.3": 1.5, )"
                                 R"("expert_dropped/decoder.layers.3": 0.125, )"
                                 R"("expert_bias_min/decoder.layers.3": -0.5, )"));
}

TEST(MetricsLine, LossesReadBackAsTheSameFloat) {
  auto metrics = example(1);
  for (const float loss : {9.0123453F, 0.1F, 1e-30F, 3.4e38F, 16777216.0F, 5e-45F}) {
    metrics.losses.front().value = loss;
    const auto json = nlohmann::json::parse(to_json_line(metrics, 2.5e11));
    EXPECT_EQ(json["lm_loss"].get<float>(), loss);
  }
}

TEST(MetricsLine, StaysJsonWhereANumberIsNotFinite) {
  auto metrics = example(1);
  metrics.losses.front().value = std::numeric_limits<float>::quiet_NaN();
  metrics.grad_norm = -std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(to_json_line(metrics, 2.5e11));
  EXPECT_TRUE(json["lm_loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
  const EvaluationReport evaluation{.split = "test", .place = {}, .losses = metrics.losses};
  EXPECT_TRUE(nlohmann::json::parse(to_json_line(evaluation))["ppl"].is_null());
}

TEST(MetricsLine, NamesOneOfSeveralValidationSets) {
  const EvaluationReport evaluation{
      .iteration = 3, .split = "valid", .set = "a \"b\"", .place = {}, .losses = {{"lm loss", 0}}};
  EXPECT_EQ(to_json_line(evaluation),
            R"({"iteration": 3, "consumed_samples": 0, "eval": "valid", "set": "a \"b\"", )"
            R"("lm_loss": 0, "ppl": 1})");
}

TEST(MetricsLine, HasTheScoresOfAnEvaluation) {
  const EvaluationReport evaluation{.iteration = 3,
                                    .split = "valid",
                                    .place = {},
                                    .losses = {{"lm loss", 0, "classification loss"}},
                                    .scores = {{"accuracy", 0.875}, {"f1", 0.1, "F1"}}};
  EXPECT_EQ(to_json_line(evaluation),
            R"({"iteration": 3, "consumed_samples": 0, "eval": "valid", "lm_loss": 0, )"
            R"("accuracy": 0.875, "f1": 0.1, "ppl": 1})");
}

TEST_F(MetricsFileTest, LinesAreThereAtOnce) {
  LineFile file(path());
  file.write(to_json_line(example(1), 2.5e11));
  EXPECT_EQ(read_file(path()), to_json_line(example(1), 2.5e11) + "\n");
  file.write(to_json_line(evaluation(1)));
  EXPECT_THAT(read_file(path()), testing::EndsWith("\"ppl\": 1}\n"));
}

TEST_F(MetricsFileTest, AFreshStartEmptiesTheFile) {
  put("anything\nat\nall");
  cut_metrics(path(), {.iteration = 0});
  EXPECT_EQ(read_file(path()), "");
}

TEST_F(MetricsFileTest, ResumeCutsWhatIsBeyondTheLoadedIteration) {
  {
    LineFile file(path());
    for (int i = 1; i <= 4; ++i) {
      file.write(to_json_line(example(i), 2.5e11));
      if (i % 2 == 0) file.write(to_json_line(evaluation(i)));
    }
  }
  const std::string whole = read_file(path());
  cut_metrics(path(), {.iteration = 2});
  {
    LineFile file(path());
    file.write(to_json_line(example(3), 2.5e11));
    file.write(to_json_line(example(4), 2.5e11));
    file.write(to_json_line(evaluation(4)));
  }
  EXPECT_EQ(read_file(path()), whole);
}

TEST_F(MetricsFileTest, EvaluationsThatAreMadeAgainAreCut) {
  const auto line = [](int i, const char* rest) {
    return fmt::format("{{\"iteration\": {}{}}}\n", i, rest);
  };
  const std::string evaluation = ", \"eval\": \"valid\"";
  const std::string trained = line(1, "") + line(1, evaluation.c_str()) + line(2, "");
  const std::string whole = trained + line(2, evaluation.c_str()) + line(2, evaluation.c_str());
  put(whole);
  cut_metrics(path(), {.iteration = 2});
  EXPECT_EQ(read_file(path()), whole);
  cut_metrics(path(), {.iteration = 2, .evaluates_again = true});
  EXPECT_EQ(read_file(path()), trained);
}

TEST_F(MetricsFileTest, ResumeCutsATornLastLine) {
  for (const std::string tail : {"{\"iteration\": 2", "{\"iteration\": 2\n", "\n", "{}\n"}) {
    put("{\"iteration\": 1}\n" + tail);
    cut_metrics(path(), {.iteration = 5});
    EXPECT_EQ(read_file(path()), "{\"iteration\": 1}\n") << tail;
  }
  put("{\"iteration\": 1}\n" + std::string(100, '\0'));
  cut_metrics(path(), {.iteration = 5});
  EXPECT_EQ(read_file(path()), "{\"iteration\": 1}\n");
}

TEST_F(MetricsFileTest, ResumeNamesALineThatIsNoMetrics) {
  for (const std::string line : {"[1]", "{\"iteration\": 1.5}", "{\"lm_loss\": 1}", "loss 3", ""}) {
    const std::string text = "{\"iteration\": 1}\n" + line + "\n{\"iteration\": 2}\n";
    put(text);
    EXPECT_THAT(error_of<DataError>([&] { cut_metrics(path(), {.iteration = 2}); }),
                testing::StartsWith(path().string() + ":2: "))
        << line;
    EXPECT_EQ(read_file(path()), text) << "a refused file is left as it was";
  }
}

TEST_F(MetricsFileTest, ResumeWithoutAFileStartsOne) {
  cut_metrics(path(), {.iteration = 7});
  LineFile file(path());
  file.write(to_json_line(example(8), 2.5e11));
  EXPECT_EQ(read_file(path()), to_json_line(example(8), 2.5e11) + "\n");
}

TEST_F(MetricsFileTest, WhatWillBeCutCanBeAskedBefore) {
  const std::string kept = "{\"iteration\": 1}\n";
  const std::string cut = "{\"iteration\": 2}\n{\"iteration\": 2, \"eval\": \"valid\"}\n{\"itera";
  put(kept + cut);
  EXPECT_EQ(metrics_after(path(), {.iteration = 1}), cut);
  EXPECT_EQ(metrics_after(path(), {.iteration = 0}), kept + cut);
  EXPECT_EQ(read_file(path()), kept + cut);
  cut_metrics(path(), {.iteration = 1});
  EXPECT_EQ(read_file(path()), kept);
  EXPECT_EQ(metrics_after(path(), {.iteration = 1}), "");
  EXPECT_EQ(metrics_after("/nonexistent/metrics.jsonl", {.iteration = 1}), "");
}

TEST_F(MetricsFileTest, NamesAPathThatCannotBeWritten) {
  EXPECT_THROW(LineFile("/nonexistent/metrics.jsonl"), OutputError);
}

}  // namespace
}  // namespace phalanx
