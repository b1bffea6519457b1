#include "phalanx/planner/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/ops/driver_memory.h"
#include "phalanx/rules/resolve.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLayers = 4, kHidden = 64, kPositions = 32, kVocabulary = 1000;

TrainConfig config(std::int64_t world, std::int64_t tensor) {
  TrainConfig c;
  c.model.num_layers = kLayers;
  c.model.hidden_size = kHidden;
  c.model.num_attention_heads = 8;
  c.model.max_position_embeddings = kPositions;
  c.data.seq_length = kPositions;
  set_flags(c, "--micro-batch-size 2 --threads-per-rank 1");
  c.layout.world_size = world;
  c.layout.tensor_model_parallel_size = tensor;
  return c;
}

RunPlan plan(TrainConfig c, std::int64_t vocabulary = kVocabulary,
             const DeviceChoice& kernels = {}) {
  resolve(c, false);
  return plan_run(c, vocabulary, kernels);
}

Json json_of(const RunPlan& found, ListedRanks listed = ListedRanks::kAsManyAsReadable) {
  const std::string text = to_json(found, listed);
  EXPECT_EQ(text.back(), '\n');
  return Json::parse(text);
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

// "group op": {count, bytes}.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> messages(const Json& rank) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> found;
  for (const Json& message : rank.at("messages")) {
    EXPECT_EQ(keys(message), (std::vector<std::string>{"group", "op", "count", "bytes"}));
    found[message.at("group").get<std::string>() + " " + message.at("op").get<std::string>()] = {
        message.at("count"), message.at("bytes")};
  }
  return found;
}

// A plan for a named target is the plan of a machine that computes with it, and no other target's.
TEST(Plan, OfANamedTargetIsThatOfItsMachine) {
  TrainConfig c = with_flags(config(1, 1), "--hidden-size 768");
  std::set<std::int64_t> workspaces;
  for (const cpu::Target target : cpu::targets_of_build()) {
    const auto named = [&](const cpu::Caches& caches) {
      return plan(c, kVocabulary, {.processor = {.target = target, .caches = caches}});
    };
    const RunPlan usual = named(cpu::usual_processor(target).caches);
    EXPECT_EQ(json_of(usual).at("cpu_target"), cpu::name_of(target));
    workspaces.insert(usual.groups[0].memory.bytes["workspace"]);
    if (target > cpu::best_target()) continue;
    const std::string with_these_caches = to_json(named(cpu::caches_of_machine()));
    const cpu::ForcedTarget forced(target);
    EXPECT_EQ(to_json(plan(c)), with_these_caches) << cpu::name_of(target);
  }
  EXPECT_GT(workspaces.size(), 1U);
}

TEST(Plan, DocumentListsEveryRankOfASmallWorld) {
  TrainConfig c = with_flags(config(8, 2), "--use-distributed-optimizer");
  const Json document = json_of(plan(c));
  EXPECT_EQ(keys(document), (std::vector<std::string>{"model", "flops_per_step", "batch_sizes",
                                                      "cpu_target", "save", "ranks"}));
  const Json& ranks = document.at("ranks");
  ASSERT_EQ(ranks.size(), 8U);
  for (int number = 0; number < 8; ++number) {
    const Json& rank = ranks.at(static_cast<std::size_t>(number));
    EXPECT_EQ(keys(rank), (std::vector<std::string>{"rank", "coordinates", "parameters", "bytes",
                                                    "microbatches_in_flight", "stages", "messages",
                                                    "file_bytes", "transfers", "largest_program"}));
    EXPECT_EQ(rank.at("rank"), number);
    EXPECT_EQ(rank.at("coordinates"),
              Json({{"tp", number % 2}, {"cp", 0}, {"dp", number / 2}, {"pp", 0}}));
    const Json& bytes = rank.at("bytes");
    EXPECT_EQ(keys(bytes),
              (std::vector<std::string>{"parameters", "main_parameters", "gradients", "optimizer",
                                        "saved", "saved_per_microbatch", "lent", "workspace",
                                        "communication", "constants", "staging", "answers",
                                        "snapshot", "total", "library_bound", "snapshot_bytes"}));
    std::int64_t total = 0;
    for (const char* part :
         {"parameters", "main_parameters", "gradients", "optimizer", "saved", "workspace",
          "communication", "constants", "staging", "answers", "snapshot"}) {
      total += bytes.at(part).get<std::int64_t>();
    }
    EXPECT_EQ(bytes.at("total"), total);
    EXPECT_EQ(bytes, ranks.at(0).at("bytes"));  // so one rank's peak is the largest
    EXPECT_EQ(rank.at("microbatches_in_flight").size(), 1U);
  }
  EXPECT_EQ(
      document.at("model").at("parameters"),
      kLayers * (12 * kHidden * kHidden + 13 * kHidden) + (kVocabulary + kPositions + 2) * kHidden);
}

TEST(Plan, LargeWorldsNameTheSame) {
  const RunPlan found = plan(config(128, 4));
  const Json document = json_of(found);
  ASSERT_EQ(document.at("ranks").size(), 4U);
  std::vector<bool> seen(128, false);
  for (const Json& rank : document.at("ranks")) {
    std::vector<int> numbers = rank.at("same_as").get<std::vector<int>>();
    EXPECT_EQ(numbers.size(), 31U);
    numbers.push_back(rank.at("rank").get<int>());
    for (const int number : numbers) {
      EXPECT_EQ(number % 4, rank.at("coordinates").at("tp"));
      EXPECT_FALSE(seen[static_cast<std::size_t>(number)]);
      seen[static_cast<std::size_t>(number)] = true;
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 128);
  const Json all = json_of(found, ListedRanks::kAll);
  ASSERT_EQ(all.at("ranks").size(), 128U);
  for (const Json& rank : all.at("ranks")) EXPECT_FALSE(rank.contains("same_as"));
  EXPECT_EQ(all.at("ranks").at(101).at("bytes"), document.at("ranks").at(1).at("bytes"));
  EXPECT_EQ(all.at("flops_per_step"), document.at("flops_per_step"));
  EXPECT_EQ(json_of(plan(config(64, 4))).at("ranks").size(), 64U);
}

// Positions, norms and row-parallel biases are on every tensor-parallel rank.
TEST(Plan, TensorParallelRanksShareTheParameters) {
  const std::int64_t replicated = kLayers * 6 * kHidden + (kPositions + 2) * kHidden;
  for (const std::int64_t tensor : {1, 2, 4, 8}) {
    const Json document = json_of(plan(config(tensor, tensor)));
    std::int64_t sum = 0;
    for (const Json& rank : document.at("ranks")) {
      sum += rank.at("parameters").get<std::int64_t>();
      EXPECT_GE(rank.at("bytes").at("parameters").get<std::int64_t>(),
                4 * rank.at("parameters").get<std::int64_t>());
    }
    EXPECT_EQ(
        sum, document.at("model").at("parameters").get<std::int64_t>() + (tensor - 1) * replicated);
  }
}

TEST(Plan, ShardsShareTheOptimizer) {
  TrainConfig c = with_flags(config(8, 1), "--bf16");
  const Json whole = json_of(plan(c)).at("ranks").at(3).at("bytes");
  c.layout.use_distributed_optimizer = true;
  const Json part = json_of(plan(c)).at("ranks").at(3).at("bytes");
  for (const char* shared : {"optimizer", "main_parameters"}) {
    const auto before = whole.at(shared).get<double>();
    EXPECT_GE(part.at(shared).get<double>(), before / 8) << shared;
    EXPECT_LE(part.at(shared).get<double>(), before / 8 + 64e3) << shared;  // whole blocks
  }
  EXPECT_EQ(part.at("saved"), whole.at("saved"));
}

// Of a step with two microbatches: what each layer sends, and the gradients once.
TEST(Plan, CountsTheMessagesOfAStep) {
  TrainConfig c = with_flags(config(4, 2), "--global-batch-size 8");
  const auto plain = messages(json_of(plan(c)).at("ranks").at(0));
  ASSERT_TRUE(plain.contains("tp all_reduce"));
  ASSERT_TRUE(plain.contains("dp all_reduce"));
  EXPECT_FALSE(plain.contains("tp reduce_scatter"));
  // Two in forward and two in backward of every layer, and the embedding's: all of one stream.
  const std::int64_t stream = kPositions * 2 * kHidden * 4;
  EXPECT_GE(plain.at("tp all_reduce").first, 2 * (4 * kLayers + 1));
  EXPECT_GE(plain.at("tp all_reduce").second, 2 * (4 * kLayers + 1) * stream);
  EXPECT_LE(plain.at("tp all_reduce").second, 2 * (4 * kLayers + 3) * stream);

  set_flags(c, "--sequence-parallel --use-distributed-optimizer");
  const Json rank = json_of(plan(c)).at("ranks").at(0);
  const auto sharded = messages(rank);
  EXPECT_TRUE(sharded.contains("tp all_gather"));
  EXPECT_TRUE(sharded.contains("tp reduce_scatter"));
  ASSERT_TRUE(sharded.contains("dp reduce_scatter"));
  ASSERT_TRUE(sharded.contains("dp all_gather"));
  // All gradients of the flat buffer, and this rank's half of the parameters.
  const auto parameters = rank.at("bytes").at("parameters").get<std::int64_t>();
  EXPECT_EQ(sharded.at("dp reduce_scatter").first, 1);
  EXPECT_EQ(sharded.at("dp reduce_scatter").second, parameters);
  EXPECT_EQ(sharded.at("dp all_gather").second, parameters / 2);

  EXPECT_TRUE(messages(json_of(plan(config(1, 1))).at("ranks").at(0)).empty());
}

// Of a run whose batch changes: the most of all programs, and which that is.
// By rank: two chunks in a V, so that the first has both ends.
TEST(Plan, SaysWhatEveryStageHas) {
  TrainConfig c =
      with_flags(config(2, 1), "--pipeline-model-parallel-size 2 --pipeline-schedule zb-v");
  const RunPlan found = plan(c);
  const Json document = json_of(found);
  EXPECT_EQ(document.at("model").at("family"), "gpt");
  EXPECT_EQ(document.at("model").at("losses").dump(), R"(["lm loss"])");
  EXPECT_FALSE(document.at("model").contains("decoder_layers"));
  EXPECT_EQ(document.at("ranks").at(0).at("stages").dump(),
            R"([{"stage":0,"first_layer":0,"layers":1,"holds":"embedding, layer 0"},)"
            R"({"stage":3,"first_layer":3,"layers":1,"holds":"layer 3, head"}])");
  EXPECT_NE(to_text(found).find("embedding, layer 0; layer 3, head\n"), std::string::npos)
      << to_text(found);
  EXPECT_NE(to_text(found).find("GPT: 4 layers, hidden 64"), std::string::npos);
}

TEST(Plan, SaysWhichProgramIsTheLargest) {
  TrainConfig c =
      with_flags(config(4, 1), "--pipeline-model-parallel-size 4 --global-batch-size 16");
  const Json constant = json_of(plan(c));
  EXPECT_EQ(constant.at("batch_sizes"),
            Json::parse(R"([{"samples": 0, "global_batch_size": 16}])"));
  c.layout.rampup_batch_size = {"2", "2", "70"};
  const RunPlan found = plan(c);
  const Json document = json_of(found);
  EXPECT_EQ(document.at("batch_sizes").size(), 8U);
  EXPECT_EQ(document.at("batch_sizes").at(1),
            Json::parse(R"({"samples": 10, "global_batch_size": 4})"));
  EXPECT_EQ(document.at("flops_per_step"), constant.at("flops_per_step"));
  EXPECT_EQ(document.at("ranks"), constant.at("ranks"));
  const Json& largest = document.at("ranks").at(0).at("largest_program");
  EXPECT_EQ(keys(largest), (std::vector<std::string>{"kind", "global_batch_size", "iterations",
                                                     "microbatches", "bytes"}));
  EXPECT_EQ(largest.at("kind"), "training");
  EXPECT_EQ(largest.at("global_batch_size"), 16);
  EXPECT_EQ(largest.at("bytes"), document.at("ranks").at(0).at("bytes").at("total"));
  EXPECT_NE(to_text(found).find("begins with 2 samples and changes 7 times"), std::string::npos)
      << to_text(found);
  EXPECT_NE(to_text(found).find("the most of 9 programs: that of 8 microbatches"),
            std::string::npos)
      << to_text(found);
}

// GPT-3 (175 billion parameters) on 1,024 ranks; 96 (12 h^2 + 13 h) + (51,200 + 2,048 + 2) h.
TEST(Plan, LargeModelsOnManyRanks) {
  TrainConfig c = with_flags(
      {},
      "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --max-position-embeddings 2048 "
      "--seq-length 2048 --micro-batch-size 1 --global-batch-size 1536 --threads-per-rank 1 "
      "--world-size 1024 --tensor-model-parallel-size 8 --sequence-parallel --bf16 "
      "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
      "--recompute-granularity selective --attention-backend unfused");
  const RunPlan found = plan(c, 51200);
  const Json document = json_of(found);
  constexpr std::int64_t kParameters = 174615846912;
  EXPECT_EQ(document.at("model").at("parameters"), kParameters);
  EXPECT_GT(document.at("flops_per_step").get<double>(), 6.0 * 174e9 * 1536 * 2048);
  ASSERT_EQ(document.at("ranks").size(), 8U);
  for (const Json& rank : document.at("ranks")) {
    EXPECT_EQ(rank.at("same_as").size(), 127U);
    const Json& bytes = rank.at("bytes");
    // 2 bytes a parameter and 4 of gradients, an eighth each; 12 of states, an eighth of 1/128.
    EXPECT_NEAR(bytes.at("parameters").get<double>(), 2.0 * kParameters / 8, 0.01 * kParameters);
    EXPECT_NEAR(bytes.at("optimizer").get<double>() + bytes.at("main_parameters").get<double>(),
                12.0 * kParameters / 1024, 0.01 * 12 * kParameters / 1024);
    // s b h (10 + 24)/t bytes a layer with selective recomputation (Korthikanti et al., 2022);
    // norm and GeLU outputs are computed again, masks are not stored.
    const double layer = 2048.0 * 12288 * 34 / 8;
    EXPECT_LE(bytes.at("saved_per_microbatch").at(0).get<double>(), 1.05 * 96 * layer);
    EXPECT_GE(bytes.at("saved_per_microbatch").at(0).get<double>(), 0.4 * 96 * layer);
  }
  const std::string text = to_text(found);
  EXPECT_NE(text.find("1024 ranks: tensor parallel 8 with sequence parallelism, data parallel 128"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("reduce_scatter"), std::string::npos) << text;
}

TEST(Plan, NamesTheRanksThatShareSamples) {
  TrainConfig c = config(8, 2);
  c.layout.context_parallel_size = 2;
  EXPECT_NE(to_text(plan(c)).find(
                "8 ranks: tensor parallel 2, context parallel 2 (p2p), data parallel 2\n"),
            std::string::npos)
      << to_text(plan(c));
}

// Every element of the moments, 4 bytes each, is read and written once a step.
TEST(Plan, SaysWhatAStepTakesOfTheDisk) {
  TrainConfig c = config(2, 1);
  EXPECT_FALSE(plan(c).disk);
  EXPECT_FALSE(json_of(plan(c)).contains("disk"));
  c.layout.offload_optimizer_to = "disk";
  const RunPlan unknown = plan(c);
  ASSERT_TRUE(unknown.disk);
  const std::int64_t bytes = 2 * 2 * 4 * unknown.model_parameters;  // ranks, moments
  const std::int64_t padding = unknown.disk->traffic.read - bytes;
  EXPECT_GE(padding, 0);
  EXPECT_LT(padding, bytes / 4);
  EXPECT_EQ(unknown.disk->traffic.written, unknown.disk->traffic.read);
  EXPECT_FALSE(unknown.disk->seconds);
  const Json disk = json_of(unknown).at("disk");
  EXPECT_EQ(keys(disk), (std::vector<std::string>{"read_bytes", "write_bytes"}));
  EXPECT_EQ(disk.at("read_bytes"), unknown.disk->traffic.read);
  EXPECT_EQ(to_text(unknown).find(" GB/s"), std::string::npos);

  c.layout.disk_bandwidth = "0.5,0.25";
  const RunPlan known = plan(c);
  EXPECT_DOUBLE_EQ(known.disk->seconds.value(),
                   static_cast<double>(known.disk->traffic.read) * (2e-9 + 4e-9));
  EXPECT_EQ(json_of(known).at("disk").at("seconds"), *known.disk->seconds);
  EXPECT_NE(to_text(known).find("\ndisk: a step of all ranks of a host (2) reads "),
            std::string::npos);
  EXPECT_NE(to_text(known).find(" at 0.5 and 0.25 GB/s\n"), std::string::npos);
}

// Weights, main parameters and two moments: 2 + 4 + 8 bytes of each parameter, in parts without the
// first.
TEST(Plan, OfANamedDeviceIsOfItsKernels) {
  TrainConfig c = config(1, 1);
  set_flags(c, "--bf16 --device cuda-emulated");
  DeviceChoice emulated;
  emulated.cuda = cuda_place("cuda-emulated", 0);
  const MemoryPlan expected = plan(c, kVocabulary, emulated).groups.front().memory;
  set_flags(c, "--device cuda:h100-80g");
  DeviceChoice named;
  named.named = named_device("cuda:h100-80g");
  const RunPlan found = plan(c, kVocabulary, named);
  MemoryBytes bytes = found.groups.front().memory.bytes;
  // What cuBLASLt takes.
  constexpr MemoryRow kWorkspace("workspace");
  EXPECT_GT(bytes[kWorkspace], expected.bytes[kWorkspace]);
  EXPECT_LT(bytes[kWorkspace], expected.bytes[kWorkspace] + (std::int64_t{32} << 20));
  bytes[kWorkspace] = expected.bytes[kWorkspace];
  EXPECT_EQ(bytes, expected.bytes);
}

TEST(Plan, SaysWhetherRanksFitOnNamedDevices) {
  const auto plan_on = [](const char* device, const std::string& flags) {
    TrainConfig c = config(8, 2);
    set_flags(c, flags + " --pipeline-model-parallel-size 2 --device " + device);
    DeviceChoice kernels;
    kernels.named = named_device(device);
    return plan(c, kVocabulary, kernels);
  };
  const RunPlan small = plan_on("cuda:rtx4090-24g", "--bf16");
  EXPECT_NE(to_text(small).find("device: NVIDIA GeForce RTX 4090 of compute capability 8.9 has "
                                "22.4 GiB; rank 4 needs "),
            std::string::npos)
      << to_text(small);
  EXPECT_NE(to_text(small).find("it fits, with "), std::string::npos);
  Json device = json_of(small).at("device");
  EXPECT_EQ(keys(device), (std::vector<std::string>{"name", "memory_bytes", "rank", "needed_bytes",
                                                    "library_bound", "fits"}));
  EXPECT_EQ(device.at("fits"), true);
  EXPECT_NE(to_text(small).find("its driver and libraries an estimated 768 MiB"),
            std::string::npos);
  EXPECT_FALSE(json_of(small).contains("cpu_target"));
  EXPECT_FALSE(messages(json_of(small).at("ranks")[0]).empty());

  const RunPlan large =
      plan_on("cuda:rtx4090-24g", "--bf16 --hidden-size 32768 --num-attention-heads 256");
  EXPECT_NE(to_text(large).find("it does not fit, "), std::string::npos) << to_text(large);
  device = json_of(large).at("device");
  EXPECT_EQ(device.at("fits"), false);
  EXPECT_GT(device.at("needed_bytes"), device.at("memory_bytes"));
}

// Between a device that has the arenas alone and one that has the driver, too.
TEST(Plan, CountsTheDriverOfADevice) {
  TrainConfig c = config(1, 1);
  set_flags(c, "--bf16 --device cuda:h100-80g");
  DeviceChoice kernels;
  kernels.named = named_device("cuda:h100-80g");
  const RunPlan usual = plan(c, kVocabulary, kernels);
  NamedDevice device = *kernels.named;
  kernels.named = &device;
  const std::int64_t needed = json_of(usual).at("device").at("needed_bytes");
  device.memory_bytes = needed + kDriverBytesOfDevice;
  EXPECT_EQ(json_of(plan(c, kVocabulary, kernels)).at("device").at("fits"), true);
  EXPECT_NE(to_text(plan(c, kVocabulary, kernels)).find("it fits, with 0 B"), std::string::npos);
  --device.memory_bytes;
  EXPECT_EQ(json_of(plan(c, kVocabulary, kernels)).at("device").at("fits"), false);
  EXPECT_NE(to_text(plan(c, kVocabulary, kernels)).find("it does not fit, 1 B"), std::string::npos);

  // Of the host such a rank takes more than one that computes there.
  set_flags(c, "--device cpu");
  const RunPlan host = plan(c);
  EXPECT_EQ(usual.groups.front().memory.library_bound,
            host.groups.front().memory.library_bound + kDriverBytesOfHost + kPinnedBytes);
}

TEST(Plan, SaysWhatACheckpointTakes) {
  TrainConfig c = with_flags(config(4, 2), "--bf16 --use-distributed-optimizer");
  const RunPlan whole = plan(c);
  EXPECT_EQ(whole.save.bytes, 14 * whole.model_parameters);
  EXPECT_EQ(whole.save.largest_part, whole.save.bytes);
  EXPECT_EQ(whole.save.host_bytes, whole.save.bytes);
  EXPECT_FALSE(whole.save.seconds);
  EXPECT_NE(
      to_text(whole).find("a checkpoint: " + format_bytes(whole.save.bytes) + ", all by rank 0\n"),
      std::string::npos)
      << to_text(whole);

  set_flags(c, "--ckpt-fully-parallel-save --disk-bandwidth 2,0.5");
  const RunPlan parts = plan(c);
  EXPECT_EQ(parts.save.bytes, 12 * parts.model_parameters);
  // A few parameters are on both tensor-parallel ranks.
  EXPECT_GE(parts.save.largest_part, parts.save.bytes / 4);
  EXPECT_LT(parts.save.largest_part, parts.save.bytes * 26 / 100);
  EXPECT_EQ(parts.save.host_bytes, parts.save.bytes);
  EXPECT_DOUBLE_EQ(parts.save.seconds.value(), static_cast<double>(parts.save.bytes) / 0.5e9);
  const Json save = json_of(parts).at("save");
  EXPECT_EQ(keys(save),
            (std::vector<std::string>{"bytes", "largest_part", "host_bytes", "seconds"}));
  EXPECT_NE(to_text(parts).find(" at 0.5 GB/s\n"), std::string::npos);

  set_flags(c, "--no-save-optim");
  EXPECT_EQ(plan(c).save.bytes, 2 * whole.model_parameters);
}

// Counts how often a chunk of the model is built.
class CountedModel final : public Model {
 public:
  CountedModel(std::shared_ptr<const Model> model, std::atomic<int>& built)
      : model_(std::move(model)), built_(built) {}
  std::unique_ptr<const Model> placed(const ModelPlace& place) const override {
    return std::make_unique<CountedModel>(model_->placed(place), built_);
  }
  const nn::TransformerConfig& transformer() const override { return model_->transformer(); }
  VocabularySize vocabulary() const override { return model_->vocabulary(); }
  BatchSchema batch_schema() const override { return model_->batch_schema(); }
  std::vector<LossSpec> losses() const override { return model_->losses(); }
  StageRange whole() const override { return model_->whole(); }
  Chunk build_chunk(const StageRange& range, nn::ParamTable& table) const override {
    ++built_;
    return model_->build_chunk(range, table);
  }
  std::int64_t tokens_per_sample() const override { return model_->tokens_per_sample(); }
  double flops_per_sample() const override { return model_->flops_per_sample(); }

 private:
  std::shared_ptr<const Model> model_;
  std::atomic<int>& built_;
};

TrainConfig config_of_stages(int stages) {
  TrainConfig c = config(stages, 1);
  c.model.num_layers = stages;
  c.layout.pipeline_model_parallel_size = stages;
  resolve(c, false);
  return c;
}

// What all ranks of a pipeline have in common is made once by each thread: twice as many stages are
// twice the work.
TEST(Plan, TheWholeModelIsBuiltOnceForAllStages) {
  constexpr int kStages = 16;
  const TrainConfig c = config_of_stages(kStages);
  std::atomic<int> built = 0;
  plan_ranks(c, CountedModel(make_model(c, kVocabulary), built), step_programs(c), {});
  EXPECT_GE(built, kStages);
  EXPECT_LE(built, 3 * kStages);
}

// For each of them a transport needs memory; the world, for one, only adds a few numbers.
TEST(Plan, KnowsTheGroupsThatSum) {
  TrainConfig c = config(8, 2);  // two tensor-parallel ranks, four data-parallel
  resolve(c, false);
  MemoryPlan plan = plan_memory(c, *make_model(c, kVocabulary), step_programs(c), 0, {});
  std::ranges::sort(plan.summing);
  EXPECT_EQ(plan.summing, (std::vector{2, 4}));
}

TEST(Plan, RanksThatThreadsPlanAreThoseThatArePlannedAlone) {
  constexpr int kStages = 24;
  const TrainConfig c = config_of_stages(kStages);
  const auto model = make_model(c, kVocabulary);
  const StepPrograms programs = step_programs(c);
  const std::vector<RankPlan> together = plan_ranks(c, *model, programs, {});
  ASSERT_EQ(together.size(), kStages);
  for (int rank = 0; rank < kStages; ++rank) {
    const RankPlan& plan = together[static_cast<std::size_t>(rank)];
    EXPECT_EQ(plan.ranks, std::vector{rank});
    EXPECT_EQ(plan.memory, plan_memory(c, *model, programs, rank, {})) << "rank " << rank;
  }
}

}  // namespace
}  // namespace phalanx
