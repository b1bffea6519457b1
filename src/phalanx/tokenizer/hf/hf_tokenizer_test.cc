#include "phalanx/tokenizer/hf/hf_tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using tokenizer_test::VocabularyDirectory;

using Ids = std::vector<std::int32_t>;
constexpr EncodeOptions kParsed = {.parse_special = true};
constexpr EncodeOptions kAdded = {.parse_special = true, .add_special = true};

// {"token": id, ...} of tokens with the ids 0, 1, ...
std::string vocab_of(const std::vector<std::string>& tokens) {
  std::string text = "{";
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    text += fmt::format("{}\"{}\": {}", id == 0 ? "" : ", ", tokens[id], id);
  }
  return text + "}";
}

std::string file_of(std::string_view model, std::string_view others = "") {
  return fmt::format(R"({{"version": "1.0", {}"model": {}}})", others, model);
}

HuggingFaceTokenizer tokenizer_of(const std::string& json) { return {json, "tokenizer.json"}; }

std::string special(std::string_view content, int id) {
  return fmt::format(R"({{"id": {}, "content": "{}", "special": true, "normalized": false}})", id,
                     content);
}

HuggingFaceTokenizer bert(bool lower_case) {
  const std::vector<std::string> tokens = {
      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un",  "##aff", "##able", "want",
      "##ed",  "runn",  "##ing", ",",     "e",      "##e", "a",     "##a",    "中",
      "!",     "'",     "cafe",  "s",     "[",      "]",   "cls"};
  const std::string model = fmt::format(
      R"({{"type": "WordPiece", "unk_token": "[UNK]", "vocab": {}}})", vocab_of(tokens));
  return tokenizer_of(file_of(model, fmt::format(
                                         R"("added_tokens": [{}],
                    "normalizer": {{"type": "BertNormalizer", "clean_text": true,
                                   "handle_chinese_chars": true, "lowercase": {}}},
                    "pre_tokenizer": {{"type": "BertPreTokenizer"}},
                    "post_processor": {{"type": "BertProcessing", "sep": ["[SEP]", 3],
                                       "cls": ["[CLS]", 2]}},
                    "decoder": {{"type": "WordPiece", "prefix": "##", "cleanup": true}}, )",
                                         special("[CLS]", 2), lower_case)));
}

TEST(HuggingFaceTokenizer, WordPiece) {
  const auto tokenizer = bert(true);
  EXPECT_EQ(tokenizer.vocab_size(), 25);
  const auto ids = [&](const std::string& text) { return tokenizer.encode(text); };
  EXPECT_THAT(ids("UNwantéd,running"), ElementsAre(1, 12, 10, 11));
  EXPECT_THAT(ids("unaffable!"), ElementsAre(5, 6, 7, 18));
  EXPECT_THAT(ids("a中!e"), ElementsAre(15, 17, 18, 13));
  EXPECT_THAT(ids("café cafe\u0301 CAFÉ"), ElementsAre(20, 20, 20));
  EXPECT_THAT(ids("a\u200ba a\tb"), ElementsAre(15, 16, 15, 1));
  EXPECT_THAT(ids(std::string("aa\0a", 4)), ElementsAre(15, 16, 16));
  EXPECT_THAT(ids("unwantedX running"), ElementsAre(1, 10, 11));
  EXPECT_THAT(ids("[CLS] un'"), ElementsAre(22, 24, 23, 5, 19));
  EXPECT_THAT(ids(" \u00a0un\u3000want "), ElementsAre(5, 8));
  EXPECT_THAT(ids("\u0130\u2019e"), ElementsAre(1, 1, 13));
  EXPECT_THAT(ids("\xff"
                  "a"),
              ElementsAre(15));  // U+FFFD is dropped
  Ids hundred(100, 16);
  hundred[0] = 15;
  EXPECT_THAT(ids(std::string(100, 'a')), ElementsAreArray(hundred));
  EXPECT_THAT(ids(std::string(101, 'a')), ElementsAre(1));
  EXPECT_THAT(tokenizer.encode("[CLS] un'", kParsed), ElementsAre(2, 5, 19));
  EXPECT_THAT(tokenizer.encode("un", kAdded), ElementsAre(2, 5, 3));
  EXPECT_THAT(tokenizer.encode("un", {.add_special = true}), ElementsAre(2, 5, 3));
  EXPECT_EQ(tokenizer.decode(Ids{5, 8, 9, 12, 10, 11, 18, 21, 19, 21}),
            "un wanted, running! s ' s");
  EXPECT_EQ(tokenizer.decode(Ids{2, 5}, {.skip_special = true}), "un");

  const auto cased = bert(false);
  EXPECT_THAT(cased.encode("café cafe\u0301 CAFÉ"), ElementsAre(1, 1, 1));
  EXPECT_THAT(cased.encode("[CLS] un'"), ElementsAre(22, 1, 23, 5, 19));
}

// <unk> 0, <s> 1, </s> 2, the bytes 3-258, then characters and merges.
HuggingFaceTokenizer llama(std::string_view stages) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  for (const char* token : {"▁", "a", "b", "c", "ab", "▁a", "▁ab", "bc", "▁▁"}) {
    tokens.emplace_back(token);
  }
  const std::string model = fmt::format(
      R"({{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
          "vocab": {}, "merges": ["▁ a", ["a", "b"], "b c", "▁a b", "▁ ▁"]}})",
      vocab_of(tokens));
  return tokenizer_of(file_of(model, fmt::format(R"("added_tokens": [{}, {}], {})",
                                                 special("<s>", 1), special("</s>", 2), stages)));
}

TEST(HuggingFaceTokenizer, ByteFallbackOfTheLegacyLlama) {
  const auto tokenizer = llama(R"("normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}, )");
  const auto ids = [&](const std::string& text) { return tokenizer.encode(text); };
  EXPECT_THAT(ids("abc"), ElementsAre(264, 266));
  EXPECT_THAT(ids("ab c"), ElementsAre(265, 259, 262));
  EXPECT_THAT(ids(" a"), ElementsAre(259, 264));
  EXPECT_THAT(ids("  a"), ElementsAre(267, 264));
  EXPECT_THAT(ids("é"), ElementsAre(259, 198, 172));
  EXPECT_THAT(ids("a\n"), ElementsAre(264, 13));
  EXPECT_THAT(ids("日"), ElementsAre(259, 233, 154, 168));
  EXPECT_THAT(ids("a\xff"), ElementsAre(264, 242, 194, 192));  // U+FFFD
  EXPECT_THAT(tokenizer.encode("a</s>b", kParsed), ElementsAre(264, 2, 259, 261));
  EXPECT_THAT(ids("a</s>b"), ElementsAre(264, 63, 50, 118, 65, 261));
  EXPECT_THAT(ids(""), IsEmpty());
  const std::string bad = "\uFFFD";
  EXPECT_EQ(tokenizer.decode(Ids{198, 260, 198, 172, 233, 154}), bad + "a" + bad + bad + bad + bad);
  EXPECT_EQ(tokenizer.decode(Ids{264, 198, 172}), "aé");
}

TEST(HuggingFaceTokenizer, ByteFallbackOfTheNewerLlama) {
  const auto tokenizer = llama(R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
      "prepend_scheme": "first", "split": false}, )");
  EXPECT_THAT(tokenizer.encode(" a"), ElementsAre(264));
  EXPECT_THAT(tokenizer.encode("  a"), ElementsAre(259, 264));
  EXPECT_THAT(tokenizer.encode("a</s>b", kParsed), ElementsAre(264, 2, 261));
  EXPECT_THAT(tokenizer.encode("a</s> b", kParsed), ElementsAre(264, 2, 259, 261));
}

HuggingFaceTokenizer plain_bpe(std::string_view vocab, std::string_view fields) {
  return tokenizer_of(
      file_of(fmt::format(R"({{"type": "BPE", "vocab": {}, "merges": [], {}}})", vocab, fields)));
}

TEST(HuggingFaceTokenizer, UnknownCharactersAndWholePieces) {
  const std::string vocab = R"({"<unk>": 0, "a": 1, "y": 2})";
  const auto fused = plain_bpe(vocab, R"("unk_token": "<unk>", "fuse_unk": true)");
  EXPECT_THAT(fused.encode("axxay"), ElementsAre(1, 0, 1, 2));
  const auto single = plain_bpe(vocab, R"("unk_token": "<unk>")");
  EXPECT_THAT(single.encode("axxay"), ElementsAre(1, 0, 0, 1, 2));
  const auto without = plain_bpe(R"({"a": 1, "b": 0})", R"("unk_token": null)");
  EXPECT_THAT(without.encode("axb"), ElementsAre(1, 0));
  const auto elsewhere = plain_bpe(R"({"a": 0})", R"("unk_token": "?")");
  EXPECT_THAT(elsewhere.encode("aa"), ElementsAre(0, 0));
  EXPECT_THAT(error_of<DataError>([&] { elsewhere.encode("ab"); }),
              AllOf(HasSubstr("$.model.unk_token"), HasSubstr("\"?\"")));

  for (const auto& [ignore, expected] : {std::pair("false", Ids{3, 2}), {"true", Ids{4}}}) {
    const auto tokenizer = tokenizer_of(file_of(fmt::format(
        R"({{"type": "BPE", "vocab": {{"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}},
            "merges": ["a b"], "ignore_merges": {}}})",
        ignore)));
    EXPECT_EQ(tokenizer.encode("abc"), expected);
  }
}

TEST(HuggingFaceTokenizer, TheLastOfEqualMergesCounts) {
  const auto tokenizer =
      tokenizer_of(file_of(R"({"vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4},
                  "merges": ["a b", "b c", "a b"]})"));  // no type, as in the oldest files
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(0, 4));
}

TEST(HuggingFaceTokenizer, Unigram) {
  const auto tokenizer = tokenizer_of(file_of(
      R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -2], ["a", -3], ["b", -3],
          ["ab", -4], ["▁a", -3.5], ["▁ab", -7]]})",
      R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
         "decoder": {"type": "Metaspace", "replacement": "▁"}, )"));
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(1, 4));
  EXPECT_THAT(tokenizer.encode("a b"), ElementsAre(5, 1, 3));
  EXPECT_THAT(tokenizer.encode("abab"), ElementsAre(1, 4, 4));
  EXPECT_THAT(tokenizer.encode("axxb"), ElementsAre(5, 0, 3));
  EXPECT_THAT(tokenizer.encode("ba ab"), ElementsAre(1, 3, 2, 1, 4));
  EXPECT_EQ(tokenizer.decode(Ids{5, 1, 3}), "a b");
  const auto tie =
      tokenizer_of(file_of(R"({"type": "Unigram", "vocab": [["a", -1], ["aa", -2]]})"));
  EXPECT_THAT(tie.encode("aaa"), ElementsAre(0, 1));  // the piece that starts first wins a tie
  const auto strict = tokenizer_of(file_of(R"({"type": "Unigram", "vocab": [["a", -1]]})"));
  EXPECT_THAT(strict.encode("aa"), ElementsAre(0, 0));
  EXPECT_THAT(error_of<DataError>([&] { strict.encode("ab"); }), HasSubstr("no unk_id"));
}

// 256 symbols, then "he" 256.
HuggingFaceTokenizer byte_level(std::string_view others) {
  std::string vocab;
  for (int i = 0; i < kByteSymbols; ++i) {
    const char byte = static_cast<char>(byte_of_symbol(i));
    const std::string symbol = symbols_from_bytes({&byte, 1});
    const bool escaped = symbol == "\"" || symbol == "\\";
    vocab += fmt::format("\"{}{}\": {}, ", escaped ? "\\" : "", symbol, i);
  }
  return tokenizer_of(file_of(
      fmt::format(R"({{"type": "BPE", "vocab": {{{}"he": 256}}, "merges": ["h e"]}})", vocab),
      others));
}

TEST(HuggingFaceTokenizer, ByteLevelTakesAnyBytes) {
  constexpr std::string_view kDecoder = R"("decoder": {"type": "ByteLevel"}, )";
  for (const std::string steps : {R"({"type": "ByteLevel", "add_prefix_space": false})",
                                  R"({"type": "Sequence", "pretokenizers": [
             {"type": "Split", "pattern": {"Regex": "\\p{L}+"}, "behavior": "Isolated"},
             {"type": "Digits", "individual_digits": true},
             {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})",
                                  R"({"type": "Sequence", "pretokenizers": [
             {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
             {"type": "Punctuation"}]})"}) {
    const auto tokenizer = byte_level(fmt::format(R"("pre_tokenizer": {}, {})", steps, kDecoder));
    const auto id_of = [&](char byte) { return tokenizer.encode({&byte, 1}).at(0); };
    EXPECT_THAT(tokenizer.encode("he\xff\xe6\x97he"),
                ElementsAre(256, id_of('\xff'), id_of('\xe6'), id_of('\x97'), 256));
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
    EXPECT_EQ(tokenizer.encode(all).size(), 256U);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("hé 日 he12")), "hé 日 he12");
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xe6\x97")), "\uFFFD");
  }
}

TEST(HuggingFaceTokenizer, UnusedIdsAreEmptyPieces) {
  const auto tokenizer =
      tokenizer_of(file_of(R"({"type": "BPE", "vocab": {"a": 0, "b": 3}, "merges": []})",
                           fmt::format(R"("added_tokens": [{}], )", special("<s>", 9))));
  EXPECT_EQ(tokenizer.vocab_size(), 10);
  EXPECT_EQ(tokenizer.piece(3), "b");
  EXPECT_EQ(tokenizer.piece(9), "<s>");
  EXPECT_EQ(tokenizer.piece(5), "");
  EXPECT_EQ(tokenizer.decode(Ids{0, 5, 9, 3}), "a <s> b");  // no decoder: blanks between
  for (const std::int32_t id : {-1, 10}) {
    EXPECT_THAT(error_of<DataError>([&] { tokenizer.piece(id); }), HasSubstr("0 to 9"));
    EXPECT_THAT(error_of<DataError>([&] { tokenizer.decode(Ids{id}); }), HasSubstr("0 to 9"));
  }
}

constexpr std::string_view kSmallModel =
    R"({"type": "BPE", "vocab": {"a": 0, "<s>": 1, "</s>": 2, "<pad>": 3}, "merges": []})";

TEST(HuggingFaceTokenizer, ReadsSpecialTokensOfNeighbouringFiles) {
  const VocabularyDirectory directory;
  const auto file = directory.write("tokenizer.json", file_of(kSmallModel));
  const auto path = file.parent_path();
  EXPECT_EQ(HuggingFaceTokenizer(path).end_of_document(), -1);
  EXPECT_THAT(hugging_face_tokenizer_files(path), ElementsAre(file));

  directory.write("generation_config.json", R"({"eos_token_id": [2, 0], "pad_token_id": -1})");
  EXPECT_EQ(HuggingFaceTokenizer(path).end_of_document(), 2);
  directory.write("config.json", R"({"eos_token_id": 3, "bos_token_id": null, "vocab_size": 9})");
  EXPECT_EQ(HuggingFaceTokenizer(file).end_of_document(), 3);
  directory.write("tokenizer_config.json",
                  R"({"eos_token": {"content": "</s>", "lstrip": false}, "bos_token": "<s>",
                      "pad_token": null, "chat_template": "..."})");
  for (const auto& model : {file, path}) {
    const HuggingFaceTokenizer tokenizer(model);
    const SpecialTokens& special = tokenizer.special_tokens();
    EXPECT_EQ(special.eod, 2);
    EXPECT_EQ(special.eos, 2);
    EXPECT_EQ(special.bos, 1);
    EXPECT_EQ(special.pad, std::nullopt);
    EXPECT_EQ(special.unk, std::nullopt);
    EXPECT_THAT(hugging_face_tokenizer_files(model),
                ElementsAre(file, path / "tokenizer_config.json", path / "config.json",
                            path / "generation_config.json"));
  }

  EXPECT_EQ(HuggingFaceTokenizer(path).special_tokens().decoder_start, std::nullopt);
  directory.write("config.json", R"({"eos_token_id": 2, "decoder_start_token_id": 3})");
  EXPECT_EQ(HuggingFaceTokenizer(path).special_tokens().decoder_start, 3);

  directory.write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  EXPECT_EQ(HuggingFaceTokenizer(path).end_of_document(), 4);  // a token that no other file has
  directory.write("tokenizer_config.json", R"({})");
  directory.write("config.json", R"({"eos_token_id": 4})");
  EXPECT_THAT(error_of<DataError>([&] { HuggingFaceTokenizer{path}; }),
              HasSubstr("config.json: $.eos_token_id"));
}

TEST(HuggingFaceTokenizer, IsMadeByTheRegistry) {
  const VocabularyDirectory directory;
  const auto file = directory.write("mine.json", file_of(kSmallModel));
  directory.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  const TokenizerOptions options = {.tokenizer_type = "HuggingFaceTokenizer",
                                    .tokenizer_model = file.string()};
  const auto tokenizer = make_tokenizer(options);
  EXPECT_EQ(tokenizer->name(), "HuggingFaceTokenizer");
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  const auto files = tokenizer_files(options);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].name, "tokenizer.json");
  EXPECT_EQ(files[0].path, file.string());
  EXPECT_EQ(files[1].name, "tokenizer_config.json");
  EXPECT_EQ(files[1].flag, "--tokenizer-model");
  EXPECT_THROW(make_tokenizer({.tokenizer_type = "HuggingFaceTokenizer",
                               .tokenizer_model = directory.file("none").string()}),
               InputMissingError);
}

}  // namespace
}  // namespace phalanx
