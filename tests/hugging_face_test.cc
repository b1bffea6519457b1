// import hf and export hf, as they are typed.

#include <algorithm>
#include <cmath>

#include "program_test.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using Output = ProgramOutput;

class HuggingFaceCommands : public ProgramTest {
 protected:
  // A small GPT-2 that was trained here, and its folder.
  void export_trained(const std::string& flags = "") const {
    prepare();
    ASSERT_EQ(run("pretrain gpt " + training() +
                  "--train-iters 2 --eval-iters 0 --threads-per-rank 1 --save run --save-interval "
                  "2 " +
                  flags)
                  .status,
              0);
    const Output output = run("export hf --load run --output folder");
    ASSERT_EQ(output.status, 0) << output.err;
  }
};

TEST_F(HuggingFaceCommands, ATrainedModelGoesOutAndComesBack) {
  export_trained();
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                           "vocab.json", "merges.txt", "tokenizer_config.json"}) {
    EXPECT_TRUE(std::filesystem::exists(directory_ / "folder" / name)) << name;
  }
  const Json config = Json::parse(read("folder/config.json"));
  EXPECT_EQ(config.at("architectures"), Json({"GPT2LMHeadModel"}));
  EXPECT_EQ(config.at("vocab_size"), 283);
  EXPECT_EQ(config.at("eos_token_id"), 282);

  const Json imported = run_json("import hf --input folder --output back --json");
  EXPECT_EQ(imported.at("architecture"), "GPT2LMHeadModel");
  EXPECT_EQ(imported.at("tensors"), 28);
  EXPECT_EQ(imported.at("arguments").at("--tokenizer-type"), "GPT2BPETokenizer");
  EXPECT_EQ(imported.at("dropped"), Json::array());
  // The folder is needed no more: the checkpoint has the tokenizer's files.
  std::filesystem::remove_all(directory_ / "folder");
  const std::string text = "And the 3 said unto the 2, behold.";
  const Output trained = run("score --load run --json", text);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(run("score --load back --json", text).out, trained.out);
  const std::string words = " --prompt 'And the' --max-tokens 4 --temperature 0";
  const Output generated = run("generate --load back" + words);
  EXPECT_EQ(generated.status, 0) << generated.err;
  EXPECT_EQ(generated.out, run("generate --load run" + words).out);

  ASSERT_EQ(run("export hf --load back --output again --max-shard-bytes 20000").status, 0);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "again/model.safetensors.index.json"));
  EXPECT_EQ(Json::parse(read("again/config.json")), config);
  ASSERT_EQ(run("import hf --input again --output twice --no-tokenizer").status, 0);
  EXPECT_EQ(run("checkpoint digest twice").out, run("checkpoint digest back").out);
}

TEST_F(HuggingFaceCommands, RefuseWhatTheyCannotDo) {
  export_trained();
  std::filesystem::copy(directory_ / "folder/config.json", directory_ / "config.json");
  expect_error("import hf --input nowhere --output out", 66, "nowhere");
  expect_error("import hf --input folder --output run", 73, "run");
  expect_error("export hf --load run --output folder", 73, "folder");
  expect_error("export hf --load run --output out --architecture LlamaForCausalLM", 78,
               "--normalization");
  expect_error("export hf --load run --output out --architecture Llama", 78, "LlamaForCausalLM");
  expect_error("export hf --load run --output out --dtype fp64", 78, "--dtype");
  Json config = Json::parse(read("config.json"));
  config["n_layer"] = 3;
  write("folder/config.json", config.dump());
  expect_error("import hf --input folder --output out", 65, "transformer.h.2");
  config["n_layer"] = 2;
  config["activation_function"] = "relu";
  write("folder/config.json", config.dump());
  expect_error("import hf --input folder --output out", 78, "activation_function");
  config["activation_function"] = "gelu_new";
  config["vocab_size"] = 100;
  write("folder/config.json", config.dump());
  expect_error("import hf --input folder --output out", 65, "transformer.wte.weight");
  // A tokenizer of more ids than the model has.
  config["vocab_size"] = 283;
  write("folder/config.json", config.dump());
  Json vocabulary = Json::parse(read("folder/vocab.json"));
  vocabulary["beholdtheunknown"] = 283;
  write("folder/vocab.json", vocabulary.dump());
  expect_error("import hf --input folder --output out", 78, "has 284 ids");
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("out")) << entry.path();
  }
}

// Numbers relative to the largest of them.
void expect_near(const Json& actual, const Json& expected) {
  const auto numbers = actual.get<std::vector<double>>();
  const auto others = expected.get<std::vector<double>>();
  ASSERT_EQ(numbers.size(), others.size());
  double largest = 0.0;
  for (const double other : others) largest = std::max(largest, std::abs(other));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR(numbers[i], others[i], 1e-5 * largest) << i;
  }
}

// Up to the first end: the model's, or the null tokenizer's, the last id.
std::vector<int> until_end(const Json& tokens) {
  auto ids = tokens.get<std::vector<int>>();
  ids.erase(std::ranges::find_if(ids, [](int id) { return id == 2 || id == 31; }), ids.end());
  return ids;
}

// Folders that transformers wrote, with what it says of them.
TEST_F(HuggingFaceCommands, ComputeWhatTransformersComputes) {
  const std::filesystem::path folders =
      std::filesystem::path(PHALANX_SOURCE_DIR) / "tests/golden/hugging_face";
  std::ifstream file(folders / "expected.json");
  const Json expected = Json::parse(file).at("models");
  int compared = 0;
  for (const auto& [name, model] : expected.items()) {
    if (model.at("kind") != "causal") continue;
    SCOPED_TRACE(name);
    ASSERT_EQ(run("import hf --input '" + (folders / name).string() + "' --output " + name).status,
              0);
    std::string ids;
    for (const int id : model.at("tokens").get<std::vector<int>>()) ids += std::to_string(id) + " ";
    const Json scored =
        run_json("score --load " + name + " --json --logits --tokens '" + ids + "'");
    expect_near(scored.at("log_probabilities"), model.at("log_probabilities"));
    expect_near(scored.at("logits"), model.at("logits"));
    const Json answer = run_json("generate --load " + name + " --prompt '" + ids +
                                 "' --temperature 0 --max-tokens 8 --json");
    EXPECT_EQ(until_end(answer.at("tokens")), until_end(model.at("greedy")));
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

}  // namespace
}  // namespace phalanx
