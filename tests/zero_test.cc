// States that data-parallel ranks share, as people ask for them.

#include <algorithm>
#include <string>

#include "program_test.h"
#include "tests/paths.h"

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

TEST_F(ZeroProgramTest, PlansAreDrawn) {
  const std::string words = "plan gpt " + training() + "--nproc 4 --global-batch-size 16 ";
  const ProgramOutput drawn = run(words + "--zero-stage 3 --svg a.svg --timeline b.svg --json");
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(Json::parse(drawn.out).at("ranks").size(), 4U);
  EXPECT_EQ(read("a.svg").substr(0, 5), "<svg ");
  EXPECT_NE(read("b.svg").find("a step of rank 0 of 4, ZeRO stage 3"), std::string::npos);
  const ProgramOutput compared =
      run(words + "--compare 'zero-stage=1| zero-stage=3 nproc=2 |' --svg c.svg");
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_EQ(std::ranges::count(compared.out, '\n'), 3) << compared.out;
  EXPECT_NE(compared.out.find("--zero-stage 3 --nproc 2, each of 2 ranks"), std::string::npos)
      << compared.out;
  EXPECT_NE(compared.out.find("as it is, each of 4 ranks"), std::string::npos) << compared.out;
  EXPECT_NE(read("c.svg").find(">--zero-stage 1</text>"), std::string::npos);
}

TEST_F(ZeroProgramTest, WhatCannotBeDrawnIsOneClearError) {
  const std::string words =
      "plan gpt " + training() + "--vocab-size 64 --nproc 4 --global-batch-size 16 ";
  expect_error(words + "--compare 'zero-stage=1 | zero-stage=2'", 78, "--svg");
  expect_error(words + "--compare 'zero-stage=1' --svg a.svg --json", 78, "--json");
  expect_error(words + "--compare 'zero-stage=1' --svg a.svg --timeline b.svg", 78, "--timeline");
  expect_error(words + "--compare 'zero-stage=1 | zero-stage=9' --svg a.svg", 78,
               "--compare, of \"--zero-stage 9\"");
  expect_error(words + "--compare 'zero-stages=1' --svg a.svg", 64, "--zero-stages");
  expect_error(words + "--compare 'svg=b.svg' --svg a.svg", 64, "flags of the run alone");
  expect_error(words + "--compare 'zero-stage=1 | timeline=b.svg' --svg a.svg", 78, "--timeline");
  expect_error(words + "--svg a.svg --timeline a.svg", 64, "give two files");
  expect_error(words + "--svg nowhere/a.svg", 73, "nowhere/a.svg");
  expect_error(words + "--timeline a.svg --pipeline-model-parallel-size 2", 78, "--timeline");
}

// Every picture of the page is what its command draws.
TEST_F(ZeroProgramTest, ThePicturesAreUpToDate) {
  const ProgramOutput output =
      run_between("'" + source_path("tools/draw-zero").string() + "' --check '" + program_path() +
                      "' >drawn 2>&1 || echo bad "
                      ">>drawn",
                  "version", "");
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(read("drawn"), "") << "run tools/draw-zero and look at what it changed";
}

}  // namespace
}  // namespace phalanx
