// Tokenizers, checkpoints and datasets in memory, and models, are what their readers read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/library/test_support.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// A trained model, once for all tests.
class Handles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    phalanx_set_log([](int, const char*, void*) {}, nullptr);
    scratch_ = new TemporaryDirectory("handles");
    Json flags = tiny_flags(write_tiny_data(scratch_->path()));
    flags.update({{"save", *scratch_ / "run"}, {"save-interval", 6}, {"eval-iters", 0}});
    const Answer run = phalanx_run(request_of(flags).c_str(), nullptr, nullptr, nullptr);
    ASSERT_EQ(run.code, 0) << run.error;
  }
  static void TearDownTestSuite() {
    delete scratch_;
    phalanx_set_log(nullptr, nullptr);
  }
  static std::string directory() { return *scratch_ / "run"; }
  static Json call(phalanx_answer* (*function)(const char*), const Json& request) {
    return Answer(function(request.dump().c_str())).json();
  }
  static std::string program(const std::string& words, const std::string& input = "") {
    return output_of_program(words, scratch_->path(), input);
  }

  static TemporaryDirectory* scratch_;
};
TemporaryDirectory* Handles::scratch_ = nullptr;

// Without times.
Json answer_of_document(Json document) {
  document.erase("rates");
  return document;
}

TEST_F(Handles, TextsFromAModel) {
  Json request = {{"load", directory()},
                  {"prompts", {"1 2 3"}},
                  {"flags", {{"max-tokens", 4}, {"seed", 7}, {"threads_per_rank", 1}}}};
  const std::string words =
      "generate --load run --max-tokens 4 --seed 7 --threads-per-rank 1 "
      "--json --prompt ";
  const Json one = call(phalanx_generate, request);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_TRUE(one[0].contains("rates"));
  EXPECT_EQ(answer_of_document(one[0]),
            answer_of_document(Json::parse(program(words + "'1 2 3'"))));
  request["prompts"] = {"1 2 3", "4 5"};
  const Json two = call(phalanx_generate, request);
  ASSERT_EQ(two.size(), 2U);
  const Json expected = Json::parse(program(words + "'1 2 3' '4 5'"))["answers"];
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(answer_of_document(two[i]), expected[i]);
  EXPECT_EQ(two[0]["rates"]["prompt_tokens"], 5);
  request["prompts"] = Json::array();
  EXPECT_THAT(Answer(phalanx_generate(request.dump().c_str())).error, HasSubstr("prompts: "));
}

TEST_F(Handles, ScoresOfTexts) {
  const Json request = {{"load", directory()}, {"flags", {{"threads-per-rank", 1}}}};
  const std::string words = "score --load run --threads-per-rank 1 --json ";
  Json texts = request, tokens = request;
  // A line end is a part of a text.
  texts["texts"] = {"1 2 3", "4\n5 6"};
  tokens["tokens"] = {{1, 2, 3}, {4, 5, 6}};
  const Json expected = {Json::parse(program(words, "1 2 3")),
                         Json::parse(program(words + "--tokens 4 5 6"))};
  EXPECT_EQ(call(phalanx_score, texts), expected);
  EXPECT_EQ(call(phalanx_score, tokens), expected);
  tokens["tokens"] = {{1, 2}, {1, 99}};
  EXPECT_THAT(Answer(phalanx_score(tokens.dump().c_str())).error,
              HasSubstr("tokens[1]: token 1 is 99"));
  tokens["tokens"] = {{1, 2.5}};
  EXPECT_THAT(Answer(phalanx_score(tokens.dump().c_str())).error,
              HasSubstr("tokens[0][1]: 2.5 is no token id"));
  EXPECT_THAT(Answer(phalanx_score(request.dump().c_str())).error, HasSubstr("texts or tokens"));
}

TEST_F(Handles, ReportsOfRuns) {
  const Json page = call(phalanx_report, {{"directories", {directory()}}});
  EXPECT_THAT(page["html"].get<std::string>(), HasSubstr("<html"));
}

TEST_F(Handles, TensorsOfACheckpoint) {
  phalanx_checkpoint* checkpoint = nullptr;
  const Json opened = Answer(phalanx_checkpoint_open(directory().c_str(), &checkpoint)).json();
  const auto reader = CheckpointReader::open(directory());
  EXPECT_EQ(opened["iteration"], 6);
  EXPECT_EQ(opened["directory"], reader.directory().string());
  EXPECT_EQ(opened["manifest"]["consumed_train_samples"], 24);
  EXPECT_EQ(opened["tensors"].size(), reader.manifest().tensors.size());
  for (const auto& entry : reader.manifest().tensors) {
    SCOPED_TRACE(entry.name);
    const void* data = nullptr;
    size_t bytes = 0;
    const Json one =
        Answer(phalanx_checkpoint_tensor(checkpoint, entry.name.c_str(), &data, &bytes)).json();
    EXPECT_EQ(one, opened["tensors"][entry.name]);
    EXPECT_EQ(one["dtype"], name_of(entry.dtype));
    EXPECT_EQ(one["shape"],
              Json(std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())));
    const auto expected = testing_support::bytes_of(reader, entry);
    ASSERT_EQ(bytes, expected.size());
    EXPECT_EQ(std::memcmp(data, expected.data(), bytes), 0);
  }
  const void* data = nullptr;
  size_t bytes = 0;
  const Answer none = phalanx_checkpoint_tensor(checkpoint, "nothing", &data, &bytes);
  EXPECT_EQ(none.code, 66);
  EXPECT_THAT(none.error, HasSubstr("has no tensor nothing"));
  phalanx_checkpoint_close(checkpoint);
}

TEST_F(Handles, DamagedTensorsAreNotGiven) {
  const std::filesystem::path copy = *scratch_ / "copy";
  std::filesystem::copy(CheckpointReader::open(directory()).directory(), copy,
                        std::filesystem::copy_options::recursive);
  const auto file = copy / "model.safetensors";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(std::filesystem::file_size(file)) - 1)
      .put('\x55');
  phalanx_checkpoint* checkpoint = nullptr;
  const Json opened = Answer(phalanx_checkpoint_open(copy.c_str(), &checkpoint)).json();
  int damaged = 0;
  for (const auto& [name, tensor] : opened["tensors"].items()) {
    const void* data = nullptr;
    size_t bytes = 0;
    const Answer answer = phalanx_checkpoint_tensor(checkpoint, name.c_str(), &data, &bytes);
    if (answer.code == 0) continue;
    ++damaged;
    EXPECT_EQ(answer.code, 65);
    EXPECT_THAT(answer.error, HasSubstr("tensor " + name + " is damaged"));
    EXPECT_EQ(data, nullptr);
  }
  EXPECT_EQ(damaged, 1);
  phalanx_checkpoint_close(checkpoint);
}

TEST_F(Handles, SequencesOfADataset) {
  const std::string prefix = *scratch_ / "data";
  const std::vector<std::vector<std::int32_t>> sequences = {{1, 2, 3}, {}, {4, 60'000}};
  {
    IndexedDatasetWriter writer(prefix, TokenType::kU16);
    for (const auto& ids : sequences) {
      writer.add_sequence(ids);
      writer.end_document();
    }
    writer.commit();
  }
  phalanx_dataset* dataset = nullptr;
  EXPECT_EQ(Answer(phalanx_dataset_open(prefix.c_str(), &dataset)).json(),
            Json({{"documents", 3}, {"sequences", 3}, {"tokens", 5}, {"dtype", "u16"}}));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const void* data = nullptr;
    size_t tokens = 0;
    EXPECT_EQ(
        Answer(phalanx_dataset_sequence(dataset, static_cast<std::int64_t>(i), &data, &tokens))
            .code,
        0);
    const std::span ids(static_cast<const std::uint16_t*>(data), tokens);
    EXPECT_EQ(std::vector<std::int32_t>(ids.begin(), ids.end()), sequences[i]);
  }
  const void* data = nullptr;
  size_t tokens = 0;
  for (const std::int64_t index : {-1, 3}) {
    const Answer answer = phalanx_dataset_sequence(dataset, index, &data, &tokens);
    EXPECT_EQ(answer.code, 64);
    EXPECT_THAT(answer.error, HasSubstr("there is no sequence"));
  }
  phalanx_dataset_close(dataset);
}

TEST_F(Handles, Tokenizers) {
  std::ofstream(*scratch_ / "text.txt") << "And the king said unto the people, behold the king.\n";
  const Json trained = call(
      phalanx_command,
      {{"command", {"train-tokenizer"}},
       {"flags",
        {{"input", *scratch_ / "text.txt"}, {"vocab-size", 270}, {"output", *scratch_ / "tok"}}}});
  EXPECT_EQ(trained["status"], 0);
  const std::string vocab = *scratch_ / "tok/vocab.json";
  const std::string merges = *scratch_ / "tok/merges.txt";
  const auto expected = make_tokenizer({.vocab_file = vocab, .merge_file = merges});
  const Json request = {{"flags", {{"vocab_file", vocab}, {"merge-file", merges}}}};
  phalanx_tokenizer* tokenizer = nullptr;
  const Json opened = Answer(phalanx_tokenizer_open(request.dump().c_str(), &tokenizer)).json();
  EXPECT_EQ(opened["vocab_size"], expected->vocab_size());
  EXPECT_EQ(opened["type"], "GPT2BPETokenizer");
  EXPECT_EQ(opened["special_tokens"]["eod"], expected->end_of_document());
  const std::vector<std::string> texts = {"the king\nsaid", "", "\xc3\xa4 behold"};
  const Json ids =
      Answer(phalanx_tokenize(tokenizer, Json({{"texts", texts}}).dump().c_str())).json();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(ids["ids"][i], Json(expected->encode(texts[i])));
  }
  EXPECT_EQ(Answer(phalanx_detokenize(tokenizer, ids.dump().c_str())).json(),
            Json({{"texts", texts}}));
  const Json special = {{"texts", {"<|endoftext|>"}}, {"parse_special_tokens", true}};
  EXPECT_EQ(Answer(phalanx_tokenize(tokenizer, special.dump().c_str())).json()["ids"][0],
            Json({expected->end_of_document()}));
  EXPECT_THAT(Answer(phalanx_detokenize(tokenizer, R"({"ids": [[1], [5000]]})")).error,
              HasSubstr("ids[1]: GPT2BPETokenizer: token id 5000"));
  EXPECT_THAT(Answer(phalanx_tokenize(tokenizer, R"({"texts": [1]})")).error,
              HasSubstr("texts[0]: 1 is no text"));
  phalanx_tokenizer_close(tokenizer);
}

TEST_F(Handles, TokenizersOfCheckpoints) {
  phalanx_tokenizer* tokenizer = nullptr;
  const Json opened =
      Answer(phalanx_tokenizer_open(Json({{"load", directory()}}).dump().c_str(), &tokenizer))
          .json();
  EXPECT_EQ(opened["type"], "NullTokenizer");
  EXPECT_EQ(Answer(phalanx_tokenize(tokenizer, R"({"texts": ["5 7"]})")).text,
            R"({"ids":[[5,7]]})");
  phalanx_tokenizer_close(tokenizer);
  const Answer both = phalanx_tokenizer_open(R"({"load": "a", "flags": {}})", &tokenizer);
  EXPECT_THAT(both.error, HasSubstr("load and flags: give one of them"));
  EXPECT_EQ(tokenizer, nullptr);
}

}  // namespace
}  // namespace phalanx
