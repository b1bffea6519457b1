// Training whose activations lie in files between the passes: the same bits as in memory, with less
// of it.

#include <gmock/gmock.h>

#include <string>

#include "program_test.h"

namespace phalanx {
namespace {

class ActivationFiles : public ProgramTest {
 protected:
  // Blocks of 4,096 bytes: in a model this small nothing else would leave.
  static constexpr const char* kFiles = " --offload-activations-to disk --aio-block-size 4096";

  static std::string gpt(const std::string& verb, const std::string& flags) {
    return verb + (verb == "pretrain" ? " gpt --mock-data" : " gpt") +
           " --num-layers 8 --hidden-size 64 --num-attention-heads 2 --seq-length 32 "
           "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 "
           "--tokenizer-type NullTokenizer --vocab-size 300 --threads-per-rank 1 " +
           flags;
  }
  std::string digest_of_run(const std::string& save, const std::string& words) const {
    const ProgramOutput trained =
        run(words +
            " --train-iters 3 --lr-decay-iters 3 --lr 1e-2 --eval-iters 1 --eval-interval 2 "
            "--attention-dropout 0.1 --hidden-dropout 0.1 --save-interval 3 --save " +
            save);
    EXPECT_EQ(trained.status, 0) << words << "\n" << trained.err;
    const ProgramOutput digest = run("checkpoint digest " + save);
    EXPECT_EQ(digest.status, 0) << digest.err;
    return digest.out;
  }
  void expect_same_bits(const std::string& words) const {
    EXPECT_EQ(digest_of_run("files", words + kFiles), digest_of_run("memory", words)) << words;
    std::filesystem::remove_all(directory_ / "files");
    std::filesystem::remove_all(directory_ / "memory");
    EXPECT_FALSE(std::filesystem::exists(directory_ / "disk")) << "the directory was not there";
  }
};

TEST_F(ActivationFiles, HaveTheBitsOfMemory) {
  expect_same_bits(gpt("pretrain", "--bf16"));
  expect_same_bits(gpt("pretrain",
                       "--recompute-granularity full --recompute-method uniform "
                       "--recompute-num-layers 2"));
}

TEST_F(ActivationFiles, HaveTheBitsOfMemoryBesideOtherFiles) {
  expect_same_bits(
      gpt("pretrain", "--nproc 2 --offload-optimizer-to disk --offload-parameters-to disk"));
}

TEST_F(ActivationFiles, ArePlanned) {
  const auto rank_of = [&](const std::string& flags) {
    return run_json(gpt("plan", flags + " --json")).at("ranks").at(0);
  };
  const auto moved = [](const Json& rank, const std::string& op) -> std::int64_t {
    for (const Json& transfer : rank.at("transfers")) {
      if (transfer.at("file") == "activations" && transfer.at("op") == op) {
        return transfer.at("bytes");
      }
    }
    return 0;
  };
  const Json whole = rank_of("");
  const Json files = rank_of(kFiles);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "disk")) << "a plan makes no files";
  // Four microbatches, one at a time; what is in the file waits no longer in memory.
  const std::int64_t in_file = moved(files, "write") / 4;
  EXPECT_EQ(moved(files, "write"), 4 * in_file);
  EXPECT_EQ(moved(files, "read"), 4 * in_file);
  const auto waits = [](const Json& rank) -> std::int64_t {
    return rank.at("bytes").at("saved_per_microbatch").at(0);
  };
  EXPECT_EQ(waits(whole) - waits(files), in_file);
  EXPECT_LT(files.at("bytes").at("saved"), whole.at("bytes").at("saved").get<std::int64_t>() / 2);
  // Of whole layers the same is saved in each; the last ones' would be back at once.
  EXPECT_GE(files.at("file_bytes").get<std::int64_t>(), in_file);
  EXPECT_LE(files.at("file_bytes").get<std::int64_t>(), in_file + in_file / 4);
  // In a pipeline the first stage has a room for each microbatch in flight.
  const Json first =
      rank_of("--world-size 2 --pipeline-model-parallel-size 2" + std::string(kFiles));
  EXPECT_EQ(first.at("file_bytes").get<std::int64_t>() % 2, 0);
  EXPECT_GT(moved(first, "read"), 0);
  EXPECT_EQ(moved(first, "read"), moved(first, "write"));
}

}  // namespace
}  // namespace phalanx
