// Runs whose step is predicted (--cluster): what they tell of the prediction beside what they
// measured, and the device that they write (--write-device-file).

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/clock/machine.h"
#include "phalanx/train/run_sinks.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ForecastRunTest : public RunTest {
 protected:
  TrainConfig config(const std::string& save, const std::string& flags) const {
    return with_flags(RunTest::config(save), "--eval-interval 1000 --cluster h100 " + flags);
  }
  std::vector<Json> events(const std::string& save) const {
    std::vector<Json> lines;
    const std::string text = read_file(path(save) + "/events.jsonl");
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = text.find('\n', begin);
      lines.push_back(Json::parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return lines;
  }
  std::vector<std::string> texts(const std::string& save, const std::string& event) const {
    std::vector<std::string> found;
    for (const Json& line : events(save)) {
      if (line.at("event") == event) found.push_back(line.at("text"));
    }
    return found;
  }
};

TEST_F(ForecastRunTest, ShowsWhatWasPredictedBesideWhatWasMeasured) {
  const Layout layout{.tensor = 2, .data = 1, .pipeline = 2};
  train(with_layout(config("run", "--train-iters 7 --log-interval 3"), layout));
  const std::vector<Json> lines = events("run");
  const Json& prediction = lines.front().at("prediction");
  const double predicted = prediction.at("seconds");
  EXPECT_GT(predicted, 0);
  EXPECT_THAT(prediction.at("machine").get<std::string>(), HasSubstr("H100"));
  double sum = 0;
  for (const Json& part : prediction.at("parts")) sum += part.get<double>();
  EXPECT_NEAR(sum, predicted, 1e-9 * predicted);

  for (const Json& line : training_metrics("run")) {
    EXPECT_EQ(line.at("predicted_s"), predicted);
    const bool is_logged = line.at("iteration").get<int>() % 3 == 0;
    EXPECT_EQ(line.contains("seconds/products"), is_logged) << line;
    if (!is_logged) continue;
    EXPECT_GT(line.at("seconds/products"), 0);
    EXPECT_GT(line.at("seconds/attention"), 0);
    EXPECT_GT(line.at("seconds/memory"), 0);
    EXPECT_GT(line.at("seconds/tp"), 0);
    EXPECT_GT(line.at("seconds/pipeline"), 0);
    EXPECT_GT(line.at("seconds/optimizer"), 0);
    EXPECT_GT(line.at("predicted_seconds/products"), 0);
    EXPECT_FALSE(line.contains("seconds/cp"));
  }

  const Json& compared = lines.back().at("prediction");
  EXPECT_EQ(compared.at("seconds"), predicted);
  EXPECT_EQ(compared.at("steps"), 6);
  // The parts are those of all steps behind the first, and everything else is "other".
  double measured = 0;
  for (const Json& part : compared.at("parts")) measured += part.at("measured").get<double>();
  const std::vector<double> seconds = numbers("run", "elapsed_s");
  double mean = 0;
  for (std::size_t i = 1; i < seconds.size(); ++i) mean += seconds[i] / 6;
  EXPECT_NEAR(measured, mean, 1e-6 * mean);
  EXPECT_GT(compared.at("parts").at("products").at("measured"), 0);
  EXPECT_THAT(texts("run", "prediction"),
              Contains(AllOf(HasSubstr("a step was predicted to take"), HasSubstr("(median of 6, "),
                             HasSubstr("farthest off: "))));
  EXPECT_THAT(read_file(path("run") + "/report.html"),
              AllOf(HasSubstr("A step, predicted and measured"), HasSubstr("Farthest off: ")));
}

TEST_F(ForecastRunTest, WithoutTheFlagNothingIsPredicted) {
  train(RunTest::config("run"));
  EXPECT_FALSE(events("run").front().contains("prediction"));
  EXPECT_FALSE(events("run").back().contains("prediction"));
  EXPECT_FALSE(training_metrics("run").front().contains("predicted_s"));
  EXPECT_THAT(texts("run", "prediction"), IsEmpty());
}

TEST_F(ForecastRunTest, NumbersOfTheRunStayTheSame) {
  train(config("with", ""));
  train(with_flags(RunTest::config("without"), "--eval-interval 1000"));
  EXPECT_EQ(losses("with"), losses("without"));
  EXPECT_TRUE(equal("with", "without"));
}

TEST_F(ForecastRunTest, AnIterationOfAnotherBatchIsNotCompared) {
  train(config("run",
               "--train-iters 0 --train-samples 20 --lr-decay-iters 0 --lr-warmup-iters 0 "
               "--rampup-batch-size 2 2 4"));
  const std::vector<Json> lines = training_metrics("run");
  EXPECT_FALSE(lines.front().contains("predicted_s"));
  EXPECT_TRUE(lines.back().contains("predicted_s"));
}

TEST_F(ForecastRunTest, TheDeviceFilePredictsWhatTheRunMeasured) {
  const std::string file = path("device.yaml");
  train(config("run", "--train-iters 12 --write-device-file " + file));
  // Ten steps behind the first.
  std::vector<double> steps = numbers("run", "elapsed_s");
  steps.erase(steps.begin());
  steps.resize(10);
  std::ranges::sort(steps);
  const double median = (steps[4] + steps[5]) / 2;
  EXPECT_THAT(texts("run", "prediction"), Contains(HasSubstr("device.yaml is written: 10 steps")));
  const DeviceDescription device = device_of(file);
  EXPECT_EQ(device.e_bw.origin, Origin::kMeasured);
  EXPECT_THAT(device.e_bw.source,
              AllOf(HasSubstr("median of 10 steps of a run on "), HasSubstr("times of h100 x ")));

  // As a cluster of the one that was predicted.
  ClusterDescription cluster = machine_of("h100").cluster;
  cluster.device = "device.yaml";
  write_file_durably(path("cluster.yaml"), yaml_of(cluster));
  train(with_flags(config("again", "--train-iters 1 --lr-warmup-iters 0"),
                   "--cluster " + path("cluster.yaml")));
  const double predicted = events("again").front().at("prediction").at("seconds");
  EXPECT_NEAR(predicted, median, 1e-5 * median);
}

TEST_F(ForecastRunTest, AShortRunWritesNoDeviceFile) {
  const std::string file = path("device.yaml");
  train(config("run", "--train-iters 4 --write-device-file " + file));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_THAT(texts("run", "warning"),
              Contains(HasSubstr("not written, 7 more iterations were needed")));
}

TEST_F(ForecastRunTest, RefusesBeforeItTrains) {
  EXPECT_THAT(refusal(with_flags(config("run", ""), "--cluster h1000")),
              HasSubstr("h1000 is neither a file nor a shipped description (is h100 meant?)"));
  EXPECT_THAT(error_of<OutputError>([&] {
                pretrain(config("run", "--write-device-file " + path("no") + "/device.yaml"));
              }),
              HasSubstr("no/device.yaml"));
  EXPECT_FALSE(std::filesystem::exists(path("run") + "/metrics.jsonl"));
}

}  // namespace
}  // namespace phalanx
