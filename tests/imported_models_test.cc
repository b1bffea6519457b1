// What becomes of an imported model's tokenizer, ids and files when it is trained on, as it is
// typed.

#include <algorithm>

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using Output = ProgramOutput;

class ImportedModels : public ProgramTest {
 protected:
  // A folder that transformers wrote, to be changed.
  void copy_folder(const std::string& name, const std::string& to) const {
    std::filesystem::copy(source_path("tests/golden/hugging_face") / name, directory_ / to);
  }
  void import(const std::string& folder, const std::string& to,
              const std::string& flags = "") const {
    const Output output = run("import hf --input " + folder + " --output " + to + " " + flags);
    ASSERT_EQ(output.status, 0) << output.err;
  }

  // Of the T5 and its 32 ids, as published ones have it: no [BOS], sentinels from the last id down.
  void write_t5_tokenizer(const std::string& folder) const {
    Json vocabulary = Json::array();
    Json added = Json::array();
    const auto add = [&](int id, const std::string& content) {
      added.push_back({{"id", id},
                       {"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    };
    const auto piece = [&](const std::string& text, double score) {
      vocabulary.push_back(Json::array({text, score}));
    };
    for (const char* special : {"<pad>", "</s>", "<unk>"}) {
      add(static_cast<int>(vocabulary.size()), special);
      piece(special, 0.0);
    }
    for (int i = 0; i < 12; ++i) piece(fmt::format("▁{}{}", i < 6 ? 'a' : 'b', i % 6), -2.0);
    for (int id = 15; id < 24; ++id) piece(fmt::format("▁w{}", id), -9.0);
    for (int i = 0; i < 8; ++i) add(31 - i, fmt::format("<extra_id_{}>", i));
    const Json metaspace = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
    write(folder + "/tokenizer.json",
          Json{{"version", "1.0"},
               {"added_tokens", added},
               {"pre_tokenizer", metaspace},
               {"decoder", metaspace},
               {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocabulary}}}}
              .dump());
    write(folder + "/tokenizer_config.json",
          R"({"tokenizer_class": "T5TokenizerFast", "eos_token": "</s>", "pad_token": "<pad>"})");
  }
  void write_sentences() const {
    std::string documents;
    for (const std::string letter : {"a", "b"}) {
      std::string sentence;
      for (int i = 0; i < 6; ++i) sentence += fmt::format("{}{} ", letter, i);
      for (int i = 0; i < 8; ++i) {
        documents += Json{{"text", std::vector<std::string>(4, sentence)}}.dump() + "\n";
      }
    }
    write("documents.jsonl", documents);
  }
  // Trains what lies in `from` with the checkpoint's flags.
  Output train(const std::string& family, const std::string& from, const std::string& flags) const {
    return run("pretrain " + family + " --load " + from +
               " --finetune --use-checkpoint-args --micro-batch-size 2 --global-batch-size 2 "
               "--train-iters 2 --eval-iters 0 --lr 1e-3 --threads-per-rank 1 --save trained "
               "--save-interval 2 " +
               flags);
  }
  Json arguments_of(const std::string& checkpoint) const {
    return Json::parse(read(checkpoint + "/manifest.json")).at("arguments");
  }
};

TEST_F(ImportedModels, AT5IsTrainedWithTheIdsOfItsFolder) {
  copy_folder("t5-v1.1", "t5");
  write_t5_tokenizer("t5");
  import("t5", "imported");
  write_sentences();
  const std::string tokenizer = " --tokenizer-type HuggingFaceTokenizer --tokenizer-model t5 ";
  ASSERT_EQ(run("preprocess-data --input documents.jsonl --output-prefix data" + tokenizer).status,
            0);
  const std::string data =
      "--data-path data_text_document --seq-length 32 --decoder-seq-length 24 ";
  // The folder as a tokenizer says the same ids.
  const Json samples = run_json(
                           "dataset samples --model t5 --split 1,0,0 --train-samples 2 --first "
                           "2 --json " +
                           data + tokenizer)
                           .at("samples");
  ASSERT_EQ(samples.size(), 2U);
  for (const Json& sample : samples) {
    const auto labels = sample.at("labels").get<std::vector<int>>();
    EXPECT_EQ(sample.at("text_dec")[0], 0);   // decoder_start_token_id
    EXPECT_EQ(sample.at("text_dec")[1], 31);  // <extra_id_0>
    EXPECT_EQ(labels[0], 31);
    EXPECT_EQ(*(std::ranges::find(labels, -1) - 1), 1);  // eos_token_id
  }
  const Output trained = train("t5", "imported", data);
  ASSERT_EQ(trained.status, 0) << trained.err;
  // Its targets are those of scores: the model has learned a little of them.
  const std::string score =
      " --json --tokens '9 31 13 14 9 10 11 12 13 14' --target '<extra_id_0> b1 b2'";
  const double before = run_json("score --load imported" + score).at("loss");
  ASSERT_EQ(run_json("score --load trained" + score).at("tokens"), Json({0, 31, 10, 11, 1}));
  EXPECT_LT(run_json("score --load trained" + score).at("loss").get<double>(), before);
  ASSERT_EQ(run("export hf --load trained --output out").status, 0);
  const Json config = Json::parse(read("out/config.json"));
  EXPECT_EQ(config.at("decoder_start_token_id"), 0);
  EXPECT_EQ(config.at("eos_token_id"), 1);
  // Trained again, with the folder's tokenizer by its path.
  EXPECT_EQ(run("pretrain t5 --load trained --use-checkpoint-args --micro-batch-size 2 "
                "--global-batch-size 2 --train-iters 3 --eval-iters 0 --lr 1e-3 --threads-per-rank "
                "1 --override-opt_param-scheduler " +
                data + tokenizer)
                .status,
            0);

  // Without sentinels there are no spans.
  import("t5", "ids", "--no-tokenizer");
  std::filesystem::remove_all(directory_ / "trained");
  const Output refused = train("t5", "ids", data);
  EXPECT_EQ(refused.status, 78) << refused.err;
  EXPECT_NE(refused.err.find("this tokenizer has none"), std::string::npos) << refused.err;
}

TEST_F(ImportedModels, FilesThatAreNotUnderstoodOutliveTraining) {
  copy_folder("t5-v1.1", "t5");
  write_t5_tokenizer("t5");
  const std::string chat("{%- for m in messages -%}\r\n\0\xff{{ m }}\n", 37);
  write("t5/chat_template.jinja", chat);
  write("t5/special_tokens_map.json", "{\"eos_token\":   \"</s>\"}");
  write("t5/added_tokens.json", "{}\n\n");
  write("t5/README.md", "# A model");
  write("t5/.gitattributes", "*.safetensors filter=lfs");
  write("t5/optimizer.pt", "weights");
  Json generation = Json::parse(read("t5/generation_config.json"));
  generation["temperature"] = 0.6;
  generation["do_sample"] = true;
  write("t5/generation_config.json", generation.dump());
  const Json imported = run_json("import hf --input t5 --output imported --json");
  // The other two are the tokenizer's.
  EXPECT_EQ(imported.at("kept_files"), Json(std::vector<std::string>{"chat_template.jinja"}));
  write_sentences();
  ASSERT_EQ(run("preprocess-data --input documents.jsonl --output-prefix data --tokenizer-type "
                "HuggingFaceTokenizer --tokenizer-model t5")
                .status,
            0);
  std::filesystem::rename(directory_ / "t5", directory_ / "folder");  // needed no more
  const std::string data =
      "--data-path data_text_document --seq-length 32 --decoder-seq-length 24 ";
  const Output trained = train("t5", "imported", data);
  ASSERT_EQ(trained.status, 0) << trained.err;
  ASSERT_EQ(run("export hf --load trained --output out").status, 0);
  for (const char* name : {"chat_template.jinja", "special_tokens_map.json", "added_tokens.json",
                           "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(read(std::string("out/") + name), read(std::string("folder/") + name)) << name;
  }
  EXPECT_EQ(read("out/chat_template.jinja"), chat);
  for (const char* name : {"README.md", ".gitattributes", "optimizer.pt"}) {
    EXPECT_FALSE(std::filesystem::exists(directory_ / "out" / name)) << name;
  }
  generation["transformers_version"] = "4.44.0";
  EXPECT_EQ(Json::parse(read("out/generation_config.json")), generation);
  EXPECT_EQ(run("checkpoint info trained").status, 0);
}

TEST_F(ImportedModels, EveryFamilyHasTheCheckpointsTokenizer) {
  copy_folder("bert", "bert");
  write("bert/tokenizer_config.json", R"({"do_lower_case": false})");
  import("bert", "imported");
  std::string lines;
  for (int i = 0; i < 24; ++i) {
    lines += Json{{"text", std::vector<std::string>(3, "w0 w1 w2 w3 w4")}}.dump() + "\n";
  }
  write("documents.jsonl", lines);
  const std::string tokenizer =
      " --tokenizer-type BertWordPieceCase --vocab-file bert/vocab.txt --vocab-file-only ";
  ASSERT_EQ(run("preprocess-data --input documents.jsonl --output-prefix data" + tokenizer).status,
            0);
  const Json said = arguments_of("imported/iter_0000000");
  const std::string data = "--data-path data_text_document --seq-length 10 ";
  const Output trained = train("bert", "imported", data);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Json kept = arguments_of("trained/iter_0000002");
  EXPECT_EQ(kept.at("--tokenizer-type"), "BertWordPieceCase");
  for (const char* flag : {"--tokenizer-type", "--vocab-file-only"}) {
    EXPECT_EQ(kept.at(flag), said.at(flag)) << flag;
  }
  // Its type is the checkpoint's although a file is named here.
  std::filesystem::copy_file(directory_ / "bert/vocab.txt", directory_ / "same.txt");
  std::filesystem::remove_all(directory_ / "trained");
  EXPECT_EQ(train("bert", "imported", data + "--vocab-file same.txt").status, 0);
}

// A tokenizer of the call replaces the checkpoint's as a whole, where it is allowed to.
TEST_F(ImportedModels, TheTokenizerOfTheCallWins) {
  copy_folder("llama-llama3-rope", "llama");
  write("llama/chat_template.jinja", "{{ x }}");
  import("llama", "imported");
  EXPECT_EQ(arguments_of("imported/iter_0000000").at("--vocab-size"), "31");
  std::filesystem::create_directory(directory_ / "own");
  write_t5_tokenizer("own");
  const std::string own =
      "--mock-data --seq-length 16 --tokenizer-type HuggingFaceTokenizer --tokenizer-model own ";
  const Output refused = train("gpt", "imported", own);
  EXPECT_EQ(refused.status, 78);
  EXPECT_NE(refused.err.find("--allow-changed tokenizer-type"), std::string::npos) << refused.err;
  EXPECT_EQ(refused.err.find("--vocab-size"), std::string::npos) << refused.err;
  const Output trained = train("gpt", "imported", own + "--allow-changed tokenizer-type");
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("chat_template.jinja"), std::string::npos) << trained.err;
  const Output exported = run("export hf --load trained --output out");
  ASSERT_EQ(exported.status, 0) << exported.err;
  // What belonged to the other tokenizer is gone, its ids too.
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out/chat_template.jinja"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "out/tokenizer.json"));
  EXPECT_EQ(Json::parse(read("out/config.json")).at("eos_token_id"), 1);
  EXPECT_EQ(Json::parse(read("out/generation_config.json")).at("eos_token_id"), 1);

  // A file without a type is of the checkpoint's.
  const Output alone = train("gpt", "imported", "--mock-data --tokenizer-model own");
  EXPECT_EQ(alone.status, 78);
  EXPECT_NE(alone.err.find("is a NullTokenizer, which has none: give --tokenizer-type, too"),
            std::string::npos)
      << alone.err;
}

TEST_F(ImportedModels, WhatIsNoCheckpointAndNoTokenizerIsSaid) {
  copy_folder("llama-llama3-rope", "llama");
  expect_error("generate --load llama --prompt 1", 66, "phalanx import hf --input llama");
  expect_error("pretrain gpt --load llama --use-checkpoint-args --mock-data", 66,
               "phalanx import hf --input llama");
  const Output null = run("import hf --input llama --output null");
  EXPECT_EQ(null.status, 0) << null.err;
  EXPECT_NE(null.err.find("has no tokenizer: texts are ids"), std::string::npos) << null.err;

  write("llama/tokenizer_config.json", "{}");
  expect_error("import hf --input llama --output out", 66, "has tokenizer_config.json, but no");
  EXPECT_EQ(run("import hf --input llama --output alone --no-tokenizer").status, 0);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "alone/iter_0000000/tokenizer_config.json"));

  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 2471645608\n";
  write("llama/tokenizer.model", pointer);
  expect_error("import hf --input llama --output out", 66, "llama/tokenizer.model: a Git LFS");
  write("llama/model.safetensors", pointer);
  expect_error("import hf --input llama --output out", 66, "git lfs pull");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out"));
}

}  // namespace
}  // namespace phalanx
