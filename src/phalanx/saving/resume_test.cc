#include "phalanx/saving/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/stored_schedule.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/schedule_flags.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TrainConfig trained() {
  TrainConfig c = with_flags(
      {},
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 32 "
      "--seq-length 32 --micro-batch-size 2 --global-batch-size 8 --threads-per-rank 1 "
      "--train-iters 100 --lr 1e-3 --data-path data");
  resolve(c, true);
  return c;
}

Manifest manifest_of(const TrainConfig& config) {
  Manifest manifest;
  manifest.iteration = 5;
  manifest.consumed_train_samples = 40;
  manifest.arguments = schedule_arguments(parameter_schedule(config));
  for (const auto& [flag, value] : argument_values(config)) manifest.arguments[flag] = value;
  return manifest;
}

struct Answer {
  std::string error = "no error";
  std::string log;
};

// Resumes with another value of one flag. The test changes the checkpoint, so that the run itself
// stays valid.
Answer answer(const TrainConfig& config, const std::string& flag, const std::string& then) {
  Manifest manifest = manifest_of(trained());
  manifest.arguments[flag] = then;
  Answer result;
  testing::internal::CaptureStderr();
  try {
    check_resume(config, manifest);
  } catch (const ConfigError& error) {
    result.error = error.what();
  }
  result.log = testing::internal::GetCapturedStderr();
  return result;
}

std::string another(const TrainFlag& flag, FlagType type) {
  if (type == FlagType::kSwitch) return "true";
  if (type == FlagType::kInteger || type == FlagType::kReal) return "77";
  if (type == FlagType::kNumbers) return "5,3,2";
  return flag.spec.choices.empty() ? "other" : std::string(words_of(flag.spec.choices).back());
}

// Every working flag, changed, under each way to resume.
TEST(Resume, EveryFlagByItsClass) {
  TrainConfig config = trained();
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    const std::string name(flag.spec.name);
    SCOPED_TRACE(name);
    const FlagTarget target = flag.target(config);
    const FlagType type = type_of(target, flag.spec.type);
    std::string then = another(flag, type);
    if (then == phalanx::text_of(target)) then = words_of(flag.spec.choices).front();

    const Answer plain = answer(config, name, then);
    TrainConfig permits = config;
    permits.run.allow_changed = {name};
    const Answer permitted = answer(permits, name, then);
    TrainConfig finetunes = with_flags(config, "--finetune");
    const Answer anew = answer(finetunes, name, then);
    TrainConfig overrides = with_flags(config, "--override-opt_param-scheduler");
    const Answer overridden = answer(overrides, name, then);

    switch (flag.spec.resume) {
      case ResumeClass::kFree:
        EXPECT_EQ(plain.error + plain.log, "no error");
        break;
      case ResumeClass::kWarned:
        EXPECT_EQ(plain.error, "no error");
        EXPECT_THAT(plain.log,
                    AllOf(HasSubstr("warning: " + name), HasSubstr("made with " + then)));
        EXPECT_EQ(anew.log, "");
        break;
      case ResumeClass::kSchedule:
        EXPECT_EQ(plain.error + plain.log, "no error");
        EXPECT_THAT(overridden.log, HasSubstr("warning: " + name));
        EXPECT_EQ(anew.log, "");
        break;
      case ResumeClass::kState:
        EXPECT_THAT(plain.error, AllOf(HasSubstr("made with " + then), HasSubstr(name),
                                       HasSubstr("--no-load-optim")));
        EXPECT_EQ(anew.error + anew.log, "no error");
        break;
      case ResumeClass::kFixed:
        EXPECT_THAT(plain.error, AllOf(HasSubstr(name + " is "), HasSubstr("made with " + then),
                                       HasSubstr("--finetune"), HasSubstr("--allow-changed")));
        EXPECT_EQ(anew.error + anew.log, "no error");
        EXPECT_EQ(permitted.error, "no error");
        EXPECT_THAT(permitted.log, HasSubstr("warning: " + name));
        break;
      case ResumeClass::kShape:
        EXPECT_THAT(plain.error, AllOf(HasSubstr(name + " is "), HasSubstr("made with " + then)));
        EXPECT_EQ(anew.error, plain.error);
        EXPECT_EQ(permitted.error, "no error");
        EXPECT_THAT(permitted.log, HasSubstr("warning: " + name));
        break;
    }
  }
}

TEST(Resume, ValuesAreComparedAsValues) {
  TrainConfig config = trained();
  config.data.split = "90, 10,0";
  EXPECT_EQ(answer(config, "--split", "90,10,0").error, "no error");
  EXPECT_EQ(answer(config, "--split", "90/10/0.0").error, "no error");
  EXPECT_THAT(answer(config, "--split", "90,9,1").error, HasSubstr("--split is 90,10,0"));
  EXPECT_EQ(answer(trained(), "--norm-epsilon", "0.00001").error, "no error");
  EXPECT_EQ(answer(trained(), "--num-layers", "002").error, "no error");
}

TEST(Resume, AllDifferencesAreTold) {
  Manifest manifest = manifest_of(trained());
  manifest.arguments["--num-layers"] = "3";
  manifest.arguments["--seed"] = "9";
  manifest.arguments["schedule.max_lr"] = "0.5";
  EXPECT_THAT(error_of<ConfigError>([&] { check_resume(trained(), manifest); }),
              AllOf(HasSubstr("--num-layers is 2"), HasSubstr("--seed is 1234"),
                    ContainsRegex("\n  --lr +0.001 +0.5\n")));
}

// The result of resuming with these flags from a checkpoint made with other flags.
std::string come_to(const TrainConfig& now, const Manifest& then) {
  return error_of<ConfigError>([&] { check_resume(now, then); });
}

TrainConfig stable() {
  TrainConfig c =
      with_flags(trained(), "--lr-decay-style WSD --lr-wsd-decay-iters 25 --decoupled-lr 5e-3");
  resolve(c, true);
  return c;
}

// Every field of a schedule: stored, compared, shown and taken from the checkpoint.
TEST(Resume, SchedulesAreComparedFieldByField) {
  struct Case {
    const char* name;
    void (*change)(OptimizerConfig&);
    const char* row;  // this run's value and the checkpoint's
  };
  const Case cases[] = {
      {"lr", [](OptimizerConfig& o) { o.lr = 2e-3; }, "--lr +0.002 +0.001"},
      {"min", [](OptimizerConfig& o) { o.min_lr = 1e-4; }, "--min-lr +0.0001 +0"},
      {"init", [](OptimizerConfig& o) { o.lr_warmup_init = 1e-4; }, "--lr-warmup-init +0.0001 +0"},
      {"warm-up", [](OptimizerConfig& o) { o.lr_warmup_iters = 3; }, "warm-up in samples +24 +0"},
      {"decay", [](OptimizerConfig& o) { o.lr_decay_iters = 50; },
       "decay of the learning rate in samples +400 +800"},
      {"wsd", [](OptimizerConfig& o) { o.lr_wsd_decay_iters = 30; },
       "last decay of WSD in samples +240 +200"},
      {"wsd style", [](OptimizerConfig& o) { o.lr_wsd_decay_style = "cosine"; },
       "--lr-wsd-decay-style +cosine +exponential"},
      {"decoupled", [](OptimizerConfig& o) { o.decoupled_lr = 4e-3; },
       "--decoupled-lr +0.004 +0.005"},
      {"decoupled min", [](OptimizerConfig& o) { o.decoupled_min_lr = 1e-5; },
       "--decoupled-min-lr +1e-05 +0"},
      {"not decoupled", [](OptimizerConfig& o) { o.decoupled_lr.reset(); },
       "--decoupled-lr +not given +0.005"},
      {"weight decay",
       [](OptimizerConfig& o) {
         o.weight_decay = 0.5;
         o.start_weight_decay.reset();
         o.end_weight_decay.reset();
       },
       "first weight decay +0.5 +0.01"},
  };
  const Manifest manifest = manifest_of(stable());
  const ParameterSchedule then = parameter_schedule(stable());
  EXPECT_EQ(come_to(stable(), manifest), "no error");
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    TrainConfig c = stable();
    one.change(c.optimizer);
    resolve(c, true);
    EXPECT_THAT(come_to(c, manifest), AllOf(ContainsRegex(" +this run +checkpoint\n"),
                                            ContainsRegex(std::string("\n  ") + one.row + "\n"),
                                            HasSubstr("--override-opt_param-scheduler"),
                                            HasSubstr("--use-checkpoint-opt_param-scheduler")));
    c.optimizer.override_opt_param_scheduler = true;
    EXPECT_EQ(schedule_arguments(check_resume(c, manifest)),
              schedule_arguments(parameter_schedule(c)));
    set_flags(c, "--override-opt_param-scheduler false --use-checkpoint-opt_param-scheduler");
    const ParameterSchedule kept = check_resume(c, manifest);
    EXPECT_EQ(schedule_arguments(kept), schedule_arguments(then));
    // Also the weight decay of the first step.
    EXPECT_EQ(kept.weight_decay(40), then.weight_decay(40));
  }
}

// Older checkpoints have no entries for WSD, decoupled rates and other optimizers.
TEST(Resume, OlderCheckpointsGoOn) {
  Manifest older = manifest_of(trained());
  for (const char* const flag :
       {"--lr-wsd-decay-iters", "--lr-wsd-decay-samples", "--lr-wsd-decay-style", "--decoupled-lr",
        "--decoupled-min-lr", "--optimizer", "--sgd-momentum"}) {
    EXPECT_EQ(older.arguments.erase(flag), 1U) << flag;
  }
  for (const auto& [key, value] : older.arguments) {
    EXPECT_THAT(key, Not(HasSubstr("decoupled"))) << value;
    EXPECT_THAT(key, Not(HasSubstr("wsd"))) << value;
  }
  EXPECT_EQ(come_to(trained(), older), "no error");
  EXPECT_THAT(come_to(stable(), older), ContainsRegex("--lr-decay-style +WSD +linear\n"));
  TrainConfig sgd = with_flags(trained(), "--optimizer sgd");
  EXPECT_THAT(come_to(sgd, older),
              AllOf(HasSubstr("the optimizer is sgd with momentum"), HasSubstr("made with adam"),
                    HasSubstr("--no-load-optim")));
}

TEST(Resume, AnotherOptimizerBeginsAnewOrNotAtAll) {
  const auto sgd = [](double momentum) {
    TrainConfig c = with_flags(trained(), "--optimizer sgd");
    c.optimizer.sgd_momentum = momentum;
    return c;
  };
  EXPECT_EQ(come_to(sgd(0.9), manifest_of(sgd(0.5))), "no error");
  EXPECT_THAT(come_to(sgd(0.9), manifest_of(sgd(0.0))),
              AllOf(HasSubstr("sgd with momentum"), HasSubstr("made with sgd without momentum"),
                    HasSubstr("--sgd-momentum")));
  EXPECT_THAT(come_to(sgd(0.0), manifest_of(sgd(0.9))), HasSubstr("made with sgd with momentum"));
  EXPECT_THAT(come_to(trained(), manifest_of(sgd(0.9))),
              AllOf(HasSubstr("the optimizer is adam"), HasSubstr("--no-load-optim")));
  TrainConfig anew = with_flags(trained(), "--no-load-optim");
  EXPECT_EQ(come_to(anew, manifest_of(sgd(0.9))), "no error");
  // An imported model has no optimizer state.
  Manifest imported = manifest_of(trained());
  imported.iteration = 0;
  EXPECT_EQ(come_to(sgd(0.9), imported), "no error");
  TrainConfig permits = with_flags(sgd(0.9), "--allow-changed optimizer");
  EXPECT_THAT(error_of<ConfigError>([&] { resolve(permits, true); }), HasSubstr("--no-load-optim"));
}

// Each flag that a manifest lacks: the run may have what programs without the flag did, and nothing
// else. Changed alone it may contradict others, which is no matter here.
TEST(Resume, WhatAnOlderCheckpointLacksWasTheDefault) {
  const TrainConfig usual = trained();
  std::set<std::string> compared_otherwise;
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    const std::string name(flag.spec.name);
    SCOPED_TRACE(name);
    Manifest older = manifest_of(usual);
    older.arguments.erase(name);
    testing::internal::CaptureStderr();
    EXPECT_EQ(come_to(usual, older), "no error");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");

    TrainConfig changed = usual;
    const FlagTarget target = flag.target(changed);
    const FlagType type = type_of(target, flag.spec.type);
    const std::string before = phalanx::text_of(target);
    std::string now = another(flag, type);
    if (now == before) now = words_of(flag.spec.choices).front();
    if (assign(target, type, words_of_text(type, now))) continue;
    testing::internal::CaptureStderr();
    const std::string error = come_to(changed, older);
    const std::string log = testing::internal::GetCapturedStderr();
    const std::string said = "made by a program without this flag, as with";
    switch (flag.spec.resume) {
      case ResumeClass::kFixed:
      case ResumeClass::kShape:
        if (error.find(name + " is ") == error.npos) {
          compared_otherwise.insert(name);
        } else {
          EXPECT_THAT(error, HasSubstr(said));
        }
        break;
      case ResumeClass::kWarned:
        if (log.find("warning: " + name) == log.npos) {
          compared_otherwise.insert(name);
        } else {
          EXPECT_THAT(log, HasSubstr(said));
        }
        break;
      default:
        break;
    }
  }
  // Required ones, and those that others decide.
  EXPECT_THAT(
      compared_otherwise,
      testing::ElementsAre("--decoder-num-layers", "--ffn-hidden-size", "--global-batch-size",
                           "--hidden-size", "--kv-channels", "--max-position-embeddings",
                           "--micro-batch-size", "--moe-ffn-hidden-size", "--num-attention-heads",
                           "--num-layers", "--num-query-groups", "--seq-length", "--sum-block-size",
                           "--train-iters", "--window-attn-skip-freq"));
}

TEST(Resume, AnOlderCheckpointIsNotTakenForAnImportedOne) {
  TrainConfig c = with_flags(trained(), "--pack-documents greedy --attention-dropout 0.2");
  Manifest manifest = manifest_of(trained());
  for (const char* const flag : {"--pack-documents", "--attention-dropout"}) {
    manifest.arguments.erase(flag);
  }
  testing::internal::CaptureStderr();
  EXPECT_THAT(come_to(c, manifest),
              HasSubstr("--pack-documents is greedy, but the checkpoint of iteration 5 was made by "
                        "a program without this flag, as with wrapped"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("as with 0.1"));
  // What is imported has no order of documents and no dropout.
  manifest.iteration = 0;
  testing::internal::CaptureStderr();
  EXPECT_EQ(come_to(c, manifest), "no error");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// A checkpoint of a program that knew --swiglu alone.
TEST(Resume, AnOlderActivationIsUnderstood) {
  TrainConfig swiglu = with_flags(trained(), "--swiglu");
  resolve(swiglu, true);
  Manifest older = manifest_of(swiglu);
  for (const char* const flag : {"--activation-func", "--gated-linear-unit", "--squared-relu"}) {
    EXPECT_EQ(older.arguments.erase(flag), 1U) << flag;
  }
  EXPECT_EQ(come_to(swiglu, older), "no error");
  EXPECT_THAT(come_to(trained(), older), HasSubstr("--activation-func is gelu"));
}

// A text that was not given is a value, too.
TEST(Resume, ATextThatWasNotGivenIsCompared) {
  TrainConfig c = trained();
  c.data.chat_template_args = "{\"thinking\": false}";
  EXPECT_THAT(come_to(c, manifest_of(trained())),
              HasSubstr("--chat-template-args is {\"thinking\": false}, but the checkpoint of "
                        "iteration 5 was made without it"));
}

// A run of 100 iterations, of which the first five had batches of 8.
TEST(Resume, OtherBatchesBeforeAreSaid) {
  const Manifest manifest = manifest_of(trained());
  const auto note = [&](const std::string& flags) {
    const TrainConfig config = with_flags(
        trained(), "--override-opt_param-scheduler --allow-changed global-batch-size " + flags);
    testing::internal::CaptureStderr();
    check_resume(config, manifest);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(note("--global-batch-size 16"),
              AllOf(HasSubstr("100 iterations for 1600 samples"), HasSubstr("until iteration 5"),
                    HasSubstr("ends after 1560 samples"), HasSubstr("--lr-decay-iters 98")));
  EXPECT_THAT(note("--global-batch-size 8"), Not(HasSubstr("iterations for")));
  EXPECT_THAT(note("--global-batch-size 16 --lr-decay-style constant"),
              Not(HasSubstr("iterations for")));
  EXPECT_THAT(note("--global-batch-size 16 --train-iters 5"), Not(HasSubstr("iterations for")));
}

// Schedules that begin anew have the batches of the iterations that are left.
TEST(Resume, SchedulesAnewCountByTheirOwnBatches) {
  const std::string ramp = "--rampup-batch-size 2 2 40 --lr-warmup-iters 3 --train-iters 20";
  Manifest manifest = manifest_of(with_flags(trained(), ramp));
  EXPECT_EQ(check_resume(with_flags(trained(), ramp), manifest).warmup_samples, 6);
  EXPECT_EQ(check_resume(with_flags(trained(), ramp + " --no-load-optim"), manifest).warmup_samples,
            24);
  EXPECT_EQ(check_resume(with_flags(trained(), ramp + " --finetune"), manifest).warmup_samples, 6);
}

TEST(Resume, PermissionIsByAnySpelling) {
  RunConfig run;
  run.allow_changed = {"seed", "--vocab_file"};
  EXPECT_TRUE(is_allowed_to_change(run, "--seed"));
  EXPECT_TRUE(is_allowed_to_change(run, "--vocab-file"));
  EXPECT_FALSE(is_allowed_to_change(run, "--num-layers"));
}

// A checkpoint of a program without --sum-block-size: a note where its sums were added otherwise.
TEST(Resume, OlderSumsWereFromLeftToRight) {
  Manifest manifest = manifest_of(trained());
  manifest.arguments.erase("--sum-block-size");
  const auto note = [&](std::int64_t ranks, std::int64_t block, const std::string& flags = {}) {
    TrainConfig config = with_flags(trained(), flags);
    config.layout.world_size = ranks;
    config.layout.sum_block_size = block;
    testing::internal::CaptureStderr();
    check_resume(config, manifest);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(note(16, 8), AllOf(HasSubstr("from left to right"), HasSubstr("blocks of 8"),
                                 HasSubstr("--sum-block-size 16 adds as before")));
  EXPECT_EQ(note(8, 8), "");
  EXPECT_EQ(note(16, 16), "");
  EXPECT_EQ(note(16, 8, "--finetune"), "");
  manifest.arguments["--sum-block-size"] = "8";
  EXPECT_EQ(note(16, 8), "");
}

// The family of products, from the flag and from the checkpoint.
TEST(Resume, ProductsAreTheCheckpoints) {
  TrainConfig config = with_flags(trained(), "--bf16");
  Manifest manifest = manifest_of(trained());
  const auto come_to = [&](const std::string& asked, const std::string& then) -> std::string {
    config.model.matmul_precision = asked;
    manifest.matmul_precision = then;
    try {
      return resumed_precision(config, manifest);
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(come_to("auto", "fp32"), "fp32");
  EXPECT_EQ(come_to("fp32", "fp32"), "fp32");
  EXPECT_EQ(come_to("auto", "auto"), "auto");
  EXPECT_EQ(come_to("bf16", "auto"), "bf16");
  EXPECT_THAT(come_to("bf16", "fp32"),
              AllOf(HasSubstr("--matmul-precision is bf16"), HasSubstr("made with fp32"),
                    HasSubstr("give the same value, --finetune"),
                    HasSubstr("--allow-changed matmul-precision")));
  {
    const cpu::ForcedTarget forced(cpu::Target::kScalar);
    for (const char* const asked : {"auto", "fp32"}) {
      EXPECT_THAT(come_to(asked, "amx2"),
                  AllOf(HasSubstr("made with --matmul-precision amx2"), HasSubstr("target scalar"),
                        HasSubstr("has fp32"), HasSubstr("--allow-changed matmul-precision")));
    }
    config.run.allow_changed = {"matmul-precision"};
    EXPECT_EQ(come_to("auto", "amx2"), "auto");
  }
  EXPECT_EQ(come_to("bf16", "fp32"), "bf16");
  // A family that was given up; every machine lacks it.
  EXPECT_EQ(come_to("auto", "amx"), "auto");
  config.run.allow_changed = {};
  for (const char* const asked : {"auto", "fp32", "amx2"}) {
    EXPECT_THAT(come_to(asked, "amx"),
                AllOf(HasSubstr("family amx of a program before"), HasSubstr("amx2"),
                      HasSubstr("--finetune"), HasSubstr("--allow-changed matmul-precision")));
  }
  set_flags(config, "--allow-changed --finetune");
  EXPECT_EQ(come_to("bf16", "fp32"), "bf16");
}

TEST(Resume, OnlyFlagsThatAreThereCanBePermitted) {
  TrainConfig config = with_flags(trained(), "--allow-changed seeds");
  EXPECT_THROW(resolve(config, true), ConfigError);
  config.run.allow_changed = {"lr"};
  EXPECT_THAT(error_of<ConfigError>([&] { resolve(config, true); }),
              HasSubstr("--override-opt_param-scheduler"));
}

}  // namespace
}  // namespace phalanx
