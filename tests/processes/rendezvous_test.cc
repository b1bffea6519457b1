// Ranks that do not fit together are refused before the first step, each with its code, and with a
// line that says which rank it is and what to do.

#include <csignal>

#include "processes_test.h"
#include "tests/paths.h"

namespace phalanx::processes {
namespace {

class WithoutIPv4 {
 public:
  WithoutIPv4() { shell("ip address delete 127.0.0.1/8 dev lo"); }
  ~WithoutIPv4() { shell("ip address add 127.0.0.1/8 dev lo"); }
  WithoutIPv4(const WithoutIPv4&) = delete;
  WithoutIPv4& operator=(const WithoutIPv4&) = delete;
};

class Rendezvous : public ProcessesTest {
 protected:
  // 4 s
  static std::string impatient() {
    return model() + "--global-batch-size 12 --distributed-timeout-minutes 0.07 ";
  }
  static std::string patient() { return model() + "--distributed-timeout-minutes 2 "; }
  // The whole line, but for names and numbers of this machine.
  static void expect_line(ChildProcess& process, int status, const std::string& line) {
    expect_end(process, status);
    EXPECT_EQ(golden_line(process), "error: phalanx pretrain gpt: " + line) << process.name();
  }
  static void expect_error(ChildProcess& process, int status,
                           const std::vector<std::string>& mentions) {
    expect_end(process, status);
    for (const std::string& mention : mentions) {
      EXPECT_THAT(last_line(process), HasSubstr(mention)) << process.name();
    }
  }
  void write_secret(const std::string& name, const std::string& text) const {
    write(name, text);
    std::filesystem::permissions(directory_ / name, std::filesystem::perms::owner_read);
  }
};

TEST_F(Rendezvous, ARankIsMissing) {
  prepare();
  ChildProcess rank_0 = start_rank(0, 3, impatient());
  ChildProcess rank_2 = start_rank(2, 3, impatient());
  const std::string missing_1 =
      "not all ranks have come within 4.2 s: 2/3 joined, missing rank 1 (host HOST)";
  expect_line(rank_0, 69, missing_1);
  expect_line(rank_2, 69, missing_1);
  expect_clean();
}

TEST_F(Rendezvous, TheFirstRankIsMissing) {
  prepare();
  ChildProcess rank_1 = start_rank(1, 2, impatient());
  expect_line(rank_1, 69,
              "the coordinator at unix:phalanx-UID-none-PORT cannot be reached within 4.2 s: "
              "Connection refused; rank 0 or the first launcher listens there (MASTER_ADDR, "
              "MASTER_PORT)");
  expect_clean();
}

// The one that comes first stays.
TEST_F(Rendezvous, ARankComesTwice) {
  prepare();
  ChildProcess rank_0 = start_rank(0, 3, impatient());
  std::vector<ChildProcess> twice;
  for (const char* name : {"one", "another"}) {
    twice.push_back(start_rank(1, 3, impatient(), {}, name));
  }
  for (ChildProcess& rank : twice) ASSERT_TRUE(rank.wait(kLimit).has_value());
  const std::size_t refused = twice[0].wait(0ms) == 78 ? 0 : 1;
  expect_line(
      twice[refused], 78,
      "rank 1 joins twice: from host HOST (pid PID) and from host HOST (pid PID): each needs "
      "a number of its own (RANK, --node-rank)");
  const std::string missing =
      "not all ranks have come within 4.2 s: 2/3 joined, missing rank 2 (host HOST)";
  expect_line(twice[1 - refused], 69, missing);
  expect_line(rank_0, 69, missing);
  expect_clean();
}

TEST_F(Rendezvous, WorldSizesDiffer) {
  prepare();
  ChildProcess rank_0 = start_rank(0, 2, impatient());
  ChildProcess rank_1 =
      start_rank(1, 2, impatient(), {{"WORLD_SIZE", "3"}, {"LOCAL_WORLD_SIZE", "3"}});
  expect_line(rank_1, 78,
              "rank 1 (host HOST) counts 3 ranks, the coordinator 2: the same number on all hosts "
              "(WORLD_SIZE, --nnodes, --nproc-per-node)");
  expect_error(rank_0, 69, {"missing rank 1"});
  expect_clean();
}

TEST_F(Rendezvous, FlagsDiffer) {
  prepare();
  ChildProcess rank_0 = start_rank(0, 2, patient() + "--lr 1e-2");
  ChildProcess rank_1 = start_rank(1, 2, patient() + "--lr 2e-2");
  for (ChildProcess* rank : {&rank_0, &rank_1}) {
    expect_line(*rank, 78,
                "rank 1 (host HOST): --lr is 0.02, rank 0 has 0.01: start all ranks with the same "
                "flags, files and program");
  }
  expect_clean();
}

TEST_F(Rendezvous, DataDiffers) {
  prepare();
  const auto other = directory_ / "other";
  std::filesystem::create_directories(other);
  std::filesystem::copy(directory_ / "tok", other / "tok");
  ASSERT_EQ(
      run("preprocess-data --input text.txt --append-eod --output-prefix other/data " + tokenizer())
          .status,
      0);
  ChildProcess rank_0 = start_rank(0, 2, patient());
  // The same flags in another directory: on a real cluster, on another host.
  ChildOptions options{
      .words = {"sh", "-c", "cd other && exec \"$@\"", "sh", program_path(), "pretrain", "gpt"},
      .directory = directory_,
      .name = "rank_1",
      .environment = {{"RANK", "1"},
                      {"WORLD_SIZE", "2"},
                      {"LOCAL_RANK", "1"},
                      {"LOCAL_WORLD_SIZE", "2"},
                      {"PHALANX_TEST_RUN", run_mark()},
                      {"MASTER_PORT", std::to_string(20000 + ::getpid() % 10000)}}};
  std::istringstream words(patient());
  for (std::string word; words >> word;) options.words.push_back(word);
  ChildProcess rank_1(options);
  for (ChildProcess* rank : {&rank_0, &rank_1}) {
    expect_error(*rank, 78, {"rank 1", "the content of --data-path's .bin is"});
  }
  expect_clean();
}

TEST_F(Rendezvous, ASecondJobOnTheSamePortDisturbsNobody) {
  prepare();
  ChildProcess first_0 = start_rank(0, 2, endless() + "--save run");
  ChildProcess first_1 = start_rank(1, 2, endless() + "--save run");
  ASSERT_TRUE(has_begun("run")) << first_0.err() << first_1.err();
  ChildProcess second_0 =
      start_rank(0, 2, impatient() + "--save other --save-interval 100", {}, "second");
  expect_error(second_0, 69, {std::to_string(first_0.pid())});
  const int before = iterations("run");
  EXPECT_TRUE(eventually(kLimit, [&] { return iterations("run") > before + 1; }));
  first_0.signal(SIGTERM);
  expect_end(first_0, 85);
  expect_end(first_1, 85);
  expect_clean("run");
}

TEST_F(Rendezvous, ASecondJobOnTheSameDirectoryIsRefused) {
  prepare();
  ChildProcess first = launch("first", "--nproc-per-node 2", endless() + "--save run");
  ASSERT_TRUE(has_begun("run")) << first.err();
  ChildProcess second = launch("second", "--nproc-per-node 2", endless() + "--save run");
  expect_end(second, 75);
  EXPECT_THAT(second.err(), HasSubstr("run"));
  first.signal(SIGTERM);
  expect_end(first, 85);
  expect_clean("run");
}

TEST_F(Rendezvous, SecretsDiffer) {
  prepare();
  write_secret("secret", "0123456789abcdef");
  write_secret("wrong", "0123456789abcdeF");
  const std::string port = std::to_string(free_port());
  const auto rank = [&](int number, const std::string& secret) {
    Variables variables = host_of_its_own(number, 2, "127.0.0.1");
    variables["MASTER_PORT"] = port;
    return start_rank(number, 2, impatient() + "--rdzv-secret-file " + secret, variables);
  };
  ChildProcess rank_0 = rank(0, "secret");
  ChildProcess rank_1 = rank(1, "wrong");
  expect_line(rank_1, 77,
              "the coordinator at tcp:127.0.0.1:PORT has another secret than this process (from "
              "--rdzv-secret-file wrong): the same file on all hosts (--rdzv-secret-file)");
  expect_error(rank_0, 69, {"missing rank 1"});
  for (const ChildProcess* process : {&rank_0, &rank_1}) {
    EXPECT_THAT(process->err() + process->out(), testing::Not(HasSubstr("0123456789")));
  }
  expect_clean();
}

TEST_F(Rendezvous, ASecretThatOthersMayReadIsRefused) {
  prepare();
  write("secret", "0123456789abcdef");
  std::filesystem::permissions(directory_ / "secret", std::filesystem::perms(0644));
  ChildProcess rank = start_rank(0, 2, impatient() + "--rdzv-secret-file secret",
                                 host_of_its_own(0, 2, "127.0.0.1"));
  expect_line(rank, 77, "secret: others may read or write it (mode 0644): chmod 600 secret");
}

TEST_F(Rendezvous, SeveralHostsNeedASecret) {
  prepare();
  ChildProcess rank = start_rank(0, 2, impatient(), host_of_its_own(0, 2, "127.0.0.1"));
  expect_line(
      rank, 77,
      "the ranks are on several hosts and have no secret to know each other by: give "
      "--rdzv-secret-file FILE (the same 32 random bytes on every host), or --rdzv-insecure "
      "where nobody else reaches tcp:127.0.0.1:PORT");
  ChildProcess launcher =
      launch("launch", "--nnodes 2 --node-rank 0 --master-addr 127.0.0.1", impatient());
  expect_error(launcher, 77, {"--rdzv-secret-file", "--rdzv-insecure"});
  expect_clean();
}

// Whoever can set a variable of the environment has said nothing about secrets by it.
TEST_F(Rendezvous, ACoordinatorsAddressIsNoPermissionToDoWithoutASecret) {
  prepare();
  Variables variables = host_of_its_own(1, 2, "127.0.0.1");
  variables["PHALANX_COORDINATOR"] = fmt::format("tcp:127.0.0.1:{}", free_port());
  ChildProcess rank = start_rank(1, 2, impatient(), variables);
  expect_error(rank, 77, {"have no secret to know each other by", "--rdzv-insecure"});
  // The launcher's word for --rdzv-insecure is.
  variables["PHALANX_RDZV_INSECURE"] = "1";
  ChildProcess insecure = start_rank(1, 2, impatient(), variables, "insecure");
  expect_error(insecure, 69, {"cannot be reached"});
  variables["PHALANX_RDZV_INSECURE"] = "yes";
  ChildProcess wrong = start_rank(1, 2, impatient(), variables, "wrong");
  expect_line(wrong, 64, "PHALANX_RDZV_INSECURE=yes: 1 (as --rdzv-insecure) or 0");
}

TEST_F(Rendezvous, VariablesContradictEachOther) {
  prepare();
  ChildProcess slurm = start_rank(0, 2, impatient(),
                                  {{"SLURM_JOB_ID", "77"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_NTASKS", "4"},
                                   {"SLURM_PROCID", "3"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "1"},
                                   {"SLURM_STEP_NODELIST", "n[01-02]"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}});
  expect_line(slurm, 64,
              "RANK=0 is set, but SLURM_PROCID=3: unset RANK, or start the ranks without srun");
  ChildProcess rank = start_rank(2, 2, impatient());
  expect_line(rank, 64, "RANK=2 is not below WORLD_SIZE=2");
  ChildProcess both = start_rank(0, 2, impatient() + "--nproc 2");
  expect_error(both, 64, {"--nproc"});
}

TEST_F(Rendezvous, TheFirstHostIsUnknown) {
  prepare();
  ChildProcess rank =
      start_rank(1, 2, impatient() + "--rdzv-insecure", host_of_its_own(1, 2, "nowhere.invalid"));
  expect_error(rank, 69, {"nowhere.invalid"});
  expect_clean();
}

// As Slurm starts them: a task each.
TEST_F(Rendezvous, SlurmsTasksTrain) {
  prepare();
  std::vector<ChildProcess> tasks;
  for (const int task : {0, 1}) {
    tasks.push_back(start(fmt::format("task_{}", task),
                          "pretrain gpt " + patient() + "--save run --save-interval 100 ",
                          {{"SLURM_JOB_ID", "78"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_NTASKS", "2"},
                           {"SLURM_PROCID", std::to_string(task)},
                           {"SLURM_LOCALID", std::to_string(task)},
                           {"SLURM_NODEID", "0"},
                           {"SLURM_STEP_NODELIST", "n01"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2"}}));
  }
  for (ChildProcess& task : tasks) expect_end(task, 0);
  EXPECT_EQ(metrics("run").size(), 8U);
  expect_clean("run");
}

// Ranks meet by IPv6 alone; the payload does not: UCX 1.13 passes over interfaces without IPv4.
TEST_F(Rendezvous, IPv6AloneIsRefusedByName) {
  if (!has_own_machine()) GTEST_SKIP() << "needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
  prepare();
  const WithoutIPv4 without;
  std::vector<ChildProcess> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(start_rank(rank, 2,
                               patient() + "--rdzv-insecure --save run --save-interval 100",
                               host_of_its_own(rank, 2, "::1")));
  }
  for (ChildProcess& rank : ranks) expect_error(rank, 71, {"UCX", " on lo"});
  expect_clean("run");
}

// A host that sees another directory under the same name.
TEST_F(Rendezvous, AHostDoesNotSeeTheSaveDirectory) {
  if (!has_own_machine()) GTEST_SKIP() << "needs CAP_NET_ADMIN and CAP_SYS_ADMIN";
  prepare();
  std::filesystem::create_directories(directory_ / "shared");
  const std::string flags = patient() + "--rdzv-insecure --save shared/run --save-interval 100";
  Variables second = host_of_its_own(1, 2, "127.0.0.1");
  second["RANK"] = "1";
  second["WORLD_SIZE"] = "2";
  second["MASTER_PORT"] = std::to_string(20000 + ::getpid() % 10000);
  ChildProcess rank_0 = start_rank(0, 2, flags, host_of_its_own(0, 2, "127.0.0.1"));
  ChildProcess rank_1 =
      start("rank_1", "pretrain gpt " + flags, second, 0,
            {"unshare", "--mount", "sh", "-c", "mount -t tmpfs none shared && exec \"$@\"", "sh"});
  for (ChildProcess* rank : {&rank_0, &rank_1}) {
    expect_line(*rank, 78,
                "rank 1 (host HOST): --save shared/run is not the directory that rank 0 writes to: "
                "give one on a file system that all hosts share");
  }
  expect_clean("shared");
}

}  // namespace
}  // namespace phalanx::processes
