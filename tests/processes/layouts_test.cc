// Ranks that are processes train as ranks that are threads do, to the bit: by shared memory, and by
// TCP between launchers of different nodes, which are different hosts though they are one machine.

#include "processes_test.h"

namespace phalanx::processes {
namespace {

struct Layout {
  const char* name;
  int ranks;
  const char* flags;
};

// GoogleTest calls it.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.flags; }

constexpr Layout kLayouts[] = {
    {"Tensor2", 2, "--tensor-model-parallel-size 2"},
    {"Pipeline2", 2, "--pipeline-model-parallel-size 2 --pipeline-schedule zb-h1"},
    {"Data2Sharded", 2, "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"},
    {"Tensor2Pipeline2", 4,
     "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel"},
    {"Tensor2Data2Bf16", 4,
     "--tensor-model-parallel-size 2 --bf16 --matmul-precision fp32 --recompute-granularity full "
     "--recompute-method uniform --micro-batch-size 1"},
    {"Experts2", 2,
     "--num-experts 4 --moe-ffn-hidden-size 32 --moe-aux-loss-coeff 1e-2 "
     "--expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall "
     "--moe-planned-imbalance 1"},
};

class Layouts : public ProcessesTest, public testing::WithParamInterface<Layout> {
 protected:
  // What the layout's runs have in common.
  std::string flags(const std::string& save) const {
    return model() + GetParam().flags + " --save " + save + " --save-interval 4 ";
  }
  void by_threads(const std::string& more) const {
    const ProgramOutput output =
        run(fmt::format("pretrain gpt {} --nproc {}", more, GetParam().ranks));
    ASSERT_EQ(output.status, 0) << output.err;
  }
  void by_shared_memory(const std::string& more) const {
    ChildProcess launcher =
        launch("launch", fmt::format("--nproc-per-node {}", GetParam().ranks), more);
    expect_end(launcher, 0);
    expect_clean();
  }
  void by_tcp(const std::string& more) const {
    const std::string words = fmt::format(
        "--nproc-per-node {} --nnodes 2 --master-addr 127.0.0.1 --master-port {} "
        "--rdzv-insecure --node-rank ",
        GetParam().ranks / 2, free_port());
    ChildProcess first = launch("first", words + "0", more);
    ChildProcess second = launch("second", words + "1", more);
    expect_end(first, 0);
    expect_end(second, 0);
    expect_clean();
  }
  void expect_same(const std::string& save) const {
    EXPECT_EQ(results(save), results("threads"));
    EXPECT_EQ(digest(save), digest("threads"));
  }
};

TEST_P(Layouts, HaveTheBitsOfThreads) {
  prepare();
  by_threads(flags("threads"));
  EXPECT_EQ(metrics("threads").size(), 8U);
  by_shared_memory(flags("shared_memory"));
  expect_same("shared_memory");
  by_tcp(flags("tcp"));
  expect_same("tcp");
}

INSTANTIATE_TEST_SUITE_P(Covering, Layouts, testing::ValuesIn(kLayouts),
                         [](const auto& layout) { return std::string(layout.param.name); });

// Half of the run as one, half as the other.
class Resuming : public Layouts {};

TEST_P(Resuming, ACheckpointGoesOnUnderTheOther) {
  prepare();
  by_threads(flags("threads"));
  const auto go_on = [&](const std::string& save) { return flags(save) + "--load " + save; };
  const std::string half = " --exit-interval 4";
  by_threads(flags("first_threads") + half);
  by_tcp(go_on("first_threads"));
  expect_same("first_threads");
  by_shared_memory(flags("first_processes") + half);
  by_threads(go_on("first_processes"));
  expect_same("first_processes");
}

INSTANTIATE_TEST_SUITE_P(Covering, Resuming, testing::Values(kLayouts[2], kLayouts[3]),
                         [](const auto& layout) { return std::string(layout.param.name); });

// On one host ranks meet and talk without any port.
TEST_F(ProcessesTest, OnOneHostNoTcpPortIsOpened) {
  if (!has_own_machine()) GTEST_SKIP() << "needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
  prepare();
  ChildProcess launcher = launch("launch", "--nproc-per-node 2",
                                 endless() + "--tensor-model-parallel-size 2 --save run");
  ASSERT_TRUE(has_begun("run")) << launcher.err();
  EXPECT_EQ(listening_tcp_sockets(), "");
  launcher.signal(SIGTERM);
  expect_end(launcher, 85);
  ChildProcess rank_0 = start_rank(0, 2, endless() + "--save by_hand");
  ChildProcess rank_1 = start_rank(1, 2, endless() + "--save by_hand");
  ASSERT_TRUE(has_begun("by_hand")) << rank_0.err() << rank_1.err();
  EXPECT_EQ(listening_tcp_sockets(), "");
  rank_1.signal(SIGTERM);  // of any rank
  expect_end(rank_0, 85);
  expect_end(rank_1, 85);
  expect_clean("run");
}

}  // namespace
}  // namespace phalanx::processes
