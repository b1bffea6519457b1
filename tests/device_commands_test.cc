// Commands that use a trained model, on the emulated CUDA device, as they are typed: what they say
// is what they say on the processor.

#include <cmath>

#include "program_test.h"

namespace phalanx {
namespace {

class DeviceCommands : public ProgramTest {
 protected:
  void SetUp() override {
    write("vocab.txt",
          "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[BOS]\n[EOS]\n.\none\ntwo\nthree\nfour\nfive\n");
    const std::vector<std::string> words = {"one", "two", "three", "four", "five"};
    std::string documents, table;
    for (std::size_t i = 0; i < 40; ++i) {
      Json sentences = Json::array();
      for (std::size_t k = 0; k < 6; ++k) {
        sentences.push_back(words[(i + k) % 5] + " " + words[(i * k + 1) % 5] + " .");
      }
      documents += Json{{"text", sentences}}.dump() + "\n";
      if (i < 16) table += words[i % 5] + "\t" + words[i % 3] + (i % 2 == 0 ? "\tyes\n" : "\tno\n");
    }
    write("documents.jsonl", documents);
    write("table.tsv", table);
    write("text.txt", "one two . three four . five one two\n");
    expect_done("preprocess-data --input documents.jsonl --output-prefix data " + tokenizer());
  }
  static std::string tokenizer() {
    return "--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt ";
  }
  void expect_done(const std::string& words) const {
    const ProgramOutput output = run(words);
    ASSERT_EQ(output.status, 0) << words << "\n" << output.err;
  }
  // Trains a model of the family on the processor.
  void pretrain(const std::string& family) const {
    std::filesystem::remove_all(directory_ / "model");
    expect_done("pretrain " + family + " --save model " + tokenizer() +
                "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
                "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 4 --lr 1e-2 "
                "--train-iters 6 --data-path data_text_document --split 100,0,0 --eval-iters 0 "
                "--save-interval 6 --threads-per-rank 1");
  }
  static std::string llama() {
    return "gpt --normalization RMSNorm --swiglu --position-embedding-type rope "
           "--untie-embeddings-and-output-weights --disable-bias-linear "
           "--group-query-attention --num-query-groups 2";
  }
  // What the command prints on either device.
  struct Both {
    Json cpu, device;
  };
  Both both(const std::string& words, const std::string& input = "") const {
    Both result;
    for (const bool on_device : {false, true}) {
      const ProgramOutput output = run(
          words + " --threads-per-rank 1 --device " + (on_device ? "cuda-emulated" : "cpu"), input);
      EXPECT_EQ(output.status, 0) << words << "\n" << output.err;
      (on_device ? result.device : result.cpu) = Json::parse(output.out, nullptr, false);
    }
    return result;
  }
  // All numbers within 1e-5; what is no fraction is equal.
  static void expect_near(const Json& found, const Json& expected, const std::string& where) {
    ASSERT_EQ(found.is_structured(), expected.is_structured()) << where;
    if (expected.is_structured()) {
      ASSERT_EQ(found.size(), expected.size()) << where;
      auto other = found.begin();
      for (const auto& [key, value] : expected.items())
        expect_near(*other++, value, where + "/" + key);
    } else if (expected.is_number_float()) {
      EXPECT_NEAR(found.get<double>(), expected.get<double>(),
                  1e-5 * std::max(1.0, std::abs(expected.get<double>())))
          << where;
    } else {
      EXPECT_EQ(found, expected) << where;
    }
  }
  void expect_same(const std::string& words, const std::string& input = "") const {
    Both printed = both(words, input);
    printed.cpu.erase("rates");
    printed.device.erase("rates");
    expect_near(printed.device, printed.cpu, words);
  }
};

TEST_F(DeviceCommands, OfModelsThatGoOn) {
  for (const std::string& model : {std::string("gpt"), llama()}) {
    pretrain(model);
    const std::string generate =
        "generate --load model --max-tokens 12 --ignore-eos --json --prompt 'one two' ";
    expect_same(generate + "--temperature 0");
    expect_same(generate + "'five . four' 'three' --top-k 8 --seed 5");
    expect_same("score --load model --json --logits", read("text.txt"));
    expect_same(
        "evaluate perplexity --load model --valid-data text.txt --json --seq-length 8 "
        "--overlapping-eval 4");
  }
  expect_same("generate --load model --prompt 'one two' --json --num-beams 3 --max-tokens 6");
}

TEST_F(DeviceCommands, OfModelsWithAnEncoder) {
  pretrain("bert");
  expect_same("generate --load model --prompt 'one [MASK] .' --json");
  expect_same("score --load model --json", read("text.txt"));
  const std::string finetune =
      "finetune classify --pretrained-checkpoint model --train-data table.tsv --valid-data "
      "table.tsv --text-columns 0 1 --labels no yes --micro-batch-size 4 --global-batch-size 8 "
      "--lr 5e-3 --lr-decay-style constant --threads-per-rank 1 ";
  expect_done(finetune + "--epochs 1 --save classifier --device cuda-emulated");
  expect_done(finetune + "--epochs 1 --save host");
  const auto last_loss = [&](const std::string& save) {
    const std::string lines = read(save + "/metrics.jsonl");
    return Json::parse(lines.substr(lines.rfind('{'))).at("lm_loss").get<double>();
  };
  EXPECT_NEAR(last_loss("classifier"), last_loss("host"), 1e-5);
  expect_same("classify --load classifier --json", "one\ttwo\n");
  expect_done(finetune + "--epochs 0 --load classifier --device cuda-emulated");

  pretrain("t5 --decoder-seq-length 16 --vocab-extra-ids 8");
  expect_same("generate --load model --prompt 'one two [MASK]' --json --max-tokens 8");
  expect_same("score --load model --json --target 'three four'", read("text.txt"));
}

TEST_F(DeviceCommands, PlanForDevicesThatAreNotThere) {
  pretrain("gpt");
  const Json cpu = run_json("generate --load model --plan --json").at("bytes");
  const Json named =
      run_json("generate --load model --plan --json --device cuda:h100-80g").at("bytes");
  EXPECT_EQ(named.at("parameters"), cpu.at("parameters"));
  // Of cuBLASLt.
  EXPECT_GT(named.at("workspace").get<std::int64_t>(), std::int64_t{32} << 20);
  expect_error("generate --load model --device cuda:h100-80g", 78,
               "a device with a name is for plans");
  expect_error("score --load model --tokens 1 2 --device cuda:h100-80g", 78,
               "a device with a name is for plans");
  expect_error("generate --load model --device cuda-emulated --tensor-model-parallel-size 2", 78,
               "2 ranks would exchange tensors of devices");
  expect_error("score --load model --tokens 1 2 --device cuda-emulated --matmul-precision fp32", 78,
               "--matmul-precision fp32 is of processors");
}

// Each with one line that says what to do.
TEST_F(DeviceCommands, SayWhyThereIsNoDevice) {
  pretrain("gpt");
  const auto refuses = [&](const std::string& environment, int status, const std::string& line,
                           const std::string& words = "score --load model --tokens 1 2") {
    const ProgramOutput output =
        run_between("export " + environment, words + " --device cuda-emulated", "");
    EXPECT_EQ(output.status, status) << output.err;
    EXPECT_NE(output.err.find(line), std::string::npos) << output.err;
  };
  const std::string train =
      "pretrain gpt --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 "
      "--max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 1 --lr 1e-2 "
      "--train-iters 1 --mock-data --tokenizer-type NullTokenizer --vocab-size 16";
  refuses("PHALANX_EMULATED_DRIVER=0", 69,
          "this machine has no NVIDIA driver: install one of CUDA 13.0 or later");
  refuses("PHALANX_EMULATED_DRIVER=12020", 69,
          "the NVIDIA driver is of CUDA 12.2, this program needs 13.0 or later");
  refuses("PHALANX_EMULATED_DRIVER=0", 69, "this machine has no NVIDIA driver", train);
  refuses("PHALANX_EMULATED_DEVICES=0", 69, "the driver shows no device (no CUDA-capable device");
  refuses("CUDA_VISIBLE_DEVICES=7", 69,
          "the driver shows no device with CUDA_VISIBLE_DEVICES=7 (no CUDA-capable device is "
          "detected): name one that nvidia-smi -L prints, or unset it");
  refuses("CUDA_VISIBLE_DEVICES='0, 1'", 78, "CUDA_VISIBLE_DEVICES=0, 1: ' 1' is no device");
  refuses("PHALANX_EMULATED_DEVICES=2", 78, "2 ranks would exchange tensors of devices",
          train + " --nproc 2 --global-batch-size 2");
}

}  // namespace
}  // namespace phalanx
