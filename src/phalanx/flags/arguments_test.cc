#include <gtest/gtest.h>

#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

TEST(Arguments, AreWrittenAsPythonWritesThem) {
  std::int64_t layers = 24;
  double decay = 0.01;
  double epsilon = 1e-5;
  double scale = 4294967296.0;
  double clip = 1.0;
  std::optional<double> fraction;
  std::optional<double> start = 0.0;
  bool no_fusion = true;
  bool bf16 = false;
  std::string save = "/data/my runs";
  std::string load;
  std::string split = "969, 30, 1";
  std::vector<std::string> paths = {"0.3", "a's", "\\", "\"'\n"};
  std::vector<std::string> none;
  FlagSet flags("phalanx pretrain gpt", "Trains.");
  flags.add({.name = "--num-layers"}, &layers);
  flags.add({.name = "--weight-decay"}, &decay);
  flags.add({.name = "--norm-epsilon"}, &epsilon);
  flags.add({.name = "--initial-loss-scale"}, &scale);
  flags.add({.name = "--clip-grad"}, &clip);
  flags.add({.name = "--lr-warmup-fraction"}, &fraction);
  flags.add({.name = "--start-weight-decay"}, &start);
  flags.add({.name = "--no-bias-gelu-fusion"}, &no_fusion);
  flags.add({.name = "--bf16"}, &bf16);
  flags.add({.name = "--save"}, &save);
  flags.add({.name = "--load"}, &load);
  flags.add({.name = "--split", .type = FlagType::kNumbers}, &split);
  flags.add({.name = "--data-path"}, &paths);
  flags.add({.name = "--allow-changed"}, &none);
  flags.add({.name = "--override-opt_param-scheduler"}, &bf16);
  flags.add({.name = "--microbatch-group-size-per-virtual-pipeline-stage"}, &layers);
  flags.add({.name = "--a-name-that-is-longer-than-the-dots-that-follow-it"}, &layers);
  flags.add({.name = "--fused", .state = FlagState::kSatisfied, .reason = "always"});
  layers = 32;  // the value of now, not the default
  EXPECT_EQ(arguments_text(flags.rows()),
            R"(------------------------ arguments ------------------------
  a_name_that_is_longer_than_the_dots_that_follow_it  32
  allow_changed ................................... None
  bf16 ............................................ False
  clip_grad ....................................... 1.0
  data_path ....................................... ['0.3', "a's", '\\', '"\'\n']
  initial_loss_scale .............................. 4294967296.0
  load ............................................ None
  lr_warmup_fraction .............................. None
  microbatch_group_size_per_virtual_pipeline_stage  32
  no_bias_gelu_fusion ............................. True
  norm_epsilon .................................... 1e-05
  num_layers ...................................... 32
  override_opt_param_scheduler .................... False
  save ............................................ /data/my runs
  split ........................................... 969, 30, 1
  start_weight_decay .............................. 0.0
  weight_decay .................................... 0.01
-------------------- end of arguments ---------------------
)");
}

// The value in the list of one flag.
std::string listed(double value) {
  FlagSet flags("x", "X.");
  flags.add({.name = "--x"}, &value);
  const std::string text = arguments_text(flags.rows());
  const std::size_t begin = text.find(". ") + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Arguments, RealNumbersReadBackTheSame) {
  EXPECT_EQ(listed(0.1), "0.1");
  EXPECT_EQ(listed(-0.0), "-0.0");
  EXPECT_EQ(listed(1.5e-4), "0.00015");
  EXPECT_EQ(listed(0.0001), "0.0001");
  EXPECT_EQ(listed(0.00001), "1e-05");
  EXPECT_EQ(listed(6e-6), "6e-06");
  EXPECT_EQ(listed(1e15), "1000000000000000.0");
  EXPECT_EQ(listed(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(listed(1e16), "1e+16");
  EXPECT_EQ(listed(1.25e100), "1.25e+100");
  EXPECT_EQ(listed(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(listed(5e-324), "5e-324");
}

// Megatron sorts lines, in lower case: a name comes before those that it begins.
TEST(Arguments, AreSortedWithoutRegardToCase) {
  std::int64_t value = 1;
  FlagSet flags("x", "X.");
  for (const std::string_view name :
       {"--lr-decay", "--DDP-impl", "--lr", "--data", "--lr2", "--Ab"}) {
    flags.add({.name = name}, &value);
  }
  const std::string text = arguments_text(flags.rows());
  std::string names;
  for (std::size_t at = text.find("\n  "); at != std::string::npos;
       at = text.find("\n  ", at + 1)) {
    names += text.substr(at + 3, text.find(' ', at + 3) - at - 3) + " ";
  }
  EXPECT_EQ(names, "Ab data DDP_impl lr lr2 lr_decay ");
}

}  // namespace
}  // namespace phalanx
