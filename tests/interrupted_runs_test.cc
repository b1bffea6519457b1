// Runs that are killed, interrupted, or find a full or foreign directory: what they say, and what
// stays.

#include <cstdlib>
#include <random>

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using Output = ProgramOutput;

// SIGKILL at any moment of saving in parts: every checkpoint that is there is whole, and the run
// ends with the bits of one that nobody killed. With PHALANX_NIGHTLY=1 100 of them.
TEST_F(ProgramTest, KillsWhilePartsAreSavedLoseNothing) {
  prepare();
  const int kills = std::getenv("PHALANX_NIGHTLY") != nullptr ? 100 : 3;
  const int iterations = 10 * (kills + 1);
  const std::string words =
      fmt::format("pretrain gpt {} --train-iters {} --lr-decay-iters {} --eval-iters 0 ",
                  training(), iterations, iterations) +
      "--threads-per-rank 1 --nproc 2 --use-distributed-optimizer --bf16 --save-interval ";
  ASSERT_EQ(run(words + std::to_string(iterations) + " --save straight").status, 0);
  std::mt19937 random(11);
  for (int kill = 1; kill <= kills; ++kill) {
    // In turn also beside the training: then an earlier iteration is saved than the last one.
    run_between("",
                words + "1 --save run --load run " +
                    (kill % 2 == 0 ? "--ckpt-fully-parallel-save" : "--async-save"),
                fmt::format("&\npid=$!\n"
                            "until [ \"$(cat run/metrics.jsonl 2>/dev/null | wc -l)\" -ge {} ] || "
                            "! kill -0 $pid; do sleep 0.01; done\n"
                            "sleep 0.0{:02d}\nkill -KILL $pid\nwait $pid",
                            10 * kill, random() % 100));
    const Output verified = run("checkpoint verify run");
    ASSERT_EQ(verified.status, 0) << verified.out;
  }
  ASSERT_EQ(run(words + "1 --save run --load run --ckpt-fully-parallel-save").status, 0);
  EXPECT_EQ(run("checkpoint diff straight run").out, "the tensors are equal\n");
  // Nothing is left over.
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "run")) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(ProgramTest, ASignalToManyRanksSavesThem) {
  prepare();
  const Output output = run_between(
      "",
      "pretrain gpt " + training() +
          "--threads-per-rank 1 --nproc 2 --train-iters 100000 --save run --save-interval "
          "100000",
      "&\npid=$!\n"
      "while [ ! -s run/metrics.jsonl ] && kill -0 $pid; do sleep 0.05; done\n"
      "kill -TERM $pid\nwait $pid");
  EXPECT_EQ(output.status, 85) << output.err;
  EXPECT_NE(output.err.find("exiting program after receiving SIGTERM."), std::string::npos)
      << output.err;
  const Json digest = run_json("checkpoint digest run --json");
  EXPECT_GT(digest.at("iteration").get<int>(), 0);
  EXPECT_EQ(metrics("run").back().at("iteration"), digest.at("iteration"));
}

// A long step: the first Ctrl-C says that it waits for its end, the next does not.
TEST_F(ProgramTest, ASecondInterruptEndsAtOnce) {
  prepare();
  const std::string step =
      "pretrain gpt " + training() +
      "--threads-per-rank 1 --train-iters 4 --global-batch-size 200000 --eval-iters 0 --save run "
      "--save-interval 4";
  // Within the step: it has computed for 0.3 s.
  const std::string begin =
      "&\npid=$!\n"
      "ticks() { awk '{ print $14 + $15 }' /proc/$pid/stat; }\n"
      "while ! grep -q 'training from' stderr && kill -0 $pid; do sleep 0.05; done\n"
      "begun=$(ticks)\n"
      "while [ $(ticks) -lt $((begun + 30)) ] && kill -0 $pid; do sleep 0.05; done\n"
      "kill -INT $pid\n";
  const Output ended = run_between("unset RANK SLURM_PROCID", step,
                                   begin + "kill -TERM $pid\nsleep 1.1\nkill -INT $pid\nwait $pid");
  EXPECT_EQ(ended.status, 130) << ended.err;
  EXPECT_NE(ended.err.find("SIGINT: finishing this step, saving"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/latest_checkpointed_iteration.txt"));
  // Of a process that a launcher started only the launcher makes an end. The lines of the first run
  // must not be taken for its own.
  const Output launched =
      run_between("rm stderr\nexport RANK=0 WORLD_SIZE=1", step,
                  begin + "sleep 1.1\nkill -INT $pid\nsleep 0.3\nkill -KILL $pid\nwait $pid");
  EXPECT_EQ(launched.status, 137) << launched.err;
  EXPECT_EQ(launched.err.find("press Ctrl-C"), std::string::npos) << launched.err;
}

// Evaluations that would take minutes.
TEST_F(ProgramTest, ASignalGivesUpAnEvaluation) {
  prepare();
  const std::string words = "pretrain gpt " + training() +
                            "--threads-per-rank 1 --train-iters 2 --eval-interval 2 --eval-iters "
                            "200000 ";
  const std::string terminate = "kill -TERM $pid\nwait $pid";
  const Output periodic = run_between(
      "", words + "--nproc 2 --pipeline-model-parallel-size 2 --save run --save-interval 2",
      "&\npid=$!\n"
      "while ! grep -qs 'iteration\": 2' run/metrics.jsonl && kill -0 $pid; do sleep 0.05; done\n" +
          terminate);
  EXPECT_EQ(periodic.status, 85) << periodic.err;
  EXPECT_EQ(periodic.err.find("validation loss"), std::string::npos) << periodic.err;
  EXPECT_EQ(run_json("checkpoint digest run --json").at("iteration").get<int>(), 2);
  // The one that ends the run has nothing to save.
  const Output last = run_between(
      "", words + "--eval-interval 0 --log-interval 2",
      "&\npid=$!\n"
      "while ! grep -q 'iteration        2/' stderr && kill -0 $pid; do sleep 0.05; done\n" +
          terminate);
  EXPECT_EQ(last.status, 75) << last.err;
}

// The first rank writes and fails, and the second learns it: the run goes on, until its last
// checkpoint cannot be written either.
TEST_F(ProgramTest, AFullDiskIsAWarningUntilTheLastCheckpoint) {
  prepare();
  const Output output =
      run_between("ulimit -f 64",
                  "pretrain gpt " + training() +
                      "--threads-per-rank 1 --nproc 2 --tensor-model-parallel-size 2 --save run "
                      "--save-interval 4",
                  "");
  EXPECT_EQ(output.status, 74) << output.err;
  const auto warning = output.err.find("warning: the checkpoint of iteration 4 could not be saved");
  const auto error = output.err.find(
      "error: phalanx pretrain gpt: the checkpoint of iteration 8 could not be saved");
  EXPECT_LT(warning, error) << output.err;
  EXPECT_NE(error, std::string::npos) << output.err;
  EXPECT_EQ(metrics("run").size(), 8U);
}

TEST_F(ProgramTest, ARunIsNotLostByAnother) {
  prepare();
  const std::string saves = "pretrain gpt " + training() + "--save run --save-interval 4 ";
  ASSERT_EQ(run(saves + "--exit-interval 4").status, 0);
  const Json first = run_json("checkpoint digest run --json");
  expect_error(saves, 78, "--overwrite");
  expect_error(saves + "--finetune --load run", 78, "--finetune");
  EXPECT_EQ(first, run_json("checkpoint digest run --json"));
  EXPECT_EQ(metrics("run").size(), 4U);

  // A count of restarts makes it nobody's own.
  for (const char* count : {"export SLURM_RESTART_COUNT=1", "export TORCHELASTIC_RESTART_COUNT=1",
                            "export SLURM_RESTART_COUNT=1 SLURM_JOB_ID=7",
                            "export PHALANX_LAUNCH=other TORCHELASTIC_RESTART_COUNT=1"}) {
    const Output refused = run_between(count, saves, "");
    EXPECT_EQ(refused.status, 78) << count << refused.err;
    EXPECT_NE(refused.err.find("--overwrite"), std::string::npos) << count << refused.err;
  }
  EXPECT_EQ(first, run_json("checkpoint digest run --json"));
  const Output bad = run_between("export TORCHELASTIC_RESTART_COUNT=one", saves, "");
  EXPECT_EQ(bad.status, 64) << bad.err;
  ASSERT_EQ(run(saves + "--load run").status, 0);
  EXPECT_EQ(metrics("run").size(), 8U);

  expect_error(saves + "--load run --ckpt-step 4", 78, "--ckpt-step 4");
  ASSERT_EQ(run(saves + "--load run --ckpt-step 4 --overwrite").status, 0);
  EXPECT_EQ(metrics("run").size(), 8U);
  EXPECT_EQ(metrics("run/abandoned-1").size(), 4U);
  EXPECT_EQ(run("checkpoint diff run run/abandoned-1").status, 0);
}

// What Slurm starts again goes on with what the same job has saved, whatever it began with; another
// command of the job does not.
TEST_F(ProgramTest, AJobGoesOnWithItsOwn) {
  prepare();
  const std::string saves = "pretrain gpt " + training() + "--save run --save-interval 4 ";
  ASSERT_EQ(run(saves + "--exit-interval 4").status, 0);
  const std::string first = "export SLURM_JOB_ID=7 SLURM_CLUSTER_NAME=c; ";
  const std::string second = first + "export SLURM_RESTART_COUNT=1";
  const std::string begins = saves + "--overwrite --seed 5 ";
  const Output stopped = run_between(first, begins + "--exit-interval 4", "");
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const Json kept = run_json("checkpoint digest run/abandoned-1 --json");
  const Output other = run_between(second, saves + "--seed 5", "");
  EXPECT_EQ(other.status, 78) << other.err;
  const Output again = run_between(second, begins, "");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.err.find("attempt 2 of this job: goes on from --save run"), std::string::npos)
      << again.err;
  EXPECT_EQ(metrics("run").size(), 8U);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/abandoned-2"));
  EXPECT_EQ(kept, run_json("checkpoint digest run/abandoned-1 --json"));
  ASSERT_EQ(run("pretrain gpt " + training() + "--save straight --save-interval 4 --seed 5").status,
            0);
  EXPECT_EQ(run("checkpoint diff run straight").status, 0);
}

TEST_F(ProgramTest, ADirectoryHasOneWriter) {
  prepare();
  const std::string saves = "pretrain gpt " + training() + "--save run --save-interval 4 ";
  const Output output = run_between(
      fmt::format("'{}' {} --train-iters 100000 2>first &\npid=$!\n"
                  "while [ ! -s run/metrics.jsonl ] && kill -0 $pid; do sleep 0.05; done",
                  program_path(), saves),
      saves, "\nstatus=$?\necho $pid >first-pid\nkill $pid\nwait $pid\nexit $status");
  EXPECT_EQ(output.status, 75) << output.err << read("first");
  std::string pid = read("first-pid");
  pid.pop_back();
  EXPECT_NE(output.err.find("process " + pid), std::string::npos) << output.err;
}

}  // namespace
}  // namespace phalanx
