#include "phalanx/start/run_data.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RunDataTest : public RunTest {
 protected:
  RunDataTest() {
    write_dataset("other", -1);
    write_dataset("more", -1);
  }
  TrainConfig blended(const std::string& save = "") const {
    TrainConfig c = config(save);
    c.data.data_path = {"2", path("data"), "1", path("other")};
    return c;
  }
  // Of a resolved configuration.
  static RunData data_of(TrainConfig& c, const SampleCounts& counts) {
    resolve(c, true);
    return RunData(c, *make_tokenizer(c.tokenizer), counts);
  }
  // The sample numbers and tokens of one global batch, from all ranks.
  static std::map<std::int64_t, std::vector<std::int32_t>> batch_of(const RunData& data,
                                                                    const TrainConfig& c,
                                                                    std::int64_t consumed) {
    std::map<std::int64_t, std::vector<std::int32_t>> samples;
    const auto ranks = static_cast<int>(data_parallel_size(c.layout));
    for (int rank = 0; rank < ranks; ++rank) {
      RunData::Stream stream(data, SplitKind::kTrain, consumed, {.data = rank});
      const BatchSource source = stream.source();
      for (std::int64_t m = 0; m < num_microbatches(c.layout, c.layout.global_batch_size); ++m) {
        const HostBatch& batch = source(static_cast<int>(m));
        const auto tokens = batch.column<std::int32_t>("tokens");
        const auto numbers = batch.column<std::int64_t>("sample");
        for (std::size_t row = 0; row < tokens.size(); ++row) {
          samples[numbers[row]].push_back(tokens[row]);
        }
      }
    }
    return samples;
  }
};

// The content of a global batch does not depend on the layout.
TEST_F(RunDataTest, AnotherLayoutGoesOnWithTheNextSample) {
  TrainConfig c = blended();
  const RunData one = data_of(c, {.train = 24});
  TrainConfig two = with_flags(blended(), "--world-size 2 --micro-batch-size 1");
  const RunData other = data_of(two, {.train = 24});
  for (const std::int64_t consumed : {0, 4, 20}) {
    const auto samples = batch_of(one, c, consumed);
    EXPECT_EQ(samples.size(), 4U);
    EXPECT_EQ(samples.begin()->first, consumed);
    EXPECT_EQ(samples, batch_of(other, two, consumed));
  }
}

TEST_F(RunDataTest, ABlendedRunGoesOnBitByBit) { expect_resume_is_bitwise(blended("run")); }

TEST_F(RunDataTest, ACyclicRunGoesOnBitByBit) {
  TrainConfig c = config("run");
  c.data.data_path = {path("data"), path("other")};
  set_flags(c, "--dataloader-type cyclic --train-iters 6");
  expect_resume_is_bitwise(c);
}

TEST_F(RunDataTest, DatasetsWithoutWeightsAreReadOnce) {
  TrainConfig c = config("");
  c.data.data_path = {path("data"), path("other")};
  const RunData data = data_of(c, {.train = 100000});
  EXPECT_THAT(error_of<ConfigError>([&] { data.check_suffices({.train = 100000}); }),
              AllOf(HasSubstr("100000 training samples"), HasSubstr("WEIGHT PREFIX")));
  TrainConfig cyclic = config("");
  cyclic.data.data_path = c.data.data_path;
  cyclic.data.dataloader_type = "cyclic";
  data_of(cyclic, {.train = 100000}).check_suffices({.train = 100000});
}

// All sets with their names, evaluated at the same iterations with the same number of samples.
TEST_F(RunDataTest, SeveralValidationSetsAreEvaluatedByThemselves) {
  TrainConfig c = with_flags(
      config("run"), "--data-path --multiple-validation-sets --train-iters 2 --lr-warmup-iters 0");
  c.data.train_data_path = {path("data")};
  c.data.valid_data_path = {path("other"), path("more")};
  train(c);
  std::vector<std::pair<int, std::string>> lines;
  std::vector<double> values;
  for (const Json& line : metrics("run")) {
    if (!line.contains("eval")) continue;
    lines.emplace_back(line.at("iteration").get<int>(), line.at("set").get<std::string>());
    values.push_back(line.at("lm_loss").get<double>());
  }
  using Line = std::pair<int, std::string>;
  EXPECT_THAT(lines,
              ElementsAre(Line{2, "other"}, Line{2, "more"}, Line{2, "other"}, Line{2, "more"}));
  // The files are the same, so the losses are.
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[2], values[3]);
  EXPECT_NE(values[0], values[2]);  // the next samples
  EXPECT_EQ(CheckpointReader::open(path("run")).manifest().consumed_valid_samples, 4);
}

// The same samples every time, with any batch: the last batch is padded.
TEST_F(RunDataTest, FullValidationReadsEverySampleOnce) {
  std::vector<double> values;
  for (const std::int64_t batch : {4, 16}) {
    TrainConfig c = with_flags(config("run"), "--full-validation");
    c.layout.global_batch_size = batch;
    c.optimizer.lr = 1e-30;  // the weights stay
    set_flags(c, "--min-lr 0 --lr-warmup-iters 0 --train-iters 2");
    train(c);
    for (const Json& line : metrics("run")) {
      if (line.contains("eval") && line.at("eval") == "valid") {
        values.push_back(line.at("lm_loss").get<double>());
      }
    }
  }
  ASSERT_EQ(values.size(), 4U);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[2], values[3]);
  EXPECT_NEAR(values[0], values[2], 1e-6 * values[0]);
}

TEST_F(RunDataTest, TheOrderOfARunIsKept) {
  TrainConfig c = with_flags(blended(), "--dataloader-type cyclic");
  resolve(c, true);
  const auto inputs_of = [&](const auto& change) {
    TrainConfig changed = c;
    change(changed);
    return run_inputs(changed);
  };
  const RunInputs inputs = run_inputs(c);
  ASSERT_EQ(inputs.files.size(), 4U);
  Manifest manifest;
  manifest.input_files = inputs.files;
  manifest.arguments = inputs.arguments;
  check_inputs(inputs, manifest, c.run);

  const RunInputs weights = inputs_of([](TrainConfig& r) { r.data.data_path[0] = "3"; });
  EXPECT_THAT(error_of<ConfigError>([&] { check_inputs(weights, manifest, c.run); }),
              AllOf(HasSubstr("--data-path 3 1"), HasSubstr("--data-path 2 1")));
  const RunInputs fewer = inputs_of([&](TrainConfig& r) { r.data.data_path = {path("data")}; });
  EXPECT_THAT(error_of<ConfigError>([&] { check_inputs(fewer, manifest, c.run); }),
              HasSubstr("2 1"));
  const RunInputs sizes = inputs_of([](TrainConfig& r) { r.layout.micro_batch_size = 4; });
  EXPECT_THAT(error_of<ConfigError>([&] { check_inputs(sizes, manifest, c.run); }),
              AllOf(HasSubstr("micro batch 4 x 1"), HasSubstr("micro batch 2 x 1")));
  RunConfig allowed = c.run;
  allowed.allow_changed = {"data-path", "dataloader-type"};
  for (const RunInputs& other : {weights, fewer, sizes}) check_inputs(other, manifest, allowed);
  const RunInputs rows = inputs_of([](TrainConfig& r) {
    r.layout.world_size = r.layout.context_parallel_size = 2;
    r.layout.context_parallel_cut = "documents";
  });
  EXPECT_THAT(error_of<ConfigError>([&] { check_inputs(rows, manifest, c.run); }),
              AllOf(HasSubstr("a multiple of 4 rows"), HasSubstr("multiples of 1"),
                    HasSubstr("--allow-changed context-parallel-cut")));
  allowed.allow_changed = {"context-parallel-cut"};
  check_inputs(rows, manifest, allowed);
  RunConfig finetune = c.run;
  finetune.finetune = true;
  check_inputs(weights, manifest, finetune);

  // The words may stand in a file.
  std::ofstream(path("words")) << "2 " << path("data") << "\n1 " << path("other") << "\n";
  check_inputs(inputs_of([&](TrainConfig& r) {
                 r.data.data_path.clear();
                 r.data.data_args_path = path("words");
               }),
               manifest, c.run);
  // The second dataset of the flag is another file.
  write_dataset("more", 3);
  std::ofstream(path("more.bin"), std::ios::app | std::ios::binary) << "xx";
  EXPECT_THAT(error_of<ConfigError>([&] {
                check_inputs(inputs_of([&](TrainConfig& r) { r.data.data_path[3] = path("more"); }),
                             manifest, c.run);
              }),
              AllOf(HasSubstr("more.bin"), HasSubstr("other.bin")));
  // A checkpoint that says nothing of a blend was made with one dataset.
  manifest.arguments.clear();
  EXPECT_THAT(error_of<ConfigError>([&] { check_inputs(inputs, manifest, c.run); }),
              HasSubstr("was made with --data-path:"));
}

TEST_F(RunDataTest, DataComesFromOnePlace) {
  const auto fault = [&](const auto& change) {
    TrainConfig c = config("");
    change(c.data);
    return error_of<ConfigError>([&] { resolve(c, true); });
  };
  EXPECT_THAT(fault([](DataConfig& d) { d.mock_data = true; }),
              AllOf(HasSubstr("--data-path and --mock-data"), HasSubstr("one of them")));
  EXPECT_THAT(fault([](DataConfig& d) {
                d.data_path.clear();
                d.valid_data_path = {"v"};
              }),
              HasSubstr("-data-path must be given"));
  EXPECT_THAT(fault([](DataConfig& d) { d.multiple_validation_sets = true; }),
              HasSubstr("--valid-data-path"));
  EXPECT_THAT(fault([](DataConfig& d) {
                d.train_data_path = std::move(d.data_path);
                d.data_path.clear();
                d.valid_data_path = {"1", "a", "2", "b"};
                d.multiple_validation_sets = true;
              }),
              HasSubstr("without weights"));
  EXPECT_THAT(fault([](DataConfig& d) { d.no_data_sharding = true; }),
              HasSubstr("--dataloader-type cyclic"));
  EXPECT_THAT(fault([](DataConfig& d) {
                d.data_path = {"1", "a", "x", "b"};
              }),
              HasSubstr("x is none"));
  TrainConfig planned = with_flags(config(""), "--data-path");
  resolve(planned, false);
}

}  // namespace
}  // namespace phalanx
