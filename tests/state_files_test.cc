// Training whose states lie in files: the same bits as in memory, and directories left as they
// were.

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "program_test.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StateFiles : public ProgramTest {
 protected:
  static std::string run_of(const std::string& save, const std::string& flags) {
    return "pretrain gpt --mock-data --num-layers 2 --hidden-size 64 --num-attention-heads 2 "
           "--seq-length 32 --max-position-embeddings 32 --micro-batch-size 2 --train-iters 4 "
           "--lr-decay-iters 4 --lr 1e-2 --tokenizer-type NullTokenizer --vocab-size 300 "
           "--threads-per-rank 1 --eval-iters 1 --eval-interval 2 --save-interval 2 --bf16 "
           "--save " +
           save + " " + flags;
  }
  std::string digest(const std::string& save) const {
    const ProgramOutput output = run("checkpoint digest " + save);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.out;
  }
  std::string digest_of_run(const std::string& save, const std::string& flags) const {
    const ProgramOutput output = run(run_of(save, flags));
    EXPECT_EQ(output.status, 0) << flags << "\n" << output.err;
    return digest(save);
  }
  // The first with these words.
  std::string line_of(const std::string& name, const std::string& words) const {
    std::istringstream text(read(name));
    for (std::string line; std::getline(text, line);) {
      if (line.find(words) != std::string::npos) return line;
    }
    return {};
  }
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(directory_ / name);
  }
};

TEST_F(StateFiles, HaveTheBitsOfMemory) {
  // Two ranks, several microbatches; with parameters that stay and without.
  const std::string two = "--nproc 2 --global-batch-size 8 ";
  const std::string expected = digest_of_run("memory", two + "--zero-stage 3");
  EXPECT_EQ(digest_of_run("o2", two + "--zero-stage 2 --offload-optimizer-to disk"), expected);
  EXPECT_EQ(digest_of_run("both", two + "--offload-optimizer-to disk --offload-parameters-to disk "
                                        "--overlap-grad-reduce --zero-prefetch-depth 2"),
            expected);
  EXPECT_EQ(digest_of_run("all", two + "--offload-optimizer-to disk --offload-parameters-to other "
                                       "--zero-persistence-threshold 0 --offload-fraction 0.5"),
            expected);
  // One rank, which has nobody to share with.
  const std::string one = "--global-batch-size 4 ";
  EXPECT_EQ(digest_of_run("one_both", one + "--offload-optimizer-to disk --offload-parameters-to "
                                            "disk --zero-persistence-threshold 0"),
            digest_of_run("one", one + "--zero-stage 2"));
  EXPECT_EQ(digest_of_run("one_states", one + "--offload-optimizer-to disk --aio-block-size 8192 "
                                              "--aio-queue-depth 3"),
            digest_of_run("one_whole", one));
  // Directories that were not there are gone.
  EXPECT_FALSE(is_there("disk"));
  EXPECT_FALSE(is_there("other"));
}

TEST_F(StateFiles, SkippedStepsLeaveThemAsTheyWere) {
  // All steps overflow, and a run that trained nothing says so.
  const std::string flags = "--nproc 2 --global-batch-size 8 --initial-loss-scale 1e12 ";
  std::string fp16 = run_of("memory", flags + "--zero-stage 3");
  fp16.replace(fp16.find("--bf16"), 6, "--fp16");
  EXPECT_EQ(run(fp16).status, 93);
  std::string files = run_of("files", flags +
                                          "--offload-optimizer-to disk --offload-parameters-to "
                                          "disk --zero-persistence-threshold 0");
  files.replace(files.find("--bf16"), 6, "--fp16");
  EXPECT_EQ(run(files).status, 93);
  EXPECT_EQ(digest("files"), digest("memory"));
}

TEST_F(StateFiles, ARunGoesOnInThemAndOutOfThem) {
  const std::string two = "--nproc 2 --global-batch-size 8 ";
  const std::string files =
      "--offload-optimizer-to disk --offload-parameters-to disk "
      "--zero-persistence-threshold 0 ";
  const std::string expected = digest_of_run("whole", two + "--zero-stage 3");
  // In files until iteration 2, in memory from there on; and the other way round.
  EXPECT_EQ(run(run_of("half", two + files + "--exit-interval 2")).status, 0);
  EXPECT_EQ(digest_of_run("half", two + "--zero-stage 3 --load half"), expected);
  EXPECT_EQ(run(run_of("other", two + "--zero-stage 3 --exit-interval 2")).status, 0);
  EXPECT_EQ(digest_of_run("other", two + files + "--load other"), expected);
}

TEST_F(StateFiles, OfAKilledRunAreClearedByTheNext) {
  std::filesystem::create_directories(directory_ / "disk");
  const std::string flags =
      "--global-batch-size 4 --offload-optimizer-to disk "
      "--offload-parameters-to disk --zero-persistence-threshold 0 ";
  const ProgramOutput killed = run_between(
      "", run_of("killed", flags + "--train-iters 100000 --lr-decay-iters 100000"),
      "& pid=$!; for i in $(seq 400); do ls disk/phalanx-*/rank-*/*.state >/dev/null 2>&1 "
      "&& break; sleep 0.05; done; sleep 0.3; kill -9 $pid; wait $pid");
  EXPECT_NE(killed.status, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / "disk")) {
    files += entry.path().extension() == ".state" ? 1 : 0;
  }
  EXPECT_EQ(files, 5) << "main parameters, two moments, gradients, parameters";
  EXPECT_EQ(run(run_of("next", flags)).status, 0);
  EXPECT_TRUE(is_there("disk"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "disk"));
}

TEST_F(StateFiles, ArePlanned) {
  const std::string flags =
      "--nproc 2 --global-batch-size 8 --offload-optimizer-to disk --offload-parameters-to disk "
      "--zero-persistence-threshold 0 --json";
  std::string words = run_of("x", flags);
  words.replace(0, std::string("pretrain").size(), "plan");
  words.replace(words.find("--nproc"), 7, "--world-size");
  const Json rank = run_json(words).at("ranks").at(0);
  EXPECT_FALSE(is_there("disk")) << "a plan makes no files";
  const auto of = [&](const std::string& file, const std::string& op) -> std::int64_t {
    for (const Json& transfer : rank.at("transfers")) {
      if (transfer.at("file") == file && transfer.at("op") == op) return transfer.at("bytes");
    }
    return 0;
  };
  // Two microbatches; every element of the shard is in one tile.
  const std::int64_t moments = of("exp_avg", "read");
  const std::int64_t elements = moments / 4;
  EXPECT_GT(elements, 0);
  EXPECT_EQ(of("exp_avg", "write"), moments);
  EXPECT_EQ(of("exp_avg_sq", "read"), moments);
  EXPECT_EQ(of("main parameters", "read"), moments);
  EXPECT_EQ(of("main parameters", "write"), moments);
  // Written by both microbatches and read by the second, for the norm and by the update.
  EXPECT_EQ(of("gradients", "write"), 2 * moments);
  EXPECT_EQ(of("gradients", "read"), 3 * moments);
  EXPECT_EQ(of("parameters", "write"), 2 * elements);
  EXPECT_GT(of("parameters", "read"), 2 * 2 * elements);
  EXPECT_EQ(rank.at("file_bytes").get<std::int64_t>(), 18 * elements);
  EXPECT_EQ(rank.at("bytes").at("main_parameters"), 0);
  EXPECT_EQ(rank.at("bytes").at("optimizer"), 0);
}

// What was predicted, beside what was.
TEST_F(StateFiles, ARunSaysWhatItTookOfTheDisk) {
  const std::string flags = "--nproc 2 --global-batch-size 8 --offload-optimizer-to disk ";
  const ProgramOutput output = run(run_of("timed", flags + "--disk-bandwidth 0.5,0.25"));
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(output.err, AllOf(HasSubstr("> disk: a step of all ranks of a host reads "),
                                HasSubstr(" at 0.5 and 0.25 GB/s; its arithmetic takes "),
                                HasSubstr(" at 0.5 and 0.25 GB/s; measured: it took "),
                                HasSubstr("waited "), HasSubstr(" s for files (medians)")));
  const Json begin = Json::parse(line_of("timed/events.jsonl", "\"begin\""));
  const Json& disk = begin.at("disk");
  EXPECT_DOUBLE_EQ(
      disk.at("seconds").get<double>(),
      disk.at("read_bytes").get<double>() / 0.5e9 + disk.at("write_bytes").get<double>() / 0.25e9);
  EXPECT_GT(disk.at("arithmetic_seconds"), 0);
  const Json step = Json::parse(line_of("timed/metrics.jsonl", "\"lm_loss\""));
  EXPECT_GT(step.at("waited_for_files_s"), 0);
  EXPECT_LT(step.at("waited_for_files_s"), step.at("elapsed_s"));
  EXPECT_THAT(line_of("timed/events.jsonl", "measured: it took"), HasSubstr("\"disk\""));

  const ProgramOutput plain = run(run_of("plain", "--global-batch-size 8"));
  EXPECT_THAT(plain.err, Not(HasSubstr("disk: ")));
  EXPECT_THAT(line_of("plain/metrics.jsonl", "\"lm_loss\""), Not(HasSubstr("files")));
}

TEST_F(StateFiles, ClearErrors) {
  write("file", "");
  for (const char* wrong : {"1.5", "0,1", "1,-1", "nan,1"}) {
    expect_error(run_of("x", std::string("--offload-optimizer-to disk --disk-bandwidth ") + wrong),
                 78, std::string("--disk-bandwidth ") + wrong);
  }
  expect_error(run_of("x", "--disk-bandwidth 1,2"), 78, "--disk-bandwidth");
  expect_error(run_of("x", "--offload-optimizer-to file"), 73, "--offload-optimizer-to");
  expect_error(run_of("x", "--offload-optimizer-to no/such/parent"), 73, "no/such/parent");
  expect_error(run_of("x", "--offload-fraction 0.5"), 78, "--offload-optimizer-to");
  expect_error(run_of("x",
                      "--nproc 4 --zero-stage 2 --num-distributed-optimizer-instances 2 "
                      "--offload-optimizer-to disk"),
               78, "--zero-accumulate-unsharded");
  expect_error(run_of("x",
                      "--nproc 2 --pipeline-model-parallel-size 2 --offload-parameters-to "
                      "disk"),
               78, "--offload-parameters-to");
}

}  // namespace
}  // namespace phalanx
