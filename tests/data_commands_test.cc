// From text to a run, command by command, and every kind of tokenizer with files that fit on a
// page.

#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "program_test.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

class DataCommandsTest : public ProgramTest {
 protected:
  // One list of ids a line.
  Json lines_of(const std::string& words, const std::string& input) const {
    const ProgramOutput output = run("tokenize --lines --json " + words, input);
    EXPECT_EQ(output.status, 0) << output.err;
    Json lists = Json::array();
    std::istringstream lines(output.out);
    for (std::string line; std::getline(lines, line);) lists.push_back(Json::parse(line));
    return lists;
  }
  Json info(const std::string& prefix) const {
    return run_json("dataset info --json --data-path " + prefix);
  }
};

std::string base64(const std::string& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned word = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      word = word << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[word >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

TEST_F(DataCommandsTest, DataSetsAreMadeMergedBlendedAndCached) {
  prepare();
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += fmt::format("{{\"text\": \"In the beginning {} was the word {}.\"}}\n", i % 9, i % 4);
  }
  write("other.jsonl", lines);
  const ProgramOutput made =
      run("preprocess-data --input other.jsonl --workers 2 --append-eod --output-prefix other " +
          tokenizer());
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(run("dataset check --data-path other_text_document --vocab-size 300").status, 0);
  EXPECT_NE(run("dataset check --data-path other_text_document --vocab-size 20").status, 0);
  EXPECT_EQ(run("dataset head --data-path other_text_document --count 2").status, 0);

  const ProgramOutput merged =
      run("dataset merge --input data_text_document other_text_document --output-prefix merged");
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_EQ(info("other_text_document")["documents"], 200);
  for (const char* count : {"documents", "tokens", "sequences"}) {
    EXPECT_EQ(info("merged")[count], info("data_text_document")[count].get<int>() +
                                         info("other_text_document")[count].get<int>());
  }
  const Json samples = run_json(
      "dataset samples --data-path merged --split 100,0,0 --seq-length 16 --seed 3 "
      "--train-samples 50 --valid-samples 0 --test-samples 0 --of train --first 4 --json");
  ASSERT_EQ(samples["samples"].size(), 4);
  EXPECT_EQ(samples["samples"][0].size(), 17);

  // The order that a second run maps is the one that the first run made.
  const std::string blended =
      "pretrain gpt " + training() +
      "--data-path 70 data_text_document 30 other_text_document --data-cache-path cache "
      "--save-interval 8 --save ";
  std::vector<Json> losses[2];
  for (const int i : {0, 1}) {
    const std::string save = fmt::format("run_{}", i);
    const ProgramOutput trained = run(blended + save);
    ASSERT_EQ(trained.status, 0) << trained.err;
    for (const Json& line : metrics(save)) losses[i].push_back(line["lm_loss"]);
    EXPECT_FALSE(std::filesystem::is_empty(directory_ / "cache"));
  }
  EXPECT_EQ(losses[0].size(), 8);
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(DataCommandsTest, WordPieceReadsVocabTxt) {
  write(
      "vocab.txt",
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nwant\n##ed\nrunn\n##ing\n,\ne\n##e\n"
      "a\n##a\n\u4e2d\n!\n'\ncafe\ns\n[\n]\ncls\n");
  const std::string words = "--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt ";
  EXPECT_EQ(lines_of(words, "unaffable!\na\u4e2d!e\n\n[CLS] un'\n"),
            Json::parse("[[5, 6, 7, 18], [15, 17, 18, 13], [], [22, 24, 23, 5, 19]]"));
  EXPECT_EQ(lines_of(words + "--parse-special-tokens", "[CLS] un'\n"), Json::parse("[[2, 5, 19]]"));
  EXPECT_EQ(lines_of(words + "--add-special-tokens", "un\n"), Json::parse("[[2, 5, 3]]"));
}

TEST_F(DataCommandsTest, TiktokenReadsRanks) {
  std::string ranks;
  int rank = 0;
  for (; rank < 256; ++rank) {
    ranks += fmt::format("{} {}\n", base64(std::string(1, static_cast<char>(rank))), rank);
  }
  for (const char* token : {"ab", "bc", "abc", " a", "aa"}) {
    ranks += fmt::format("{} {}\n", base64(token), rank++);
  }
  write("ranks.tiktoken", ranks);
  EXPECT_EQ(lines_of("--tokenizer-type tiktoken --tokenizer-model ranks.tiktoken "
                     "--tiktoken-pattern llama3",
                     "aabc\naaaa\n"),
            Json::parse("[[97, 258], [260, 260]]"));
}

TEST_F(DataCommandsTest, HuggingFaceReadsTokenizerJson) {
  std::filesystem::create_directory(directory_ / "model");
  write("model/tokenizer_config.json", R"({"eos_token": "</s>"})");
  write("model/tokenizer.json",
        R"({"version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [{"id": 2, "content": "</s>", "single_word": false, "lstrip": false,
                              "rstrip": false, "normalized": false, "special": true}],
            "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
                      "continuing_subword_prefix": null, "end_of_word_suffix": null,
                      "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
                      "vocab": {"<unk>": 0, "a": 1}, "merges": []}})");
  const std::string words = "--tokenizer-type HuggingFaceTokenizer --tokenizer-model model ";
  EXPECT_EQ(lines_of(words, "axxay\n"), Json::parse("[[1, 0, 1, 0]]"));
  EXPECT_EQ(lines_of(words + "--parse-special-tokens", "a</s>a\n"), Json::parse("[[1, 2, 1]]"));
  expect_error("tokenize --tokenizer-type HuggingFaceTokenizer --tokenizer-model nowhere", 66,
               "nowhere");
}

}  // namespace
}  // namespace phalanx
