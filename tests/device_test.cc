// Runs on the emulated CUDA device and plans for devices that are named, as they are typed.

#include "program_test.h"

namespace phalanx {
namespace {

class DeviceProgram : public ProgramTest {
 protected:
  void SetUp() override {
    write("vocab.txt",
          "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[BOS]\n[EOS]\n.\none\ntwo\nthree\nfour\nfive\n");
    std::string documents;
    const std::vector<std::string> words = {"one", "two", "three", "four", "five"};
    for (std::size_t i = 0; i < 40; ++i) {
      Json sentences = Json::array();
      for (std::size_t k = 0; k < 6; ++k) {
        sentences.push_back(words[(i + k) % 5] + " " + words[(i * k + 1) % 5] + " .");
      }
      documents += Json{{"text", sentences}}.dump() + "\n";
    }
    write("documents.jsonl", documents);
    const auto output =
        run("preprocess-data --input documents.jsonl --output-prefix data " + tokenizer());
    ASSERT_EQ(output.status, 0) << output.err;
  }
  static std::string tokenizer() {
    return "--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt ";
  }
  // What the losses of two steps are.
  std::vector<double> losses(const std::string& flags, const std::string& device) const {
    const auto output = run(
        "pretrain " + flags + tokenizer() +
        "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 "
        "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 4 --lr 1e-2 "
        "--train-iters 2 --data-path data_text_document --split 100,0,0 --eval-iters 0 --save " +
        device + " --save-interval 2 --device " + device);
    EXPECT_EQ(output.status, 0) << output.err;
    std::vector<double> values;
    std::istringstream text(read(device + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      const Json step = Json::parse(line);
      for (const auto& [name, value] : step.items()) {
        if (name.ends_with("_loss") && value.is_number()) values.push_back(value);
      }
    }
    std::filesystem::remove_all(directory_ / device);
    return values;
  }
};

TEST_F(DeviceProgram, BertAndT5HaveTheProcessorsLosses) {
  for (const std::string flags : {"bert ", "t5 --decoder-seq-length 16 --vocab-extra-ids 8 "}) {
    SCOPED_TRACE(flags);
    const std::vector<double> expected = losses(flags, "cpu");
    const std::vector<double> found = losses(flags, "cuda-emulated");
    ASSERT_GE(expected.size(), 2U);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
    }
  }
}

class DevicePlans : public ProgramTest {
 protected:
  static std::string plan() {
    return "plan gpt --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
           "--max-position-embeddings 32 --vocab-size 256 --tokenizer-type NullTokenizer "
           "--micro-batch-size 1 --global-batch-size 2 --world-size 2 --device cuda:h100-80g ";
  }
};

// No driver, no nvcc, and several ranks.
TEST_F(DevicePlans, NeedNoDevice) {
  const Json device = run_json(plan() + "--json").at("device");
  EXPECT_EQ(device.at("name"), "cuda:h100-80g");
  EXPECT_EQ(device.at("memory_bytes"), 80'000'000'000);
  EXPECT_EQ(device.at("fits"), true);
  EXPECT_NE(run(plan()).out.find("device: NVIDIA H100 of compute capability 9.0 has 74.5 GiB"),
            std::string::npos);
}

TEST_F(DevicePlans, RefuseWhatIsOfProcessors) {
  const auto output = run(plan() + "--cpu-target avx2");
  EXPECT_EQ(output.status, 78);
  EXPECT_NE(output.err.find("--cpu-target avx2 is of processors: leave it out with --device "
                            "cuda:h100-80g"),
            std::string::npos)
      << output.err;
}

}  // namespace
}  // namespace phalanx
