// import hf and export hf, as they are typed.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "program_test.h"
#include "tests/paths.h"

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

// Up to the first of these.
std::vector<int> until(const Json& tokens, const std::vector<int>& ends) {
  auto ids = tokens.get<std::vector<int>>();
  ids.erase(std::ranges::find_first_of(ids, ends), ids.end());
  return ids;
}

std::string ids_of(const Json& tokens) {
  std::string ids;
  for (const int id : tokens.get<std::vector<int>>()) ids += std::to_string(id) + " ";
  return ids;
}

// The tokens as the lines of a vocab.txt.
std::string words_of(const Json& tokens, const std::filesystem::path& vocabulary) {
  std::ifstream file(vocabulary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::string words;
  for (const int id : tokens.get<std::vector<int>>()) {
    words += lines.at(static_cast<std::size_t>(id)) + " ";
  }
  return words;
}

// Folders that transformers wrote, with what it says of them.
TEST_F(HuggingFaceCommands, ComputeWhatTransformersComputes) {
  const std::filesystem::path folders = source_path("tests/golden/hugging_face");
  std::ifstream file(folders / "expected.json");
  const Json expected = Json::parse(file).at("models");
  std::map<std::string, int> compared;
  for (const auto& [name, model] : expected.items()) {
    SCOPED_TRACE(name);
    const std::string kind = model.at("kind");
    ++compared[kind];
    const std::filesystem::path folder = folders / name;
    ASSERT_EQ(run("import hf --input '" + folder.string() + "' --output " + name).status, 0);
    const std::string score = "score --load " + name + " --json";
    const std::string ids = ids_of(model.at("tokens"));
    Json scored;
    if (kind == "causal") {
      scored = run_json(score + " --logits --tokens '" + ids + "'");
      expect_near(scored.at("logits"), model.at("logits"));
    } else if (kind == "text-to-text") {
      scored =
          run_json(score + " --tokens '" + ids + "' --target '" + ids_of(model.at("target")) + "'");
    } else {
      scored = Json::parse(run(score, words_of(model.at("tokens"), folder / "vocab.txt")).out);
    }
    expect_near(scored.at("log_probabilities"), model.at("log_probabilities"));
    if (kind == "masked") continue;
    const Json answer = run_json("generate --load " + name + " --prompt '" + ids +
                                 "' --temperature 0 --max-tokens 8 --json");
    // What the model ends with; a GPT's text also with the null tokenizer's end, the last id.
    const auto ends = kind == "causal" ? std::vector{2, 31} : std::vector{1};
    EXPECT_EQ(until(answer.at("tokens"), ends), until(model.at("greedy"), ends));
  }
  EXPECT_EQ(compared,
            (std::map<std::string, int>{{"causal", 9}, {"masked", 2}, {"text-to-text", 2}}));
}

// What config.json says beside the model outlives training.
TEST_F(HuggingFaceCommands, ATrainedImportIsExportedWithItsTokens) {
  for (const std::string model : {"llama-llama3-rope", "qwen2-moe"}) {
    SCOPED_TRACE(model);
    for (const char* made : {"imported", "trained", "before", "after"}) {
      std::filesystem::remove_all(directory_ / made);
    }
    const std::string golden = source_path("tests/golden/hugging_face/" + model);
    ASSERT_EQ(run("import hf --input '" + golden + "' --output imported").status, 0);
    const Output trained = run(
        "pretrain gpt --load imported --finetune --use-checkpoint-args --mock-data --seq-length 16 "
        "--micro-batch-size 1 --global-batch-size 1 --train-iters 1 --eval-iters 0 --lr 1e-3 "
        "--threads-per-rank 1 --save trained --save-interval 1");
    ASSERT_EQ(trained.status, 0) << trained.err;
    ASSERT_EQ(run("export hf --load imported --output before").status, 0);
    const Output exported = run("export hf --load trained --output after");
    ASSERT_EQ(exported.status, 0) << exported.err;
    for (const char* name : {"config.json", "generation_config.json"}) {
      EXPECT_EQ(Json::parse(read(std::string("after/") + name)),
                Json::parse(read(std::string("before/") + name)));
    }
    EXPECT_NE(read("after/model.safetensors"), read("before/model.safetensors"));
  }
}

}  // namespace
}  // namespace phalanx
