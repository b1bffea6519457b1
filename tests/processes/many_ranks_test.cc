// Many ranks on one machine, however few cores it has: minutes of processor time.

#include <cstdlib>

#include "processes_test.h"

namespace phalanx::processes {
namespace {

class ManyRanks : public ProcessesTest {
 protected:
  void SetUp() override {
    if (std::getenv("PHALANX_NIGHTLY") == nullptr) {
      GTEST_SKIP() << "takes minutes: ./test --nightly";
    }
    prepare();
  }
  // Tensor 4, pipeline 4, the rest data-parallel.
  static std::string flags(int ranks, const std::string& save) {
    return fmt::format(
        "{} --num-layers 4 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 "
        "--global-batch-size {} --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 "
        "--use-distributed-optimizer --train-iters 3 --lr-decay-iters 3 --eval-interval 3 "
        "--log-interval 1 --allow-overcommit --save {} --save-interval 3 ",
        model(), ranks / 8, save);
  }
  // Longer than kLimit: the cores are few.
  static void expect_success(ChildProcess& process) {
    EXPECT_EQ(process.wait(300s), 0) << process.out() << process.err();
  }
};

TEST_F(ManyRanks, AreThreads) {
  const ProgramOutput output = run("pretrain gpt " + flags(256, "threads") + "--nproc 256");
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(metrics("threads").size(), 3U);
}

TEST_F(ManyRanks, AreProcessesWithTheBitsOfThreads) {
  const ProgramOutput output = run("pretrain gpt " + flags(64, "threads") + "--nproc 64");
  ASSERT_EQ(output.status, 0) << output.err;
  ChildProcess launcher = launch("launch", "--nproc-per-node 64", flags(64, "processes"));
  expect_success(launcher);
  EXPECT_EQ(results("processes"), results("threads"));
  EXPECT_EQ(digest("processes"), digest("threads"));

  const std::string words = fmt::format(
      "--nproc-per-node 32 --nnodes 2 --master-addr 127.0.0.1 --master-port {} --rdzv-insecure "
      "--node-rank ",
      free_port());
  ChildProcess first = launch("first", words + "0", flags(64, "hosts"));
  ChildProcess second = launch("second", words + "1", flags(64, "hosts"));
  expect_success(first);
  expect_success(second);
  EXPECT_EQ(results("hosts"), results("threads"));
  EXPECT_EQ(digest("hosts"), digest("threads"));
}

}  // namespace
}  // namespace phalanx::processes
