#include "phalanx/flag_table/deepspeed/deepspeed_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/flag_table/deepspeed/keys.h"
#include "phalanx/flag_table/train_flags.h"

namespace phalanx {
namespace {

using deepspeed::Fate;
using deepspeed::Key;
using deepspeed::Kind;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class DeepspeedConfigTest : public testing::Test {
 protected:
  // A call with a file, as `phalanx pretrain gpt` reads it before the configuration is resolved.
  struct Call {
    std::string error;  // with its exit status
    std::string notes;
    std::string yaml;
    TrainConfig config;
    std::map<std::string, std::string> given;  // flags that the file set, with their values
  };

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = directory_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  Call call(const std::string& json, const std::vector<std::string>& words = {},
            std::int64_t ranks = 1) const {
    Call result;
    TrainConfig& config = result.config;
    config.layout.world_size = ranks;
    FlagSet flags("phalanx pretrain gpt", "");
    add_train_flags(flags, config);
    flags.add_yaml();
    add_deepspeed_config(flags, config);
    flags.plan_only();
    const std::string path = write("ds.json", json);
    std::vector<std::string> all = {"--num-layers",
                                    "2",
                                    "--hidden-size",
                                    "8",
                                    "--num-attention-heads",
                                    "2",
                                    "--seq-length",
                                    "8",
                                    "--max-position-embeddings",
                                    "8",
                                    "--mock-data",
                                    "--deepspeed-config",
                                    path};
    all.insert(all.end(), words.begin(), words.end());
    const auto without_folder = [&](std::string text) {
      for (auto at = text.find(path); at != std::string::npos; at = text.find(path)) {
        text.replace(at, path.size(), "ds.json");
      }
      return text;
    };
    try {
      flags.parse(all);
      for (const FlagRow& row : flags.rows()) {
        if (row.source.starts_with(path)) result.given[std::string(row.spec.name)] = row.words[0];
      }
      result.yaml = flags.to_yaml();
    } catch (const Error& error) {
      result.error = without_folder(fmt::format("{} {}", error.exit_status(), error.what()));
    }
    for (const std::string& note : flags.notes()) result.notes += without_folder(note) + "\n";
    return result;
  }

  // A file of one key.
  static std::string file_of(std::string_view path, const Json& value) {
    Json json = value;
    while (!path.empty()) {
      const std::size_t dot = path.rfind('.');
      const std::size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
      Json outer;
      outer[std::string(path.substr(begin))] = std::move(json);
      json = std::move(outer);
      path = path.substr(0, begin == 0 ? 0 : dot);
    }
    return json.dump();
  }
  static Json value_of(Kind kind, std::string_view word) {
    if (kind == Kind::kText) return std::string(word);
    return Json::parse(word);
  }

  const TemporaryDirectory temporary_{"deepspeed_config"};
  const std::filesystem::path directory_ = temporary_.path();
};

using Given = std::map<std::string, std::string>;

TEST_F(DeepspeedConfigTest, AKeyThatIsAFlagSetsIt) {
  const std::map<Kind, std::pair<Json, std::string>> samples = {
      {Kind::kSwitch, {true, "true"}}, {Kind::kInteger, {2, "2"}}, {Kind::kReal, {0.25, "0.25"}}};
  const std::vector<std::string> conditions = {"--zero-stage", "3", "--fp16",
                                               "--offload-optimizer-to", "d"};
  for (const Key& key : deepspeed::keys()) {
    if (key.fate != Fate::kFlag) continue;
    auto [value, word] = samples.at(key.kind);
    if (key.path == "aio.block_size") std::tie(value, word) = std::pair{Json(8192), "8192"};
    const auto one =
        call(file_of(key.path, value), key.when.empty() ? std::vector<std::string>{} : conditions);
    EXPECT_EQ(one.error, "") << key.path;
    // A batch alone means one microbatch for each rank.
    Given expected = {{std::string(key.flag), word}};
    if (key.path == "train_batch_size") expected["--micro-batch-size"] = "2";
    EXPECT_EQ(one.given, expected) << key.path;
    // As the flag says, or its default.
    const auto automatic = call(file_of(key.path, "auto"));
    EXPECT_EQ(automatic.error + automatic.notes, "") << key.path;
    EXPECT_TRUE(automatic.given.empty()) << key.path;
    EXPECT_TRUE(call(file_of(key.path, nullptr)).given.empty()) << key.path;
    EXPECT_THAT(call(file_of(key.path, Json::array({1}))).error,
                AllOf(HasSubstr(fmt::format("64 ds.json: {} [1]: must be", key.path))));
  }
}

TEST_F(DeepspeedConfigTest, AKeyThatSetsNothingIsTakenOrRefused) {
  const std::map<Kind, std::vector<std::string>> samples = {{Kind::kSwitch, {"true", "false"}},
                                                            {Kind::kInteger, {"77"}},
                                                            {Kind::kReal, {"0.125"}},
                                                            {Kind::kText, {"other"}},
                                                            {Kind::kAny, {"{\"a\":1}"}}};
  int refused = 0;
  for (const Key& key : deepspeed::keys()) {
    if (key.fate != Fate::kTaken && key.fate != Fate::kOnly) continue;
    for (const auto word : words_of(key.values)) {
      const Call usual = call(file_of(key.path, value_of(key.kind, word)));
      EXPECT_EQ(usual.error + usual.notes, "") << key.path;
      EXPECT_TRUE(usual.given.empty()) << key.path;
    }
    for (const std::string& word : samples.at(key.kind)) {
      const auto values = words_of(key.values);
      if (std::ranges::find(values, word) != values.end()) continue;
      const Call other = call(file_of(key.path, value_of(key.kind, word)));
      EXPECT_TRUE(other.given.empty()) << key.path;
      if (key.fate == Fate::kTaken) {
        EXPECT_EQ(other.error, "") << key.path;
        EXPECT_EQ(other.notes, fmt::format("ds.json: {}: {}\n", key.path, key.text));
      } else {
        EXPECT_THAT(other.error, AllOf(HasSubstr(fmt::format("78 ds.json: {} ", key.path)),
                                       HasSubstr(key.text), HasSubstr("or leave the key out")));
        ++refused;
      }
    }
    const Call automatic = call(file_of(key.path, "auto"));
    EXPECT_EQ(automatic.error.empty(), key.fate == Fate::kTaken) << key.path;
    if (key.fate == Fate::kOnly) {
      EXPECT_THAT(automatic.error, HasSubstr(fmt::format("ds.json: {} \"auto\": no flag says what "
                                                         "that is: give ",
                                                         key.path)));
    }
    if (key.kind != Kind::kAny) {
      EXPECT_THAT(call(file_of(key.path, Json::array({1}))).error, HasSubstr(": must be "));
    }
  }
  EXPECT_GT(refused, 25);
}

TEST_F(DeepspeedConfigTest, WhatIsNotThereMustBeOff) {
  for (const Key& key : deepspeed::keys()) {
    if (key.fate == Fate::kRefused) {
      EXPECT_THAT(call(file_of(key.path, 2)).error,
                  AllOf(HasSubstr(fmt::format("78 ds.json: {}: ", key.path)), HasSubstr(key.text)));
      EXPECT_EQ(call(file_of(key.path, nullptr)).error, "");
      EXPECT_EQ(call(file_of(key.path, Json::object())).error, "");
    }
    if (key.fate != Fate::kOff) continue;
    EXPECT_EQ(call(file_of(key.path, {{"enabled", false}, {"more", {1, 2}}})).error, "");
    EXPECT_EQ(call(file_of(key.path, Json::object())).error, "");
    EXPECT_THAT(call(file_of(key.path, {{"enabled", true}})).error,
                AllOf(HasSubstr(fmt::format("78 ds.json: {}.enabled true: ", key.path)),
                      HasSubstr(key.text)));
    EXPECT_THAT(call(file_of(key.path, {{"enabled", "auto"}})).error,
                HasSubstr("must be true or false"));
    EXPECT_THAT(call(file_of(key.path, true)).error, HasSubstr("must be an object"));
  }
}

TEST_F(DeepspeedConfigTest, UnknownKeysAreRefused) {
  EXPECT_THAT(call(R"({"zero_optimization": {"stage3_max_live_parameter": 1, "stage": 1}})").error,
              HasSubstr("64 ds.json: zero_optimization.stage3_max_live_parameter: no key of "
                        "DeepSpeed's that is known here; did you mean "
                        "zero_optimization.stage3_max_live_parameters?"));
  EXPECT_THAT(call(R"({"zero": {}, "xyz": 1, "zero_optimization": true})").error,
              AllOf(HasSubstr("ds.json: zero: no key"), HasSubstr("ds.json: xyz: no key"),
                    HasSubstr("ds.json: zero_optimization true: must be an object")));
  EXPECT_THAT(call(R"({"seed": 2.5})").error,
              HasSubstr("64 ds.json: seed 2.5: must be a whole number"));
  EXPECT_THAT(call("{\"seed\": 1,}").error, HasSubstr("65 ds.json:1:12: a comma before }"));
}

TEST_F(DeepspeedConfigTest, TheCommandLineWins) {
  const std::string file = R"({"gradient_clipping": 0.5, "seed": 7, "bf16": {"enabled": true}})";
  const Call both = call(file, {"--clip-grad", "2"});
  EXPECT_EQ(both.given, (Given{{"--seed", "7"}, {"--bf16", "true"}}));
  EXPECT_EQ(both.config.optimizer.clip_grad, 2.0);
  EXPECT_TRUE(both.config.model.bf16);
  EXPECT_EQ(both.notes, "");
  // The printed call has the file's flags, and not the file.
  EXPECT_THAT(both.yaml,
              AllOf(HasSubstr("seed: 7"), HasSubstr("bf16: true"), Not(HasSubstr("deepspeed"))));
  // Two files that say the same flag do not agree by chance.
  const std::string yaml = write("run.yaml", "seed: 8\n");
  EXPECT_THAT(call(file, {"--yaml-cfg", yaml}).error,
              HasSubstr("ds.json: seed means --seed, which " + yaml + ":1:1: seed says already"));
  EXPECT_THAT(call(R"({"seed": -1})").error, HasSubstr("78 ds.json: seed -1: must be from 1"));
  EXPECT_THAT(call(R"({"bf16": {"enabled": true}, "bfloat16": {"enabled": true}})").error,
              HasSubstr("says already"));
}

TEST_F(DeepspeedConfigTest, TwoBatchSizesGiveTheThird) {
  using Words = std::vector<std::string>;
  const auto sizes = [&](const std::string& file, const Words& words = {}, std::int64_t ranks = 4) {
    const Call one = call(file, words, ranks);
    if (!one.error.empty()) return one.error;
    return fmt::format("{} of {}{}", one.config.layout.micro_batch_size,
                       one.config.layout.global_batch_size, one.notes);
  };
  const std::string train = "\"train_batch_size\": 32";
  const std::string micro = "\"train_micro_batch_size_per_gpu\": 2";
  const std::string steps = "\"gradient_accumulation_steps\": 4";
  const auto file = [](const auto&... keys) {
    return fmt::format("{{{}}}", fmt::join(std::vector<std::string>{keys...}, ", "));
  };
  EXPECT_EQ(sizes(file(train, micro, steps)), "2 of 32");
  EXPECT_EQ(sizes(file(train, micro)), "2 of 32");
  EXPECT_EQ(sizes(file(train, steps)), "2 of 32");
  EXPECT_EQ(sizes(file(micro, steps)), "2 of 32");
  EXPECT_EQ(sizes(file(train)), "8 of 32");
  EXPECT_EQ(sizes(file(micro)), "2 of 0");
  EXPECT_EQ(sizes(file(micro, steps), {"--tensor-model-parallel-size", "2"}), "2 of 16");
  EXPECT_THAT(sizes(file(train, micro, steps), {}, 2),
              HasSubstr("78 ds.json: gradient_accumulation_steps 4: x "
                        "train_micro_batch_size_per_gpu 2 x 2 data-parallel ranks are 16, and "
                        "train_batch_size is 32: make them agree"));
  EXPECT_THAT(sizes(file(train, steps), {}, 3),
              HasSubstr("gradient_accumulation_steps 4: train_batch_size 32 is not a multiple of "
                        "these x 3 data-parallel ranks"));
  EXPECT_THAT(sizes(file(train), {}, 3),
              HasSubstr("train_batch_size 32 is not a multiple of the 3 data-parallel ranks"));
  EXPECT_THAT(sizes(file(steps)), HasSubstr("needs train_micro_batch_size_per_gpu or"));
  EXPECT_THAT(sizes(file(micro, std::string("\"gradient_accumulation_steps\": 0"))),
              HasSubstr("must be at least 1"));
  EXPECT_THAT(sizes(file(micro, std::string("\"gradient_accumulation_steps\": 2147483647"))),
              HasSubstr("too large a batch"));
  // The command line's sizes count, and the steps give way.
  EXPECT_EQ(sizes(file(steps), {"--micro-batch-size", "3"}), "3 of 48");
  EXPECT_EQ(sizes(file(train, micro, steps), {"--micro-batch-size", "4"}),
            "4 of 32ds.json: gradient_accumulation_steps: gives way to --global-batch-size 32 and "
            "--micro-batch-size 4\n");
  EXPECT_EQ(sizes(file(train), {"--micro-batch-size", "4"}), "4 of 32");
  EXPECT_EQ(sizes("{}", {"--global-batch-size", "32"}), "0 of 32");
  EXPECT_EQ(sizes(file(train, std::string("\"gradient_accumulation_steps\": \"auto\""))),
            "8 of 32");
}

TEST_F(DeepspeedConfigTest, LossScalesCountWithFp16) {
  const auto fp16 = [&](const std::string& keys, const std::vector<std::string>& words = {}) {
    return call(fmt::format("{{\"fp16\": {{{}}}}}", keys), words);
  };
  const std::string changing =
      "\"loss_scale\": 0, \"initial_scale_power\": 16, \"loss_scale_window\": 500, "
      "\"hysteresis\": 3, \"min_loss_scale\": 2";
  const Given scales = {{"--initial-loss-scale", "65536"},
                        {"--loss-scale-window", "500"},
                        {"--hysteresis", "3"},
                        {"--min-loss-scale", "2"}};
  Given with_switch = scales;
  with_switch["--fp16"] = "true";
  EXPECT_EQ(fp16("\"enabled\": true, " + changing).given, with_switch);
  EXPECT_EQ(fp16("\"enabled\": \"auto\", " + changing, {"--fp16"}).given, scales);
  const Call idle = fp16("\"enabled\": \"auto\", " + changing, {"--bf16"});
  EXPECT_EQ(idle.error, "");
  EXPECT_TRUE(idle.given.empty());
  EXPECT_THAT(idle.notes, AllOf(HasSubstr("fp16.hysteresis"),
                                HasSubstr(": nothing depends on it without --fp16\n")));
  EXPECT_EQ(fp16("\"enabled\": true, \"hysteresis\": 3, \"loss_scale\": 128").given,
            (Given{{"--fp16", "true"}, {"--loss-scale", "128"}}));
  EXPECT_EQ(fp16(changing, {"--fp16", "--loss-scale", "8"}).error, "");
  EXPECT_THAT(fp16("\"enabled\": true, \"initial_scale_power\": 2000").error,
              HasSubstr("give from -1000 to 1000"));
}

TEST_F(DeepspeedConfigTest, OptimizersAreOurs) {
  const auto optimizer = [&](const std::string& type, const std::string& parameters = "") {
    return call(
        fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{{}}}}}}})", type, parameters));
  };
  EXPECT_EQ(optimizer("AdamW", R"("lr": 3e-4, "betas": [0.8, 0.95], "eps": 1e-6,
                                  "weight_decay": 0, "adam_w_mode": true)")
                .given,
            (Given{{"--optimizer", "adam"},
                   {"--lr", "0.0003"},
                   {"--adam-beta1", "0.8"},
                   {"--adam-beta2", "0.95"},
                   {"--adam-eps", "1e-06"},
                   {"--weight-decay", "0"}}));
  EXPECT_EQ(optimizer("Adam").given, (Given{{"--optimizer", "adam"}}));
  EXPECT_EQ(optimizer("SGD", "\"momentum\": 0.5").given,
            (Given{{"--optimizer", "sgd"}, {"--sgd-momentum", "0.5"}}));
  EXPECT_THAT(optimizer("OneBitAdam").error,
              HasSubstr("78 ds.json: optimizer.type OneBitAdam: there are Adam, AdamW and SGD"));
  EXPECT_THAT(optimizer("Adam", "\"adam_w_mode\": false").error,
              HasSubstr("is decoupled; give true"));
  EXPECT_THAT(optimizer("Adam", "\"betas\": [0.9]").error, HasSubstr("a list of two numbers"));
  EXPECT_THAT(optimizer("Adam", "\"betas\": [0.9, 1]").error,
              HasSubstr("ds.json: optimizer.params.betas 1: must be"));
}

TEST_F(DeepspeedConfigTest, SchedulesThatAreTheSameFunctionAreTaken) {
  const auto schedule = [&](const std::string& type, const std::string& parameters,
                            const std::vector<std::string>& words = {}) {
    return call(
        fmt::format(R"({{"scheduler": {{"type": "{}", "params": {{"warmup_type": "linear"{}}}}}}})",
                    type, parameters),
        words);
  };
  EXPECT_EQ(schedule("WarmupLR", R"(, "warmup_max_lr": 0.5, "warmup_min_lr": 0.25,
                                    "warmup_num_steps": 3)")
                .given,
            (Given{{"--lr-decay-style", "constant"},
                   {"--lr", "0.5"},
                   {"--lr-warmup-init", "0.25"},
                   {"--lr-warmup-iters", "3"}}));
  EXPECT_EQ(schedule("WarmupDecayLR", R"(, "warmup_max_lr": 0.5, "warmup_min_lr": 0.25,
                                         "warmup_num_steps": 3, "total_num_steps": 9)")
                .given,
            (Given{{"--lr-decay-style", "linear"},
                   {"--lr", "0.5"},
                   {"--lr-warmup-init", "0.25"},
                   {"--min-lr", "0.25"},
                   {"--lr-warmup-iters", "3"},
                   {"--lr-decay-iters", "9"}}));
  const std::string ratios =
      R"(, "warmup_min_ratio": 0.25, "cos_min_ratio": 0.5, "total_num_steps": 9)";
  EXPECT_EQ(schedule("WarmupCosineLR", ratios, {"--lr", "0.5"}).given,
            (Given{{"--lr-decay-style", "cosine"},
                   {"--lr-warmup-init", "0.125"},
                   {"--min-lr", "0.25"},
                   {"--lr-decay-iters", "9"}}));
  EXPECT_EQ(schedule("WarmupCosineLR", ratios).given.count("--min-lr"), 0U);
  EXPECT_THAT(schedule("OneCycle", "").error, HasSubstr("scheduler.type OneCycle: there are Warm"));
  EXPECT_THAT(schedule("WarmupLR", ", \"total_num_steps\": 9").error,
              HasSubstr("scheduler.params.total_num_steps 9: WarmupLR has no such parameter"));
  EXPECT_THAT(
      call(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "log"}}})").error,
      HasSubstr("scheduler.params.warmup_type log: Phalanx warms up linearly"));
  EXPECT_THAT(call(R"({"scheduler": {"type": "WarmupLR"}})").error,
              HasSubstr("scheduler.params.warmup_type is left out: DeepSpeed then warms up log"));
  EXPECT_THAT(call(R"({"scheduler": {"params": {"warmup_num_steps": 1}}})").error,
              HasSubstr("give scheduler.type"));
  // The schedule's rate replaces the optimizer's.
  const Call two = call(R"({"optimizer": {"params": {"lr": 1}}, "scheduler": {"type": "WarmupLR",
                            "params": {"warmup_type": "linear", "warmup_max_lr": 0.5}}})");
  EXPECT_EQ(two.config.optimizer.lr, 0.5);
  EXPECT_THAT(two.notes,
              HasSubstr("optimizer.params.lr: scheduler.params.warmup_max_lr 0.5 counts"));
}

TEST_F(DeepspeedConfigTest, ZeroIsAsTheStageHasIt) {
  const auto zero = [&](const std::string& keys, const std::vector<std::string>& words = {},
                        std::int64_t ranks = 4) {
    return call(fmt::format("{{\"zero_optimization\": {{{}}}}}", keys), words, ranks);
  };
  EXPECT_EQ(zero("\"stage\": 2, \"reduce_bucket_size\": 5e8, \"allgather_bucket_size\": 500000000, "
                 "\"overlap_comm\": true")
                .given,
            (Given{{"--zero-stage", "2"},
                   {"--ddp-bucket-size", "500000000"},
                   {"--overlap-grad-reduce", "true"}}));
  EXPECT_EQ(zero("\"allgather_bucket_size\": 2e8").given,
            (Given{{"--ddp-bucket-size", "200000000"}}));
  EXPECT_THAT(zero("\"reduce_bucket_size\": 5, \"allgather_bucket_size\": 6").error,
              HasSubstr("allgather_bucket_size 6: zero_optimization.reduce_bucket_size is 5"));
  const std::string third =
      "\"stage3_param_persistence_threshold\": 1e4, \"stage3_prefetch_bucket_size\": 0";
  EXPECT_EQ(zero("\"stage\": 3, " + third).given, (Given{{"--zero-stage", "3"},
                                                         {"--zero-persistence-threshold", "10000"},
                                                         {"--zero-prefetch-depth", "0"}}));
  EXPECT_EQ(zero(third, {"--use-megatron-fsdp"}).given.size(), 2U);
  EXPECT_EQ(zero("\"stage\": 3, \"stage3_prefetch_bucket_size\": 5e7").given,
            (Given{{"--zero-stage", "3"}}));
  const Call second = zero("\"stage\": 2, " + third);
  EXPECT_EQ(second.given, (Given{{"--zero-stage", "2"}}));
  EXPECT_THAT(second.notes, HasSubstr("stage3_param_persistence_threshold, zero_optimization."
                                      "stage3_prefetch_bucket_size: nothing depends on it without "
                                      "--zero-stage 3"));
  EXPECT_EQ(zero("\"mics_shard_size\": 2", {}, 8).given,
            (Given{{"--num-distributed-optimizer-instances", "4"}}));
  EXPECT_TRUE(zero("\"mics_shard_size\": -1").given.empty());
  EXPECT_THAT(zero("\"mics_shard_size\": 3").error,
              HasSubstr("mics_shard_size 3: groups of so many do not share out the 4 data-par"));
  EXPECT_THAT(zero("\"mics_shard_size\": 0").error, HasSubstr("groups of so many"));
}

TEST_F(DeepspeedConfigTest, StatesGoWhereTheDeviceSays) {
  const auto offload = [&](const std::string& what, const std::string& keys) {
    return call(fmt::format(R"({{"zero_optimization": {{"{}": {{{}}}}},
                                "aio": {{"block_size": 65536, "queue_depth": 32}}}})",
                            what, keys));
  };
  EXPECT_EQ(
      offload("offload_optimizer", R"("device": "nvme", "nvme_path": "/disk", "ratio": 0.5)").given,
      (Given{{"--offload-optimizer-to", "/disk"},
             {"--offload-fraction", "0.5"},
             {"--aio-block-size", "65536"},
             {"--aio-queue-depth", "32"}}));
  EXPECT_EQ(offload("offload_param", R"("device": "nvme", "nvme_path": "/disk")").given,
            (Given{{"--offload-parameters-to", "/disk"},
                   {"--aio-block-size", "65536"},
                   {"--aio-queue-depth", "32"}}));
  const Call cpu = offload("offload_optimizer", R"("device": "cpu", "ratio": 0.5)");
  EXPECT_TRUE(cpu.given.empty());
  EXPECT_THAT(cpu.notes,
              AllOf(HasSubstr("offload_optimizer.device: optimizer states lie in the host's"),
                    HasSubstr("aio.block_size, aio.queue_depth: nothing depends on it without")));
  EXPECT_THAT(cpu.notes, HasSubstr("offload_optimizer.ratio: no state lies in a file"));
  EXPECT_THAT(offload("offload_param", R"("device": "cpu")").notes,
              HasSubstr("offload_param.device: weights and activations lie in the host's memory"));
  EXPECT_EQ(offload("offload_param", R"("device": "none")").error, "");
  EXPECT_THAT(offload("offload_param", R"("device": "nvme")").error,
              HasSubstr("needs zero_optimization.offload_param.nvme_path"));
  EXPECT_THAT(offload("offload_param", R"("device": "tape")").error,
              HasSubstr("none, cpu or nvme"));
}

TEST_F(DeepspeedConfigTest, SavedActivationsAreSharedWhereTheyAreTheSame) {
  const std::string file = R"({"activation_checkpointing": {"partition_activations": true}})";
  const std::vector<std::string> full = {"--recompute-granularity",      "full",
                                         "--recompute-method",           "uniform",
                                         "--tensor-model-parallel-size", "2"};
  EXPECT_EQ(call(file, full, 2).given, (Given{{"--distribute-saved-activations", "true"}}));
  EXPECT_THAT(call(file).notes, HasSubstr("nothing depends on it without --recompute-granularity"));
  auto sequence = full;
  sequence.emplace_back("--sequence-parallel");
  EXPECT_TRUE(call(file, sequence, 2).given.empty());
}

TEST_F(DeepspeedConfigTest, LogsGoWhereTheyShould) {
  EXPECT_EQ(call(R"({"wall_clock_breakdown": true, "steps_per_print": 5})").given,
            (Given{{"--timing-log-level", "1"}, {"--log-interval", "5"}}));
  EXPECT_TRUE(call(R"({"wall_clock_breakdown": false})").given.empty());
  EXPECT_EQ(
      call(R"({"tensorboard": {"enabled": true, "output_path": "tb/", "job_name": "one"}})").given,
      (Given{{"--tensorboard-dir", "tb/one"}}));
  EXPECT_TRUE(call(R"({"tensorboard": {"enabled": false, "output_path": "tb"}})").given.empty());
  EXPECT_THAT(call(R"({"tensorboard": {"enabled": true}})").error,
              HasSubstr("tensorboard.enabled true: needs tensorboard.output_path"));
}

// A file as Hugging Face's integration writes it.
TEST_F(DeepspeedConfigTest, AFileFullOfAutosAsksTheFlags) {
  const Call one = call(R"({
    "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000,
             "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                                              "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
                                                 "warmup_num_steps": "auto",
                                                 "warmup_type": "linear"}},
    "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true,
      "offload_optimizer": {"device": "cpu", "pin_memory": true}, "sub_group_size": 1e9,
      "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
      "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
      "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": true},
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "steps_per_print": 2000,
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": false})",
                        {"--lr", "1", "--bf16"});
  EXPECT_EQ(one.error, "");
  EXPECT_EQ(one.given, (Given{{"--optimizer", "adam"},
                              {"--lr-decay-style", "constant"},
                              {"--zero-stage", "3"},
                              {"--overlap-grad-reduce", "true"},
                              {"--log-interval", "2000"}}));
}

}  // namespace
}  // namespace phalanx
