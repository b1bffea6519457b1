#include "phalanx/train/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/flags.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainConfig trained() {
  TrainConfig c;
  c.model.num_layers = 2;
  c.model.hidden_size = 64;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 32;
  c.data.seq_length = 32;
  c.layout.micro_batch_size = 2;
  c.layout.global_batch_size = 8;
  c.layout.threads_per_rank = 1;
  c.run.train_iters = 100;
  c.optimizer.lr = 1e-3;
  c.data.data_path = {"data"};
  resolve(c, true);
  return c;
}

Manifest manifest_of(const TrainConfig& config) {
  Manifest manifest;
  manifest.iteration = 5;
  manifest.arguments = schedule_arguments(parameter_schedule(config));
  for (const auto& [flag, value] : argument_values(config)) manifest.arguments[flag] = value;
  return manifest;
}

struct Answer {
  std::string error = "accepted";
  std::string log;
};

// What becomes of a run that goes on with another value of one flag. The checkpoint is what is
// changed, so that the run itself stays possible.
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

// Every flag that works, changed, under each of the ways to go on.
TEST(Resume, EveryFlagByItsClass) {
  TrainConfig config = trained();
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    const std::string name(flag.spec.name);
    SCOPED_TRACE(name);
    const FlagTarget target = flag.target(config);
    const FlagType type = type_of(target, flag.spec.type);
    std::string then = another(flag, type);
    if (then == text_of(target)) then = words_of(flag.spec.choices).front();

    const Answer plain = answer(config, name, then);
    TrainConfig permits = config;
    permits.run.allow_changed = {name};
    const Answer permitted = answer(permits, name, then);
    TrainConfig finetunes = config;
    finetunes.run.finetune = true;
    const Answer anew = answer(finetunes, name, then);
    TrainConfig overrides = config;
    overrides.optimizer.override_opt_param_scheduler = true;
    const Answer overridden = answer(overrides, name, then);

    switch (flag.spec.resume) {
      case ResumeClass::kFree:
        EXPECT_EQ(plain.error + plain.log, "accepted");
        break;
      case ResumeClass::kWarned:
        EXPECT_EQ(plain.error, "accepted");
        EXPECT_THAT(plain.log,
                    AllOf(HasSubstr("warning: " + name), HasSubstr("made with " + then)));
        EXPECT_EQ(anew.log, "");
        break;
      case ResumeClass::kSchedule:
        EXPECT_EQ(plain.error + plain.log, "accepted");
        EXPECT_THAT(overridden.log, HasSubstr("warning: " + name));
        EXPECT_EQ(anew.log, "");
        break;
      case ResumeClass::kFixed:
        EXPECT_THAT(plain.error, AllOf(HasSubstr(name + " is "), HasSubstr("made with " + then),
                                       HasSubstr("--finetune"), HasSubstr("--allow-changed")));
        EXPECT_EQ(anew.error + anew.log, "accepted");
        EXPECT_EQ(permitted.error, "accepted");
        EXPECT_THAT(permitted.log, HasSubstr("warning: " + name));
        break;
      case ResumeClass::kShape:
        EXPECT_THAT(plain.error, AllOf(HasSubstr(name + " is "), HasSubstr("made with " + then)));
        EXPECT_EQ(anew.error, plain.error);
        EXPECT_EQ(permitted.error, "accepted");
        EXPECT_THAT(permitted.log, HasSubstr("warning: " + name));
        break;
    }
  }
}

TEST(Resume, ValuesAreComparedAsValues) {
  TrainConfig config = trained();
  config.data.split = "90, 10,0";
  EXPECT_EQ(answer(config, "--split", "90,10,0").error, "accepted");
  EXPECT_EQ(answer(config, "--split", "90/10/0.0").error, "accepted");
  EXPECT_THAT(answer(config, "--split", "90,9,1").error, HasSubstr("--split is 90,10,0"));
  EXPECT_EQ(answer(trained(), "--norm-epsilon", "0.00001").error, "accepted");
  EXPECT_EQ(answer(trained(), "--num-layers", "002").error, "accepted");
}

TEST(Resume, AllDifferencesAreTold) {
  Manifest manifest = manifest_of(trained());
  manifest.arguments["--num-layers"] = "3";
  manifest.arguments["--seed"] = "9";
  manifest.arguments["schedule.max_lr"] = "0.5";
  try {
    check_resume(trained(), manifest);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--num-layers is 2"), HasSubstr("--seed is 1234"),
                                    HasSubstr("--lr is 0.001 (0.5 in the checkpoint)")));
  }
}

// What older checkpoints do not say is not compared.
TEST(Resume, SilenceIsNoDifference) {
  Manifest manifest = manifest_of(trained());
  for (const auto& [name, value] : argument_values(trained())) manifest.arguments.erase(name);
  EXPECT_NO_THROW(check_resume(trained(), manifest));
}

TEST(Resume, PermissionIsByAnySpelling) {
  RunConfig run;
  run.allow_changed = {"seed", "--vocab_file"};
  EXPECT_TRUE(is_allowed_to_change(run, "--seed"));
  EXPECT_TRUE(is_allowed_to_change(run, "--vocab-file"));
  EXPECT_FALSE(is_allowed_to_change(run, "--num-layers"));
}

// What a run multiplies with, by what it asks for and what its checkpoint was made with.
TEST(Resume, ProductsAreTheCheckpoints) {
  TrainConfig config = trained();
  config.model.bf16 = true;
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
      EXPECT_THAT(come_to(asked, "amx"),
                  AllOf(HasSubstr("made with --matmul-precision amx"), HasSubstr("target scalar"),
                        HasSubstr("has fp32"), HasSubstr("--allow-changed matmul-precision")));
    }
    config.run.allow_changed = {"matmul-precision"};
    EXPECT_EQ(come_to("auto", "amx"), "auto");
  }
  EXPECT_EQ(come_to("bf16", "fp32"), "bf16");
  config.run.allow_changed.clear();
  config.run.finetune = true;
  EXPECT_EQ(come_to("bf16", "fp32"), "bf16");
}

TEST(Resume, OnlyFlagsThatAreThereCanBePermitted) {
  TrainConfig config = trained();
  config.run.allow_changed = {"seeds"};
  EXPECT_THROW(resolve(config, true), ConfigError);
  config.run.allow_changed = {"lr"};
  try {
    resolve(config, true);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--override-opt_param-scheduler"));
  }
}

}  // namespace
}  // namespace phalanx
