// The table as a whole: every spelling that a user of Megatron-LM may give has one answer, and the
// answer is worth reading.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/flag_table/spellings_test_support.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

std::vector<std::string> words_between_blanks(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string_view> spellings_of(const FlagSpec& spec) {
  std::vector<std::string_view> all = {spec.name};
  for (const auto list : {spec.aliases, spec.old_names}) {
    for (const auto other : words_of(list)) all.push_back(other);
  }
  return all;
}

bool is_negation(std::string_view yaml_key) { return yaml_key.starts_with('!'); }
std::string canonical_key(std::string_view yaml_key) {
  return canonical_name(yaml_key.substr(is_negation(yaml_key) ? 1 : 0));
}

// Whether a YAML key sets a flag: under its name or as one of the row's keys.
bool answers_key(std::string_view key) {
  if (find_train_flag(key) != nullptr) return true;
  return std::ranges::any_of(train_flags(), [&](const TrainFlag& row) {
    return std::ranges::any_of(words_of(row.spec.yaml_keys), [&](std::string_view other) {
      return canonical_key(other) == canonical_name(key);
    });
  });
}

// "--num-layers 2 --hidden-size 8 ..." as `phalanx pretrain gpt` reads it, or as a plan does.
struct Parsed {
  std::string error;
  std::string notes;
};
Parsed parse(const std::string& flags, bool plans = false) {
  TrainConfig config;
  FlagSet set("phalanx pretrain gpt", "Trains a GPT.");
  add_train_flags(set, config);
  if (plans) set.plan_only();
  Parsed result;
  try {
    set.parse(words_between_blanks(
        "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 "
        "--max-position-embeddings 8 --micro-batch-size 1 --lr 1 --data-path d " +
        flags));
  } catch (const Error& error) {
    result.error = error.what();
  }
  for (const std::string& note : set.notes()) result.notes += note + "\n";
  return result;
}

TEST(Answers, EverySpellingHasOne) {
  const auto spellings = words_between_blanks(kSpellings);
  EXPECT_GE(spellings.size(), 290U);
  for (const std::string& spelling : spellings) {
    EXPECT_NE(find_train_flag(spelling), nullptr) << spelling;
  }
}

TEST(Answers, EveryKeyOfAYamlFileHasOne) {
  for (const std::string& key : words_between_blanks(kYamlKeys)) {
    EXPECT_TRUE(answers_key(key)) << key;
  }
}

TEST(Answers, NoSpellingHasTwo) {
  std::map<std::string, std::string_view> owners;
  for (const TrainFlag& row : train_flags()) {
    for (const auto spelling : spellings_of(row.spec)) {
      const auto [owner, is_new] = owners.emplace(canonical_name(spelling), row.spec.name);
      EXPECT_TRUE(is_new) << spelling << " of " << row.spec.name << " and " << owner->second;
    }
  }
}

// A key may be a flag's name only where that flag, switched on, changes nothing.
TEST(Answers, NoYamlKeyHasTwo) {
  std::set<std::string> keys;
  for (const TrainFlag& row : train_flags()) {
    for (const auto key : words_of(row.spec.yaml_keys)) {
      EXPECT_TRUE(keys.insert(canonical_key(key)).second) << key;
      EXPECT_TRUE(!is_negation(key) || row.spec.type == FlagType::kSwitch) << key;
      const TrainFlag* named = find_train_flag(canonical_key(key));
      EXPECT_TRUE(named == nullptr ||
                  (is_negation(key) && (named->spec.state == FlagState::kSatisfied ||
                                        named->spec.state == FlagState::kPassedOver)))
          << key;
    }
  }
}

// A clause that follows the flag and a colon.
void expect_clause(std::string_view flag, std::string_view text) {
  EXPECT_GE(words_of(text).size(), 4U) << flag << ": " << text;
  EXPECT_FALSE(text.ends_with('.')) << flag << ": " << text;
  EXPECT_EQ(text.find("Megatron"), std::string_view::npos) << flag << ": " << text;
  EXPECT_EQ(text.find("refused"), std::string_view::npos) << flag << ": " << text;
}

TEST(Answers, EachSaysWhy) {
  for (const TrainFlag& row : train_flags()) {
    const FlagSpec& spec = row.spec;
    if (spec.state == FlagState::kWorks) {
      EXPECT_FALSE(spec.help.empty()) << spec.name;
      EXPECT_NE(row.target == nullptr, spec.stands_for.empty()) << spec.name;
      EXPECT_EQ(spec.reason, "") << spec.name;
      continue;
    }
    EXPECT_EQ(row.target, nullptr) << spec.name;
    expect_clause(spec.name, spec.reason);
    EXPECT_TRUE(spec.instead.empty() || spec.state == FlagState::kPassedOver) << spec.name;
    if (!spec.instead.empty()) expect_clause(spec.name, spec.instead);
    EXPECT_EQ(spec.satisfied_by.empty(), spec.otherwise.empty()) << spec.name;
    if (!spec.otherwise.empty()) expect_clause(spec.name, spec.otherwise);
    if (!spec.planned.empty()) expect_clause(spec.name, spec.planned);
    EXPECT_TRUE(spec.state == FlagState::kSatisfied || spec.satisfied_by.empty()) << spec.name;
  }
}

// What a message sends people to is there and works.
TEST(Answers, NameFlagsThatThereAre) {
  for (const TrainFlag& row : train_flags()) {
    const FlagSpec& spec = row.spec;
    for (const auto list : {spec.needs, spec.excludes, spec.stands_for}) {
      for (const auto word : words_of(list)) {
        const bool is_value = !word.starts_with("--");
        EXPECT_TRUE(is_value || find_train_flag(word) != nullptr) << spec.name << ": " << word;
      }
    }
    for (const auto text : {spec.reason, spec.otherwise, spec.planned, spec.instead}) {
      for (std::string_view word : words_of(text)) {
        const std::size_t begin = word.find("--");
        if (begin == std::string_view::npos) continue;
        word = word.substr(begin);
        word = word.substr(0, word.find_first_not_of("-_abcdefghijklmnopqrstuvwxyz0123456789"));
        const TrainFlag* named = find_train_flag(word);
        ASSERT_NE(named, nullptr) << spec.name << ": " << word;
        // "nothing depends on it without --profile"
        const bool is_of_a_group = spec.state == FlagState::kSatisfied && text == spec.reason;
        EXPECT_TRUE(named->spec.state == FlagState::kWorks || is_of_a_group)
            << spec.name << ": " << word;
      }
    }
  }
}

TEST(Answers, ValuesAreOnesThatTheFlagCanHave) {
  TrainConfig config;
  for (const TrainFlag& row : train_flags()) {
    const FlagSpec& spec = row.spec;
    const auto type = type_of(row.target == nullptr ? FlagTarget{} : row.target(config), spec.type);
    for (const auto value : words_of(spec.satisfied_by)) {
      EXPECT_EQ(canonical_value(type, value), value) << spec.name;
      EXPECT_EQ(fault_of(spec, type, value), std::nullopt) << spec.name << " " << value;
    }
    const auto words = words_of(spec.stands_for);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const TrainFlag* meant = find_train_flag(words[i]);
      ASSERT_NE(meant, nullptr) << spec.name;
      const auto meant_type = type_of(meant->target(config), meant->spec.type);
      if (meant_type == FlagType::kSwitch) continue;
      ASSERT_LT(++i, words.size()) << spec.name;
      if (words[i] == "@" && type == meant_type && spec.choices.empty()) {
        EXPECT_EQ(spec.range.least, meant->spec.range.least) << spec.name;
        EXPECT_EQ(spec.range.most, meant->spec.range.most) << spec.name;
        continue;
      }
      const auto values =
          words[i] == "@" ? words_of(spec.choices) : std::vector<std::string_view>{words[i]};
      EXPECT_FALSE(values.empty()) << spec.name;
      for (const auto value : values) {
        EXPECT_EQ(fault_of(meant->spec, meant_type, value), std::nullopt) << spec.name;
      }
    }
  }
}

// Who asks for what is the default anyway is never refused.
TEST(Answers, DefaultsAreTaken) {
  std::istringstream lines{std::string(kDefaults)};
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(parse(line).error, "") << line;
}

// One group is what --group-query-attention alone means; without it there are as many as heads.
TEST(Answers, ADefaultThatNeedsASwitchIsNotIgnored) {
  EXPECT_NE(parse("--num-query-groups 1").error.find("needs --group-query-attention"),
            std::string::npos);
  EXPECT_NE(parse("--hysteresis 3").error.find("needs --fp16"), std::string::npos);
}

TEST(Answers, AFlagThatIsNotThereYetIsRefusedByARunAndToldByAPlan) {
  const std::string flag = "--override-ckpt-iteration 5";
  EXPECT_TRUE(parse(flag).error.starts_with(
      "--override-ckpt-iteration 5: a checkpoint keeps its iteration; --ckpt-step chooses one"))
      << parse(flag).error;
  EXPECT_EQ(parse(flag, true).error, "");
  EXPECT_EQ(parse(flag, true).notes,
            "--override-ckpt-iteration 5: the plan does not depend on it\n");
}

// Flags from scripts that train published models: logging, profilers, how checkpoints and messages
// are written. Runs and plans name them all in one note.
TEST(Answers, WhatChangesNoResultIsPassedOver) {
  const std::string script =
      "--wandb-project Mixtral --wandb-exp-name 8x7b --wandb-save-dir /w --wandb-entity us "
      "--async-strategy mcore "
      "--dist-ckpt-strictness log_all "
      "--log-progress --log-energy --log-straggler --disable-straggler-on-startup "
      "--straggler-minmax-count 16 --straggler-ctrlr-port 65535 --logging-level 40 "
      "--profile --profile-step-start 4 --profile-step-end 6 --profile-ranks 0 8 "
      "--use-pytorch-profiler --record-memory-history --memory-snapshot-path m.pickle "
      "--one-logger-project p --one-logger-run-name r --one-logger-async --app-tag-run-name a "
      "--app-tag-run-version 1 --enable-ft-package --calc-ft-timeouts "
      "--no-mmap-bin-files --num-dataset-builder-threads 8 --trust-remote-code "
      "--nccl-communicator-config-path n.yaml --nccl-ub --high-priority-stream-groups dp_cp ep_dp "
      "--use-sharp --tp-comm-overlap --tp-comm-overlap-cfg t.yaml --tp-comm-bootstrap-backend nccl "
      "--enable-cuda-graph --cuda-graph-impl local --cuda-graph-scope attn "
      "--cuda-graph-warmup-steps "
      "3 --te-rng-tracker --rerun-mode validate_results --ddp-num-buckets 8 "
      "--ddp-average-in-collective --ddp-pad-buckets-for-high-nccl-busbw "
      "--overlap-param-gather-with-optimizer-step --no-overlap-p2p-communication "
      "--defer-embedding-wgrad-compute --wgrad-deferral-limit 2";
  for (const bool plans : {false, true}) {
    const Parsed read = parse(script, plans);
    EXPECT_EQ(read.error, "");
    EXPECT_EQ(std::ranges::count(read.notes, '\n'), 1) << read.notes;
    EXPECT_TRUE(read.notes.starts_with("passed over, for no result depends on them: "))
        << read.notes;
    for (const std::string& word : words_between_blanks(script)) {
      if (!word.starts_with("--") || word == "--nccl-ub") continue;
      EXPECT_NE(read.notes.find(word), std::string::npos) << word;
    }
    EXPECT_NE(read.notes.find("metrics are in metrics.jsonl of --save and, with --tensorboard-dir"),
              std::string::npos)
        << read.notes;
  }
  EXPECT_NE(parse("--dist-ckpt-strictness log").error.find("choose one of assume_ok_unexpected"),
            std::string::npos);
}

TEST(Answers, AFlagOfAnotherModelIsRefusedByAPlanToo) {
  EXPECT_NE(parse("--quick-geglu", true).error.find("its sigmoid form of GeLU is not available"),
            std::string::npos);
}

TEST(Answers, AFlagIsSatisfiedByItsValuesAlone) {
  EXPECT_EQ(parse("--kv-lora-rank 032").notes,
            "--kv-lora-rank 032: nothing depends on it without multi-latent attention\n");
  EXPECT_NE(parse("--kv-lora-rank 1").error.find("--kv-lora-rank 1: multi-latent attention is not"),
            std::string::npos);
  EXPECT_EQ(parse("--DDP-impl torch --local_rank 3").error, "");
  EXPECT_NE(parse("--DDP-impl horovod").error.find("local or torch"), std::string::npos);
}

// The flags of a script that shards with Megatron's FSDP and offloads.
TEST(Answers, FsdpAndOffloadAreAnswered) {
  const Parsed script = parse(
      "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
      "--outer-dp-sharding-strategy no_shard --megatron-fsdp-main-grads-dtype auto "
      "--init-model-with-meta-device --fsdp-double-buffer --calculate-per-token-loss "
      "--ckpt-format fsdp_dtensor --use-precision-aware-optimizer --optimizer-cpu-offload "
      "--optimizer-offload-fraction 0.5 --fine-grained-activation-offloading --offload-modules "
      "core_attn attn_proj --min-offloaded-tensor-size 1024 --fsdp-manual-registration "
      "--use-nccl-ub");
  EXPECT_EQ(script.error, "");
  EXPECT_NE(script.notes.find("--offload-modules core_attn attn_proj: weights and activations lie"),
            std::string::npos)
      << script.notes;
  for (const auto& [flags, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"--outer-dp-sharding-strategy optim", "not shared out once more"},
           {"--megatron-fsdp-main-params-dtype bf16", "always fp32"},
           {"--megatron-fsdp-main-grads-dtype bf16", "summed in fp32"},
           {"--megatron-fsdp-grad-comm-dtype bf16", "summed in fp32"},
           {"--megatron-fsdp-version 3", "the versions are 1 and 2"},
           {"--main-params-dtype fp16", "always fp32"},
           {"--optimizer-offload-fraction 2", "must be from 0 to 1"},
           {"--activation-offload-fraction -1", "must be from 0 to 1"},
           {"--aio-block-size 8192", "needs --offload-optimizer-to or"}}) {
    EXPECT_NE(parse(flags).error.find(why), std::string::npos) << flags << parse(flags).error;
  }
}

// They set what they say and need no remark.
TEST(Answers, SchedulesAndOptimizersWork) {
  const Parsed all = parse(
      "--optimizer sgd --sgd-momentum 0.5 --lr-decay-style WSD --lr-wsd-decay-style "
      "minus_sqrt --lr-wsd-decay-iters 3 --decoupled-lr 0.1 --decoupled-min-lr 0.01");
  EXPECT_EQ(all.error + all.notes, "");
  EXPECT_NE(parse("--optimizer muon").error.find("choose one of adam, sgd"), std::string::npos);
  EXPECT_NE(parse("--decoupled-min-lr 0.01").error.find("needs --decoupled-lr"), std::string::npos);
  EXPECT_NE(parse("--lr-wsd-decay-iters 0").error.find("must be from 1"), std::string::npos);
}

TEST(Answers, OldNamesWork) {
  const Parsed old =
      parse("--checkpoint-activations --checkpoint-num-layers 2 --warmup 0.01 --batch-size 2");
  EXPECT_EQ(old.error, "");
  EXPECT_NE(old.notes.find("--checkpoint-num-layers is now called --recompute-num-layers"),
            std::string::npos);
  EXPECT_NE(old.notes.find("--warmup is now called --lr-warmup-fraction"), std::string::npos);
  EXPECT_NE(old.notes.find("--checkpoint-activations is now --recompute-granularity full "
                           "--recompute-method uniform\n"),
            std::string::npos);
  EXPECT_EQ(parse("--activations-checkpoint-method block").error, "");
  EXPECT_EQ(parse("--activations-checkpoint-method block").notes,
            "--activations-checkpoint-method block is now --recompute-granularity full "
            "--recompute-method block\n");
  EXPECT_EQ(parse("--recompute-activations").notes, "");
  EXPECT_NE(parse("--activations-checkpoint-method none").error.find("uniform, block"),
            std::string::npos);
}

TEST(Answers, TheTanhFormOfGeluIsNotTheExactOne) {
  EXPECT_EQ(parse("--openai-gelu").error, "");
  EXPECT_NE(parse("--openai-gelu --no-bias-gelu-fusion").error.find("exclude each other"),
            std::string::npos);
}

}  // namespace
}  // namespace phalanx
