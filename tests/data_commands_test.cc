// From text to a run, command by command, and every kind of tokenizer with files that fit on a
// page.

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/machine.h"
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

// The bytes of numbers, little-endian.
template <typename T>
void append(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// A corpus and a vocabulary whose samples are known from Megatron-core.
class MaskedSamplesTest : public DataCommandsTest {
 protected:
  MaskedSamplesTest() {
    const std::vector<std::vector<std::int32_t>> documents{
        {6, 9, 4}, {}, {12, 3, 3, 8, 5, 7}, {10}, {2, 2, 2}, {513, 4}, {7, 11, 5, 6, 9}};
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> boundaries{0};
    std::int64_t tokens = 0;
    for (const auto& document : documents) {
      for (const std::int32_t length : document) {
        lengths.push_back(length);
        offsets.push_back(2 * tokens);
        tokens += length;
      }
      boundaries.push_back(static_cast<std::int64_t>(lengths.size()));
    }
    std::string idx("MMIDIDX\0\0", 9);
    append(idx, std::vector<std::uint64_t>{1});
    idx += '\x08';
    append(idx, std::vector<std::uint64_t>{lengths.size(), boundaries.size()});
    append(idx, lengths);
    append(idx, offsets);
    append(idx, boundaries);
    write("toy.idx", idx);
    std::vector<std::uint16_t> ids;
    for (std::uint32_t i = 0; i < tokens; ++i) {
      std::uint32_t x = i * 0x9E3779B1U;
      x = (x ^ x >> 16) * 0x7FEB352DU;
      x = (x ^ x >> 15) * 0x846CA68BU;
      ids.push_back(static_cast<std::uint16_t>(5 + (x ^ x >> 16) % 35));
    }
    std::string bin;
    append(bin, ids);
    write("toy.bin", bin);
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int id = 5; id < 40; ++id) {
      vocabulary += fmt::format("{}t{}\n", id % 4 == 3 ? "##" : "", id);
    }
    write("vocab.txt", vocabulary);
  }
  static std::string samples(const std::string& words) {
    return "dataset samples --data-path toy --split 1,0,0 --seq-length 24 --seed 1234 "
           "--train-samples 20 --of train --vocab-file vocab.txt --mask-prob 0.3 " +
           words;
  }
};

TEST_F(MaskedSamplesTest, OfBert) {
  const Json found = run_json(samples("--model bert --first 4 --json"));
  EXPECT_EQ(found["length"], 24);
  EXPECT_EQ(found["index"], Json::parse("[[3,7,21],[0,3,21],[0,3,21],[7,9,21]]"));
  ASSERT_EQ(found["samples"].size(), 4);
  EXPECT_EQ(found["samples"][1], Json::parse(R"({
      "text": [2,5,17,4,4,4,4,10,39,18,32,16,16,31,35,10,3,20,35,34,24,3,0,0],
      "types": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,0,0],
      "labels": [-1,-1,17,36,17,20,27,-1,-1,-1,-1,-1,-1,-1,-1,38,-1,-1,-1,-1,-1,-1,-1,-1],
      "is_random": 0,
      "loss_mask": [0,0,1,1,1,1,1,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0],
      "padding_mask": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,0,0],
      "truncated": 0})"));
  EXPECT_EQ(found["samples"][0]["truncated"], 1);
  // What a second start maps is what the first one made.
  const std::string cached = samples("--model bert --first 30 --json --data-cache-path cache");
  const Json made = run_json(cached);
  EXPECT_EQ(made["samples"].size(), 24);
  EXPECT_FALSE(std::filesystem::is_empty(directory_ / "cache"));
  EXPECT_EQ(run_json(cached), made);
  const Json one = run_json(samples("--model bert --bert-no-binary-head --first 1 --json"));
  EXPECT_EQ(one["index"], Json::parse("[[18,20,21]]"));
}

TEST_F(MaskedSamplesTest, OfT5) {
  const std::string t5 = samples("--model t5 --decoder-seq-length 16 --first 4 --json ");
  const Json found = run_json(t5 + "--vocab-extra-ids 8");
  EXPECT_EQ(found["length"], 21);
  EXPECT_EQ(found["index"], Json::parse("[[18,20,22],[7,9,22],[10,13,22],[7,9,22]]"));
  EXPECT_EQ(found["samples"][2], Json::parse(R"({
      "text_enc": [42,20,43,20,11,17,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],
      "text_dec": [40,42,11,43,37,0,0,0,0,0,0,0,0,0,0,0],
      "labels": [42,11,43,37,41,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1],
      "loss_mask": [1,1,1,1,1,0,0,0,0,0,0,0,0,0,0,0],
      "truncated": 0})"));
  EXPECT_EQ(run(t5 + "--vocab-extra-ids 1").status, 65);
  expect_error(t5, 78, "--vocab-extra-ids");
}

// As they would stand in one data set of both, without tokens that belong to another model.
TEST_F(MaskedSamplesTest, OfABlend) {
  const Json alone = run_json(samples("--model bert --first 24 --json"));
  const Json found = run_json(
      "dataset samples --model bert --data-path 1 toy 1 toy --split 1,0,0 --seq-length 24 "
      "--train-samples 38 --vocab-file vocab.txt --mask-prob 0.3 --first 38 --json");
  for (std::size_t i = 0; i < 38; ++i) {
    EXPECT_EQ(found["samples"][i], alone["samples"][i / 2]) << i;
    EXPECT_EQ(found["index"][i], alone["index"][i / 2]) << i;
  }
}

TEST_F(MaskedSamplesTest, WhatDoesNotGoTogether) {
  expect_error(samples("--model gpt"), 64, "--mask-prob");
  expect_error(samples("--model bert --decoder-seq-length 4"), 64, "--decoder-seq-length");
  expect_error(samples("--model t5 --bert-no-binary-head"), 64, "--bert-no-binary-head");
  expect_error(samples("--model bert --data-order sequential"), 64, "--data-order");
  expect_error(samples("--model t5 --vocab-extra-ids 8"), 78, "--decoder-seq-length");
  expect_error("dataset samples --model bert --data-path toy --seq-length 24 --train-samples 9", 64,
               "--vocab-file");
  expect_error(samples("--model bert --mask-prob 0"), 78, "--mask-prob");
  expect_error(samples("--model bert --short-seq-prob 1.5"), 78, "--short-seq-prob");
  expect_error(samples("--model bert --seq-length 4"), 78, "--seq-length");
}

// Before the kernel ends the command.
TEST_F(MaskedSamplesTest, WhatDoesNotFitIntoMemoryIsRefused) {
  constexpr std::int64_t kOfLongest = std::int64_t{79} << 30;
  if (available_memory().bytes < kOfLongest) {
    expect_error(
        "dataset samples --data-path toy --split 1,0,0 --seq-length 2147483646 --train-samples 2",
        78, "a sample of --seq-length 2147483646 takes");
  }
  expect_error(
      "dataset samples --data-path toy --split 1,0,0 --seq-length 4 --train-samples 1000000000000",
      78, "train for fewer samples");
  expect_error(
      "dataset samples --data-path 1 toy 1 toy --split 1,0,0 --seq-length 4 --train-samples "
      "1000000000000",
      78, "train for fewer samples");
}

TEST_F(DataCommandsTest, ConversationsAreShownAsTheyAreTrained) {
  const std::string words =
      "--sft --tokenizer-type NullTokenizer --vocab-size 10 --chat-template chat.jinja ";
  write("chat.jinja",
        "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %} 9{% endif %} "
        "{% endfor %}");
  write("chats.jsonl",
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"1 2\"}], \"completion\": "
        "[{\"role\": \"assistant\", \"content\": \"3\"}]}\n"
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"4\"}], \"completion\": "
        "[{\"role\": \"assistant\", \"content\": \"5 6 7 8 5 6 7 8\"}]}\n");
  const Json shown = run_json(
      "dataset samples --json --data-path chats.jsonl --split 1,0,0 "
      "--seq-length 6 --train-samples 1 " +
      words);
  EXPECT_EQ(shown["samples"][0], Json::parse(R"({"tokens": [1, 2, 3, 9, 0, 0],
                                                 "labels": [2, 3, 9, 0, 0, 0],
                                                 "loss_mask": [0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
                                                 "position_ids": [0, 1, 2, 3, 0, 0],
                                                 "documents": [0, 0, 0, 0, -1, -1]})"));
  const Json found = run_json("dataset info --json chats.jsonl --seq-length 6 " + words);
  EXPECT_EQ(found["conversations"], 2);
  EXPECT_EQ(found["tokens"], 14);
  EXPECT_EQ(found["trained_tokens"], 11);
  EXPECT_EQ(found["dropped_too_long"], 1);
  EXPECT_EQ(found["kept_tokens"], 4);
  expect_error("dataset info --sft chats.jsonl", 64, "--tokenizer-type");
  expect_error("dataset info chats.jsonl --sft-loss all", 78, "--sft");
  expect_error("dataset samples --data-path chats.jsonl --seq-length 6 --model bert " + words, 64,
               "--sft");
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
