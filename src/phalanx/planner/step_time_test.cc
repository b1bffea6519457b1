#include "phalanx/planner/step_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/planner/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

RunPlan planned_with(const std::string& flags, std::int64_t vocabulary) {
  TrainConfig config = with_flags({}, flags);
  resolve(config, false);
  return plan_run(config, vocabulary, {cpu::ProductPrecision::kFp32});
}

// In 16 bits, without a vocabulary that is padded.
std::string flags_of(const std::string& model, const std::string& batch,
                     const std::string& layout) {
  return model + " --make-vocab-size-divisible-by 1 " + batch + " " + layout;
}

const std::string kSmall =
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "
    "--max-position-embeddings 128 --bf16";

StepPrediction of_small(const std::string& batch, const std::string& layout,
                        const std::string& machine = "h100") {
  return predict_step(planned_with(flags_of(kSmall, batch, layout), 1000), machine_of(machine));
}

double part_of(const StepPrediction& step, TimePart part) {
  return step.parts.at(static_cast<std::size_t>(part));
}

TEST(StepTime, PartsAndPathAreTheWholeStep) {
  const StepPrediction step =
      of_small("--micro-batch-size 1 --global-batch-size 16",
               "--world-size 8 --tensor-model-parallel-size 2 --sequence-parallel "
               "--pipeline-model-parallel-size 2 --use-distributed-optimizer");
  EXPECT_GT(step.seconds, 0.0);
  EXPECT_LE(step.low, step.seconds);
  EXPECT_GE(step.high, step.seconds);
  EXPECT_NEAR(std::accumulate(step.parts.begin(), step.parts.end(), 0.0), step.seconds,
              1e-9 * step.seconds);
  double path = 0.0;
  for (const CriticalStep& part : step.critical_path) path += part.seconds;
  EXPECT_NEAR(path, step.seconds, 1e-9 * step.seconds);
  EXPECT_NEAR(step.tokens_per_second * step.seconds, 16 * 128, 1e-6);
  EXPECT_EQ(step.world_ranks, (std::vector<int>{0, 4}));
}

TEST(StepTime, GrowsWithWhatIsDone) {
  const std::string one = "--world-size 1";
  const double small = of_small("--micro-batch-size 2 --global-batch-size 8", one).seconds;
  EXPECT_GT(of_small("--micro-batch-size 2 --global-batch-size 16", one).seconds, 1.9 * small);
  EXPECT_GT(of_small("--micro-batch-size 2 --global-batch-size 8",
                     one + " --recompute-granularity full --recompute-method uniform")
                .seconds,
            small);
  EXPECT_GT(of_small("--micro-batch-size 2 --global-batch-size 8", one, "a100-80").seconds, small);
}

// All states pass the disk of the node once a step, whoever of its ranks has them.
TEST(StepTime, HasTheTransfersToAndFromFiles) {
  for (const char* ranks :
       {"--world-size 1", "--world-size 4", "--world-size 4 --pipeline-model-parallel-size 2"}) {
    const auto step = [&](const std::string& disk) {
      const RunPlan plan =
          planned_with(flags_of(kSmall, "--micro-batch-size 1 --global-batch-size 16",
                                std::string(ranks) + " --use-distributed-optimizer" + disk),
                       1000);
      return std::pair(predict_step(plan, machine_of("h100")),
                       plan.disk ? plan.disk->seconds : std::nullopt);
    };
    SCOPED_TRACE(ranks);
    const std::string files = " --offload-optimizer-to disk";
    const double without = step("").first.seconds;
    const auto [unknown, no_seconds] = step(files);
    EXPECT_TRUE(unknown.leaves_out_files);
    EXPECT_FALSE(no_seconds);
    EXPECT_EQ(part_of(unknown, TimePart::kDisk), 0.0);
    EXPECT_THAT(to_text(unknown), HasSubstr("without the transfers"));

    const auto [slow, slow_disk] = step(files + " --disk-bandwidth 0.5,0.25");
    EXPECT_FALSE(slow.leaves_out_files);
    EXPECT_GE(slow.seconds, *slow_disk);
    EXPECT_LT(slow.seconds, without + 1.2 * *slow_disk);
    EXPECT_GT(part_of(slow, TimePart::kDisk), 0.9 * *slow_disk);
    EXPECT_NEAR(std::accumulate(slow.parts.begin(), slow.parts.end(), 0.0), slow.seconds,
                1e-9 * slow.seconds);
    const auto fast = step(files + " --disk-bandwidth 1000,1000").first;
    EXPECT_LT(fast.seconds, 1.5 * without);
  }
}

TEST(StepTime, IsInTheJsonOfAPlan) {
  const RunPlan plan = planned_with(
      flags_of(kSmall, "--micro-batch-size 1 --global-batch-size 4", "--world-size 2"), 1000);
  const StepPrediction step = predict_step(plan, machine_of("h100"));
  const auto json = nlohmann::json::parse(to_json(plan, ListedRanks::kAll, &step)).at("time");
  EXPECT_EQ(json.at("seconds"), step.seconds);
  EXPECT_TRUE(json.at("price").is_null());
  double sum = 0.0;
  for (const char* part :
       {"products", "attention", "memory", "bubble", "optimizer", "host", "disk"}) {
    sum += json.at("breakdown").at(part).get<double>();
  }
  for (const char* part : {"tp", "cp", "ep", "pp", "dp"}) {
    sum += json.at("breakdown").at("exposed").at(part).get<double>();
  }
  EXPECT_NEAR(sum, step.seconds, 1e-9 * step.seconds);
  EXPECT_TRUE(json.at("critical_path").at(0).at("waits_for").is_null());
  EXPECT_FALSE(nlohmann::json::parse(to_json(plan)).contains("time"));
  EXPECT_THAT(to_text(step, 1e9), HasSubstr("1e+09 tokens take"));
}

// Steps that were published: tests/prediction_test.cc has more of them.
TEST(StepTime, PublishedSteps) {
  struct Row {
    const char* source;
    std::string model;
    std::string batch;
    std::string layout;
    std::int64_t vocabulary;
    const char* machine;
    const char* stack;
    double seconds;
  };
  const std::string dropout = " --hidden-dropout 0.1 --attention-dropout 0.1 --fp16";
  const std::string no_dropout = " --hidden-dropout 0 --attention-dropout 0 --bf16";
  const Row rows[] = {
      {"arXiv 2205.05198, Table 5, 22B",
       "--num-layers 48 --hidden-size 6144 --num-attention-heads 64 --seq-length 2048 "
       "--max-position-embeddings 2048 --attention-backend unfused" +
           dropout,
       "--micro-batch-size 4 --global-batch-size 4",
       "--world-size 8 --tensor-model-parallel-size 8 --sequence-parallel "
       "--recompute-granularity selective",
       51200, "selene", "mlm22", 1.10},
      {"arXiv 2205.05198, Table 5, 175B",
       "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
       "--max-position-embeddings 2048 --attention-backend unfused" +
           dropout,
       "--micro-batch-size 1 --global-batch-size 64",
       "--world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 "
       "--num-layers-per-virtual-pipeline-stage 4 --recompute-granularity full "
       "--recompute-method uniform",
       51200, "selene", "mlm22", 18.13},
      {"NVIDIA DGX Cloud benchmarks, Llama 3.1 8B",
       "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
       "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
       "--disable-bias-linear --position-embedding-type rope "
       "--untie-embeddings-and-output-weights --seq-length 8192 --max-position-embeddings 8192" +
           no_dropout,
       "--micro-batch-size 1 --global-batch-size 128",
       "--world-size 8 --context-parallel-size 2 --use-distributed-optimizer "
       "--overlap-grad-reduce --overlap-param-gather",
       128256, "dgxh100", "nemo24", 12.91},
  };
  for (const Row& row : rows) {
    const RunPlan plan = planned_with(flags_of(row.model, row.batch, row.layout), row.vocabulary);
    const StepPrediction step =
        predict_step(plan, machine_of(row.machine), {.stack = &software_stack(row.stack)});
    EXPECT_EQ(step.stack, row.stack);
    EXPECT_NEAR(step.seconds, row.seconds, 0.03 * row.seconds) << row.source;
    EXPECT_LE(step.low, step.seconds);
    EXPECT_GE(step.high, step.seconds);
  }
}

TEST(StepTime, OfOtherSoftwareAndOfProductsOf8Bits) {
  const RunPlan plan =
      planned_with(flags_of(kSmall, "--micro-batch-size 4 --global-batch-size 16",
                            "--world-size 4 --tensor-model-parallel-size 2 --hidden-size 4096"),
                   1000);
  const PipelineTraces traces = trace_pipeline(plan);
  const Machine machine = machine_of("h100");
  const StepPrediction own = predict_step(plan, traces, machine);
  EXPECT_EQ(own.stack, "phalanx");
  EXPECT_EQ(own.seconds, predict_step(plan, machine).seconds);
  const PredictedProgram megatron = {.stack = &software_stack("mlm21")};
  const StepPrediction other = predict_step(plan, traces, machine, megatron);
  EXPECT_GT(other.seconds, own.seconds);
  EXPECT_THAT(to_text(other), HasSubstr("a step of Megatron-LM of 2021 on NVIDIA DGX H100"));
  const auto json = nlohmann::json::parse(to_json(other));
  EXPECT_EQ(json.at("stack"), "mlm21");
  const auto products = [](const StepPrediction& step) {
    return step.parts[static_cast<std::size_t>(TimePart::kProducts)];
  };
  const StepPrediction in_8_bits =
      predict_step(plan, traces, machine, {.products_type = ProductType::kFP8});
  EXPECT_LT(products(in_8_bits), products(own));
  EXPECT_EQ(predict_step(plan, traces, machine, {.with_range = false}).low, own.seconds);
}

TEST(StepTime, WhatIsNotPredictedIsRefused) {
  const RunPlan plan = planned_with(
      flags_of(kSmall, "--micro-batch-size 1 --global-batch-size 1", "--world-size 1"), 1000);
  Machine machine = machine_of("h100");
  machine.device.product(ProductType::kBF16) = {};
  try {
    predict_step(plan, machine);
    ADD_FAILURE() << "predicted without a peak";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bf16"));
  }
}

}  // namespace
}  // namespace phalanx
