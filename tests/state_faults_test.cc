// Disks that are full, slow, read-only, damaged or taken away while states lie on them: the run
// ends with one error that names the file, or goes on with the same bits; what was saved stays.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Seconds are bounded: a run that does not end is killed, and its status is another.
constexpr const char* kUntilSaved =
    "&\npid=$!\nfor i in $(seq 1200); do\n"
    "  [ -s run/latest_checkpointed_iteration.txt ] && break\n"
    "  kill -0 $pid 2>/dev/null || break\n  sleep 0.05\ndone\n";
constexpr const char* kUntilItEnds =
    "for i in $(seq 1200); do kill -0 $pid 2>/dev/null || break; sleep 0.05; done\n"
    "kill -9 $pid 2>/dev/null\nwait $pid";

class StateFaults : public ProgramTest {
 protected:
  static constexpr const char* kFiles =
      "--offload-optimizer-to disk --offload-parameters-to disk "
      "--zero-persistence-threshold 0 ";

  // Two ranks, two microbatches, no end in sight.
  static std::string run_of(const std::string& save, const std::string& flags) {
    return "pretrain gpt --mock-data --num-layers 2 --hidden-size 64 --num-attention-heads 2 "
           "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 2 --train-iters 100000 "
           "--lr-decay-iters 100000 --lr 1e-2 --tokenizer-type NullTokenizer --vocab-size 300 "
           "--threads-per-rank 1 --eval-iters 0 --save-interval 20 --keep-last 2 --log-interval "
           "100000 --bf16 --nproc 2 --global-batch-size 8 --save " +
           save + " " + flags;
  }
  std::string digest(const std::string& save) const {
    const ProgramOutput output = run("checkpoint digest " + save);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.out;
  }
  int saved_iteration(const std::string& save) const {
    return run_json("checkpoint digest " + save + " --json").at("iteration").get<int>();
  }
  // What a run in memory has after so many iterations.
  std::string digest_of_memory(int iterations) const {
    const std::string save = fmt::format("memory{}", iterations);
    if (!fs::exists(directory_ / save)) {
      const ProgramOutput output =
          run(run_of(save, fmt::format("--zero-stage 3 --exit-interval {}", iterations)));
      EXPECT_EQ(output.status, 0) << output.err;
    }
    return digest(save);
  }
  // What was saved is what memory has, and goes on in files.
  void expect_resumable() const {
    const int saved = saved_iteration("run");
    EXPECT_EQ(digest("run"), digest_of_memory(saved));
    const std::string go_on = fmt::format("--load run --exit-interval {}", saved + 3);
    const ProgramOutput output = run(run_of("run", kFiles + go_on));
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(saved_iteration("run"), saved + 3);
    EXPECT_EQ(digest("run"), digest_of_memory(saved + 3));
  }
  static void expect_one_error(const ProgramOutput& output, int status) {
    EXPECT_EQ(output.status, status) << output.err;
    std::istringstream lines(output.err);
    int errors = 0;
    for (std::string line; std::getline(lines, line);)
      errors += line.starts_with("error: ") ? 1 : 0;
    EXPECT_EQ(errors, 1) << output.err;
  }
  bool is_there(const std::string& name) const { return fs::exists(directory_ / name); }

  // With a file system of its own, which others do not see, at `disk`; `left` says what is there in
  // the end. False where that needs rights that the test has not.
  bool run_on(const std::string& mount, const std::string& words, ProgramOutput& output) const {
    write("on_a_mount",
          fmt::format("mkdir -p disk\n{} || exit 99\n\"$@\" <stdin >stdout 2>stderr\nstatus=$?\n"
                      "ls -A disk >left\nexit $status\n",
                      mount));
    write("stdin", "");
    const std::string command =
        fmt::format("cd '{}' && unshare -m sh on_a_mount '{}' {} 2>unshared", directory_.string(),
                    program_path(), words);
    const int status = WEXITSTATUS(std::system(command.c_str()));
    output = {status, read("stdout"), read("stderr")};
    return status != 99 && !(status == 1 && !fs::exists(directory_ / "left"));
  }
};

struct Fault {
  const char* action;  // again and again: whether a file is damaged before it is written or after
                       // is chance
  const char* file;
  // What may be found of it, with its status; which is found first is chance as well.
  std::vector<std::pair<int, const char*>> findings;
};

TEST_F(StateFaults, WhatIsDamagedOrCutOffEndsTheRunWhichGoesOnFromItsCheckpoint) {
  // A write behind the cut makes the file longer again, with a hole in which zeros are read.
  for (const Fault& fault :
       {Fault{"dd if=/dev/urandom of=\"$file\" bs=4096 count=1 conv=notrunc,nocreat 2>/dev/null",
              "rank-0001/exp_avg.state",
              {{75, " at offset 0 are not what was written there"}}},
        Fault{"truncate -c -s 4096 \"$file\"",
              "rank-0000/parameters.state",
              {{74, ": the file became shorter"}, {75, " are not what was written there"}}}}) {
    SCOPED_TRACE(fault.action);
    fs::remove_all(directory_ / "run");
    const ProgramOutput output =
        run_between("", run_of("run", kFiles),
                    fmt::format("{}for i in $(seq 4000); do\n"
                                "  kill -0 $pid 2>/dev/null || break\n"
                                "  for file in disk/phalanx-*/{}; do {}; done\ndone\n{}",
                                kUntilSaved, fault.file, fault.action, kUntilItEnds));
    const auto found = std::ranges::find_if(fault.findings, [&](const auto& finding) {
      return output.err.find(finding.second) != std::string::npos;
    });
    ASSERT_NE(found, fault.findings.end()) << output.err;
    expect_one_error(output, found->first);
    EXPECT_THAT(output.err, HasSubstr(fault.file));
    EXPECT_FALSE(is_there("disk")) << "the directory was not there before";
    expect_resumable();
  }
}

TEST_F(StateFaults, AFullDiskAtTheStartSaysWhatIsNeeded) {
  std::string plan = run_of("run", kFiles);
  plan.replace(0, std::string("pretrain").size(), "plan");
  plan.replace(plan.find("--nproc"), 7, "--world-size");
  const std::int64_t bytes = run_json(plan + "--json").at("ranks").at(0).at("file_bytes");
  ProgramOutput output;
  if (!run_on("mount -t tmpfs -o size=300k none disk", run_of("run", kFiles), output)) {
    GTEST_SKIP() << "needs CAP_SYS_ADMIN: " << read("unshared");
  }
  expect_one_error(output, 73);
  EXPECT_THAT(output.err,
              AllOf(HasSubstr("-to "), HasSubstr("/disk: "), HasSubstr(" are needed and "),
                    HasSubstr(fmt::format(" ({} and ", bytes)),
                    HasSubstr("make room or name a directory on another disk")));
  EXPECT_EQ(read("left"), "");
}

TEST_F(StateFaults, ALimitOfFileSizesIsOneError) {
  const ProgramOutput output = run_between("ulimit -f 64", run_of("run", kFiles), "");
  expect_one_error(output, 73);
  EXPECT_THAT(output.err, AllOf(HasSubstr(".state: cannot reserve "), HasSubstr("File too large")));
  EXPECT_FALSE(is_there("disk"));
}

// A file system that promises nothing: it is full when blocks are written. Of two directories
// nobody knows that they are on one disk.
TEST_F(StateFaults, ADiskThatIsFullLaterEndsTheRun) {
  ProgramOutput output;
  if (!run_on(
          "truncate -s 1500K image && mkfs.ext2 -q -F -b 1024 image && mount -o loop image disk &&"
          " rmdir disk/lost+found",
          run_of("run",
                 "--nproc 1 --offload-optimizer-to disk --offload-parameters-to disk/weights "
                 "--zero-persistence-threshold 0"),
          output)) {
    GTEST_SKIP() << "needs CAP_SYS_ADMIN, loop devices and mkfs.ext2: " << read("unshared");
  }
  expect_one_error(output, 74);
  EXPECT_THAT(output.err, AllOf(HasSubstr("reserves no space"), HasSubstr(".state: cannot write "),
                                HasSubstr("No space left on device")));
  EXPECT_EQ(read("left"), "");
}

// At once: the run has no end in sight.
TEST_F(StateFaults, ADirectoryInWhichNoFileCanBeMadeIsOneError) {
  for (const char* directory : {"/proc", "/proc/states", "/sys"}) {
    const ProgramOutput output =
        run(run_of("run", fmt::format("--offload-optimizer-to {}", directory)));
    expect_one_error(output, 73);
    EXPECT_THAT(output.err, HasSubstr(fmt::format("--offload-optimizer-to {}: ", directory)));
  }
}

TEST_F(StateFaults, AReadOnlyDiskIsOneError) {
  ProgramOutput output;
  if (!run_on("mount -t tmpfs -o ro none disk", run_of("run", kFiles), output)) {
    GTEST_SKIP() << "needs CAP_SYS_ADMIN: " << read("unshared");
  }
  expect_one_error(output, 73);
  EXPECT_THAT(output.err, AllOf(HasSubstr("/disk: cannot be written: Read-only file system")));
  EXPECT_EQ(read("left"), "");
}

// The files have no names any more, and are there all the same; and nobody gives up for a pause.
TEST_F(StateFaults, AFolderThatIsRemovedAndAPauseChangeNothing) {
  const ProgramOutput output = run_between(
      "", run_of("run", std::string(kFiles) + "--exit-interval 40"),
      kUntilSaved + std::string("kill -STOP $pid\nrm -r disk\nsleep 1.2\nkill -CONT $pid\n") +
          kUntilItEnds);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(output.err, AllOf(Not(HasSubstr("warning: ")), Not(HasSubstr("error: "))));
  EXPECT_FALSE(is_there("disk"));
  EXPECT_EQ(digest("run"), digest_of_memory(40));
}

TEST_F(StateFaults, AnInterruptedRunLeavesTheDirectoryAsFound) {
  fs::create_directories(directory_ / "disk");
  write("disk/mine", "of somebody else");
  const ProgramOutput output = run_between(
      "", run_of("run", kFiles), kUntilSaved + std::string("kill -INT $pid\n") + kUntilItEnds);
  EXPECT_EQ(output.status, 85) << output.err;
  EXPECT_EQ(read("disk/mine"), "of somebody else");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_ / "disk"), {}), 1);
  EXPECT_GE(saved_iteration("run"), 20);
}

TEST_F(StateFaults, TwoRunsThatSaveNothingShareADirectory) {
  const std::string words =
      "pretrain gpt --mock-data --num-layers 1 --hidden-size 32 --num-attention-heads 2 "
      "--seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 1 "
      "--lr 1e-3 --train-iters 100000 --lr-decay-iters 100000 --tokenizer-type NullTokenizer "
      "--vocab-size 100 --threads-per-rank 1 --eval-iters 0 --bf16 --log-interval 100000 "
      "--offload-optimizer-to disk";
  const ProgramOutput output = run_between(
      fmt::format("'{}' {} >/dev/null 2>&1 &\nfirst=$!\nfor i in $(seq 1200); do\n"
                  "  ls disk/phalanx-*/rank-0000/*.state >/dev/null 2>&1 && break\n"
                  "  kill -0 $first 2>/dev/null || break\n  sleep 0.05\ndone",
                  program_path(), words),
      words + " --exit-interval 2",
      "\nstatus=$?\nkill -0 $first || status=1\nkill -9 $first\nwait $first\nexit $status");
  EXPECT_EQ(output.status, 0) << output.err;
}

TEST_F(StateFaults, TwoRunsShareADirectory) {
  const ProgramOutput first = run_between(
      fmt::format("'{}' {} >other_out 2>other_err &\nother=$!", program_path(),
                  run_of("other", std::string(kFiles) + "--exit-interval 10 --seed 99")),
      run_of("run", std::string(kFiles) + "--exit-interval 10"),
      "\nstatus=$?\nwait $other && exit $status");
  EXPECT_EQ(first.status, 0) << first.err << read("other_err");
  EXPECT_EQ(digest("run"), digest_of_memory(10));
  EXPECT_NE(digest("other"), digest("run"));
  EXPECT_FALSE(is_there("disk"));
}

// A disk that takes and gives 4 MiB a second.
TEST_F(StateFaults, ASlowDiskIsWaitedFor) {
  struct stat status {};
  ASSERT_EQ(::stat(directory_.c_str(), &status), 0);
  const std::string group =
      fmt::format("/sys/fs/cgroup/blkio/phalanx-test-{}", static_cast<int>(::getpid()));
  const std::string slow = fmt::format("{}:{} 4194304", major(status.st_dev), minor(status.st_dev));
  const std::string setup = fmt::format(
      "mkdir {0} && echo {1} >{0}/blkio.throttle.read_bps_device && echo {1} "
      ">{0}/blkio.throttle.write_bps_device && echo $$ >{0}/cgroup.procs",
      group, slow);
  const auto leave = [&] {
    return std::system(fmt::format("for i in $(seq 100); do [ ! -d {0} ] || rmdir {0} 2>/dev/null "
                                   "&& break; sleep 0.05; done",
                                   group)
                           .c_str());
  };
  if (std::system(("(" + setup + ") 2>/dev/null").c_str()) != 0) {
    leave();
    GTEST_SKIP() << "needs a control group of version 1 that limits disks";
  }
  leave();
  const ProgramOutput output =
      run_between(setup, run_of("run", std::string(kFiles) + "--exit-interval 2"), "");
  leave();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(digest("run"), digest_of_memory(2));
}

}  // namespace
}  // namespace phalanx
