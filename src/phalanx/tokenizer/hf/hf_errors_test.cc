// Files of tokenizer.json that are refused, and settings without effect.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/tokenizer/hf/hf_tokenizer.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kModel = R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []})";

std::string with(std::string_view member, std::string_view model = kModel) {
  return fmt::format(R"({{{}"model": {}}})", member.empty() ? "" : fmt::format("{}, ", member),
                     model);
}

void load(const std::string& json) { HuggingFaceTokenizer(json, "t.json"); }

struct Case {
  std::string json;
  std::string path;
  std::string says;
};

template <typename Expected>
void expect_errors(const std::vector<Case>& cases) {
  for (const auto& [json, path, says] : cases) {
    EXPECT_THAT(error_of<Expected>([&] { load(json); }),
                AllOf(HasSubstr("t.json: " + path + ": "), HasSubstr(says)))
        << json;
  }
}

TEST(TokenizerJson, NamesUnsupportedSettings) {
  ASSERT_NO_THROW(load(with("")));
  expect_errors<ConfigError>({
      {with(R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": ""})"),
       "$.normalizer.type", "SentencePiece"},
      {with(
           R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "X"}]})"),
       "$.normalizer.normalizers[1].type", "\"X\" is not supported"},
      {with(R"("normalizer": {"type": "NFC", "also": 1})"), "$.normalizer.also", "not supported"},
      {with(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"},
               {"type": "UnicodeScripts"}]})"),
       "$.pre_tokenizer.pretokenizers[1].type", "\"UnicodeScripts\" is not supported"},
      {with(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[a&&b]"},
               "behavior": "Isolated"})"),
       "$.pre_tokenizer.pattern.Regex", "&&"},
      {with(R"("pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Cut"})"),
       "$.pre_tokenizer.behavior", "MergedWithNext"},
      {with(
           R"("pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Removed"})"),
       "$.pre_tokenizer.pattern.String", "empty"},
      {with(
           R"("pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})"),
       "$.pre_tokenizer.prepend_scheme", "\"last\""},
      {with(R"("post_processor": {"type": "Other"})"), "$.post_processor.type", "\"Other\""},
      {with(R"("post_processor": {"type": "TemplateProcessing", "special_tokens": {}, "single":
               [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "A"}}]})"),
       "$.post_processor.single", "A once"},
      {with(R"("decoder": {"type": "CTC"})"), "$.decoder.type", "\"CTC\""},
      {with(
           R"("decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "BPEDecoder"}]})"),
       "$.decoder.decoders[1].type", "\"BPEDecoder\""},
      {with("", R"({"type": "WordLevel", "vocab": {}})"), "$.model.type", "\"WordLevel\""},
      {with("", R"({"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1})"), "$.model.dropout",
       "not supported"},
      {with("", R"({"type": "BPE", "vocab": {}, "merges": [], "end_of_word_suffix": "</w>"})"),
       "$.model.end_of_word_suffix", "null"},
      {with(R"("extra": {})"), "$.extra", "not supported"},
  });
}

TEST(TokenizerJson, NamesTheFault) {
  const auto vocab = [](std::string_view entries, std::string_view merges = "") {
    return with(
        "", fmt::format(R"({{"type": "BPE", "vocab": {{{}}}, "merges": [{}]}})", entries, merges));
  };
  expect_errors<DataError>({
      {"{}", "$", "model is missing"},
      {"[]", "$", "expected an object, not array"},
      {with("", "7"), "$.model", "expected an object, not number"},
      {with("", "{}"), "$.model", "type is missing"},
      {with(R"("normalizer": {"kind": "NFC"})"), "$.normalizer", "type is missing"},
      {with(R"("normalizer": {"type": 3})"), "$.normalizer.type", "expected a string, not number"},
      {with(R"("normalizer": {"type": "Strip", "strip_left": 1, "strip_right": true})"),
       "$.normalizer.strip_left", "true or false"},
      {with(R"("pre_tokenizer": {"type": "Metaspace", "replacement": "ab"})"),
       "$.pre_tokenizer.replacement", "one character"},
      {with(R"("pre_tokenizer": {"type": "Metaspace", "replacement": ""})"),
       "$.pre_tokenizer.replacement", "one character"},
      {with(R"("decoder": {"type": "Strip", "content": " ", "start": -1, "stop": 0})"),
       "$.decoder.start", "-1 is not from 0"},
      {with(R"("decoder": {"type": "Strip", "content": " ", "start": 1.5, "stop": 0})"),
       "$.decoder.start", "an integer"},
      {vocab(R"("a": 0, "b": 0)"), "$.model.vocab.b", "which is that of"},
      {vocab(R"("a": -1)"), "$.model.vocab.a", "-1 is not from 0"},
      {vocab(R"("a": 2000000000)"), "$.model.vocab.a", "2000000000 is not from 0"},
      {vocab(R"("a b": 18446744073709551615)"), "$.model.vocab[\"a b\"]", "is not from 0"},
      {vocab(R"("a": "0")"), "$.model.vocab.a", "expected an integer, not \"0\""},
      {vocab(R"("a": 0, "b": 1)", R"("a b")"), "$.model.merges[0]", "\"ab\" is not in"},
      {vocab(R"("a": 0, "ab": 1)", R"(["a", "b"])"), "$.model.merges[0]", "\"b\" is not in"},
      {vocab(R"("a": 0, "aa": 1)", R"("a a", "aa")"), "$.model.merges[1]", "two tokens"},
      {vocab(R"("a": 0)", R"("a a a")"), "$.model.merges[0]", "two tokens"},
      {vocab(R"("a": 0)", R"(["a"])"), "$.model.merges[0]", "two tokens"},
      {vocab(R"("a": 0)", R"(["a", 1])"), "$.model.merges[0][1]", "expected a string"},
      {with("", R"({"type": "BPE", "vocab": {"a": 0}, "merges": {}})"), "$.model.merges", "a list"},
      {with("", R"({"type": "BPE", "vocab": {"a": 0}})"), "$.model", "merges is missing"},
      {with("", R"({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]"})"),
       "$.model.unk_token", "\"[UNK]\" is not in the vocabulary"},
      {with("", R"({"type": "Unigram", "vocab": [["a"]]})"), "$.model.vocab[0]", "[piece, score]"},
      {with("", R"({"type": "Unigram", "vocab": [["a", "1"]]})"), "$.model.vocab[0][1]",
       "a number"},
      {with("", R"({"type": "Unigram", "vocab": [["a", 1]], "unk_id": 1})"), "$.model.unk_id",
       "1 is not from 0 to 0"},
      {with(R"("added_tokens": [{"id": 0, "content": "x"}])"), "$.added_tokens[0]",
       "that of \"a\""},
      {with(R"("added_tokens": [{"id": 5, "content": "a"}])"), "$.added_tokens[0]", "but 0 in the"},
      {with(R"("added_tokens": [{"id": 2, "content": "x"}, {"id": 2, "content": "y"}])"),
       "$.added_tokens[1]", "that of \"x\""},
      {with(R"("added_tokens": [{"id": 2000000000, "content": "x"}])"), "$.added_tokens[0].id",
       "is not from 0"},
      {with(R"("added_tokens": {"x": 1})"), "$.added_tokens", "a list"},
      {with(R"("post_processor": {"type": "BertProcessing", "sep": ["x", 2], "cls": ["y", 0]})"),
       "$.post_processor.sep[1]", "2 is not from 0 to 1"},
      {with(R"("post_processor": {"type": "BertProcessing", "sep": [2], "cls": ["y", 0]})"),
       "$.post_processor.sep", "[token, id]"},
      {with(R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken":
               {"id": "x", "type_id": 0}}], "special_tokens": {}})"),
       "$.post_processor.special_tokens", "x is missing"},
      {with(R"("post_processor": {"type": "TemplateProcessing", "single": [{"Sequence":
               {"id": "B", "type_id": 0}}], "special_tokens": {}})"),
       "$.post_processor.single[0].Sequence.id", "may only speak of A"},
  });
}

TEST(TokenizerJson, InvalidJson) {
  const auto error = [](const std::string& json) {
    return error_of<DataError>([&] { load(json); });
  };
  for (const std::string json :
       {"", "{", "{\"a\": }", "nul", "{\"a\": 1e999}", "{\"a\": \"\xff\"}"}) {
    EXPECT_THAT(error(json), HasSubstr("t.json: not valid JSON")) << json;
  }
  EXPECT_THAT(error(with(R"("decoder": null, "decoder": null)")),
              HasSubstr("key \"decoder\" comes twice"));
  EXPECT_THAT(error(with("", R"({"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []})")),
              HasSubstr("key \"a\" comes twice"));

  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"type": "Sequence", "normalizers": [)";
  EXPECT_THAT(error(with(R"("normalizer": )" + deep)), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(error(std::string(1'000'000, '[')), HasSubstr("nested more than 64 deep"));
  const std::string junk(10'000'000, 'x');
  EXPECT_LT(error(junk).size(), 400U);
  EXPECT_LT(error("\"" + junk + "\"").size(), 400U);
  const std::string type = with("", fmt::format(R"({{"type": "{}"}})", junk));
  EXPECT_LT(error_of<ConfigError>([&] { load(type); }).size(), 400U);
  const std::string merges = fmt::format(R"({{"vocab": {{}}, "merges": ["{} a"]}})", junk);
  EXPECT_LT(error(with("", merges)).size(), 400U);
}

TEST(TokenizerJson, AcceptsDeepSequences) {
  std::string node = R"({"type": "NFC"})";
  for (int i = 0; i < 30; ++i) {
    node = fmt::format(R"({{"type": "Sequence", "normalizers": [{}]}})", node);
  }
  EXPECT_NO_THROW(load(with("\"normalizer\": " + node)));
}

}  // namespace
}  // namespace phalanx
