// States that data-parallel ranks share, as people ask for them.

#include <string>

#include "program_test.h"

namespace phalanx {
namespace {

class ZeroProgramTest : public ProgramTest {};

// Stage 3 in its spellings is one run, and with one microbatch a step, that of every other stage.
TEST_F(ZeroProgramTest, EverySpellingMakesTheSameRun) {
  prepare();
  const std::string words = "pretrain gpt " + training() +
                            "--threads-per-rank 1 --nproc 2 --train-iters 4 --lr-decay-iters 4 "
                            "--save-interval 4 ";
  const auto trained = [&](const std::string& flags, const std::string& save) {
    const ProgramOutput output = run(words + flags + " --save " + save);
    EXPECT_EQ(output.status, 0) << flags << "\n" << output.err;
    return run_json("checkpoint digest " + save + " --json");
  };
  const Json plain = trained("", "plain");
  const std::string small = " --zero-persistence-threshold 100 ";
  int number = 0;
  for (const std::string& flags :
       {"--zero-stage 3" + small, "--use-megatron-fsdp" + small,
        std::string("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward"),
        "--data-parallel-sharding-strategy optim_grads_params --overlap-grad-reduce" + small,
        std::string("--zero-stage 2"), std::string("--data-parallel-sharding-strategy optim"),
        "--zero-stage 3 --zero-accumulate-unsharded --zero-prefetch-depth 2" + small}) {
    EXPECT_EQ(trained(flags, std::to_string(number++)), plain) << flags;
  }
  // One rank writes on with what two have trained in parts.
  const std::string prompt = "generate --prompt 'And the' --max-tokens 8 --seed 3 --load ";
  const ProgramOutput text = run(prompt + "0");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out, run(prompt + "plain").out);
}

TEST_F(ZeroProgramTest, WhatIsNotPossibleNamesTheFlags) {
  const std::string words = "plan gpt " + training() + "--nproc 4 --global-batch-size 16 ";
  expect_error(words + "--zero-stage 4", 78, "--zero-stage");
  expect_error(words + "--zero-stage 3 --pipeline-model-parallel-size 2", 78,
               "--pipeline-model-parallel-size 2");
  expect_error(words + "--zero-stage 2 --pipeline-model-parallel-size 2", 78,
               "--zero-accumulate-unsharded");
  expect_error(words + "--zero-stage 3 --num-distributed-optimizer-instances 3", 78,
               "--num-distributed-optimizer-instances 3");
  expect_error(words + "--zero-stage 2 --zero-prefetch-depth 2", 78, "--zero-prefetch-depth");
  expect_error(words + "--zero-stage 1 --data-parallel-sharding-strategy optim", 78,
               "--data-parallel-sharding-strategy");
}

}  // namespace
}  // namespace phalanx
