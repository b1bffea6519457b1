// Folders in which several files speak of the same tokens and switches. The ids are those of
// transformers 5.24.

#include "phalanx/tokenizer/hf/beside_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/tokenizer/hf/hf_tokenizer.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tokenizer_test::VocabularyDirectory;

// a b " a" (three tokens of bytes), <s> 3, </s> 4.
std::string byte_level(bool prefix_space, std::string_view more = "") {
  return fmt::format(
      R"({{"added_tokens": [{{"id": 3, "content": "<s>", "special": true, "normalized": false}},
                            {{"id": 4, "content": "</s>", "special": true, "normalized": false}}{}],
           "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": {}, "use_regex": true}},
           "decoder": {{"type": "ByteLevel"}},
           "model": {{"type": "BPE", "vocab": {{"a": 0, "b": 1, "\u0120": 2, "<s>": 3, "</s>": 4}},
                      "merges": []}}}})",
      more, prefix_space);
}

class BesideFilesTest : public testing::Test {
 protected:
  explicit BesideFilesTest() { directory_.write("tokenizer.json", byte_level(false)); }

  void write(const std::string& name, std::string_view text) { directory_.write(name, text); }
  // The ids of a text in which special tokens are looked for; keeps what was logged.
  std::vector<std::int32_t> ids(std::string_view text) {
    testing::internal::CaptureStderr();
    const HuggingFaceTokenizer tokenizer(directory_.file("tokenizer.json").parent_path());
    logged_ = testing::internal::GetCapturedStderr();
    size_ = tokenizer.vocab_size();
    return tokenizer.encode(text, {.parse_special = true});
  }

  VocabularyDirectory directory_;
  std::string logged_;
  std::int64_t size_ = 0;
};

constexpr std::string_view kText = "a<x>b<y>";

TEST_F(BesideFilesTest, TokensThatOnlyTheConfigurationLists) {
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"6": {"content": "<y>", "special": true, "normalized": false},
                                     "5": {"content": "<x>", "special": false, "lstrip": true}}})");
  EXPECT_THAT(ids(kText), ElementsAre(0, 5, 1, 6));
  EXPECT_THAT(ids("a <x>"), ElementsAre(0, 5));
  EXPECT_EQ(size_, 7);
  EXPECT_EQ(logged_, "");
}

TEST_F(BesideFilesTest, AdditionalAndExtraSpecialTokens) {
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    write("tokenizer_config.json", fmt::format(R"({{"{}": ["<x>", "<y>"]}})", key));
    EXPECT_THAT(ids(kText), ElementsAre(0, 5, 1, 6)) << key;
  }
  write("tokenizer_config.json",
        R"({"extra_special_tokens": {"image_token": "<y>"}, "video_token": "<x>"})");
  EXPECT_THAT(ids(kText), ElementsAre(0, 5, 1, 6));
  write("tokenizer_config.json", "{}");
  write("special_tokens_map.json", R"({"additional_special_tokens": ["<x>", {"content": "<y>"}]})");
  EXPECT_THAT(ids(kText), ElementsAre(0, 5, 1, 6));
}

TEST_F(BesideFilesTest, AddedTokensOfOldFolders) {
  write("added_tokens.json", R"({"<y>": 6, "<x>": 5})");
  EXPECT_THAT(ids(kText), ElementsAre(0, 5, 1, 6));
  // Data, too: they are not special.
  EXPECT_THAT(HuggingFaceTokenizer(directory_.file("tokenizer.json")).encode(kText),
              ElementsAre(0, 5, 1, 6));
  // The library numbers them itself.
  write("added_tokens.json", R"({"<y>": 8, "<x>": 9})");
  EXPECT_THAT(ids(kText), ElementsAre(0, 6, 1, 5));
  EXPECT_THAT(logged_, HasSubstr("\"<y>\" has id 8 there, and 5 by tokenizer.json"));
  // Nothing of it counts beside a list.
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"5": {"content": "<x>", "special": true}}})");
  EXPECT_THAT(ids("<x>"), ElementsAre(5));
  EXPECT_EQ(size_, 6);
}

TEST_F(BesideFilesTest, RolesAreTokens) {
  write("tokenizer_config.json", R"({"pad_token": "<x>", "eos_token": "</s>"})");
  EXPECT_THAT(ids("<x>"), ElementsAre(5));
  write("special_tokens_map.json", R"({"eos_token": "<s>"})");
  const HuggingFaceTokenizer tokenizer(directory_.file("tokenizer.json"));
  EXPECT_EQ(tokenizer.end_of_document(), 3);
  ids("");
  EXPECT_THAT(logged_, HasSubstr("\"<s>\", but \"</s>\" in tokenizer_config.json: the former"));
}

TEST_F(BesideFilesTest, FlagsOfTheListCount) {
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"3": {"content": "<s>", "special": false, "rstrip": true}}})");
  EXPECT_THAT(ids("<s> a"), ElementsAre(3, 0));
  EXPECT_THAT(logged_, HasSubstr("the flags of \"<s>\" are not those of tokenizer.json"));
}

TEST_F(BesideFilesTest, SplitSpecialTokensAreText) {
  write("tokenizer.json", byte_level(false, R"(, {"id": 5, "content": "ab", "special": true,
                                                  "normalized": false})"));
  EXPECT_THAT(ids("ab"), ElementsAre(5));
  write("tokenizer_config.json", R"({"split_special_tokens": true})");
  EXPECT_THAT(ids("ab"), ElementsAre(0, 1));
  EXPECT_THAT(logged_, HasSubstr("split_special_tokens is true"));
}

TEST_F(BesideFilesTest, ThePrefixSpaceOfGpt2IsTheConfigurations) {
  write("tokenizer_config.json", R"({"tokenizer_class": "GPT2TokenizerFast"})");
  EXPECT_THAT(ids("a"), ElementsAre(0));
  EXPECT_EQ(logged_, "");
  write("tokenizer_config.json",
        R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})");
  EXPECT_THAT(ids("a"), ElementsAre(2, 0));
  EXPECT_THAT(logged_, HasSubstr("add_prefix_space is true, but false in tokenizer.json"));
  write("tokenizer.json", byte_level(true));
  write("tokenizer_config.json", R"({"tokenizer_class": "GPT2TokenizerFast"})");
  EXPECT_THAT(ids("a"), ElementsAre(0));
  // A GPT-2 without tokenizer_config.json has the class, too.
  write("tokenizer_config.json", "{}");
  write("config.json", R"({"model_type": "gpt2"})");
  EXPECT_THAT(ids("a"), ElementsAre(0));
}

TEST_F(BesideFilesTest, OtherClassesGoByTheTokenizerAndAreTold) {
  write("tokenizer_config.json",
        R"({"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": true})");
  EXPECT_THAT(ids("a"), ElementsAre(0));
  EXPECT_THAT(logged_, HasSubstr("the latter counts, as in transformers 5; version 4"));
  write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_THAT(ids("a"), ElementsAre(0));
  EXPECT_EQ(logged_, "");
  write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  ids("a");
  EXPECT_THAT(logged_, HasSubstr("the class is Qwen2Tokenizer, whose rules of cutting text"));
}

TEST_F(BesideFilesTest, TheCaseOfBertIsTheConfigurations) {
  const auto file = [](bool lower) {
    return fmt::format(
        R"({{"normalizer": {{"type": "BertNormalizer", "lowercase": {}}},
             "pre_tokenizer": {{"type": "BertPreTokenizer"}},
             "model": {{"type": "WordPiece", "unk_token": "u", "vocab": {{"u": 0, "a": 1, "A": 2}}}}}})",
        lower);
  };
  write("tokenizer.json", file(true));
  write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})");
  EXPECT_THAT(ids("A"), ElementsAre(2));
  EXPECT_THAT(logged_, HasSubstr("do_lower_case contradicts normalizer.lowercase"));
  write("tokenizer.json", file(false));
  EXPECT_THAT(ids("A"), ElementsAre(2));
  write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizerFast"})");
  EXPECT_THAT(ids("A"), ElementsAre(1));
}

TEST_F(BesideFilesTest, FilesAreReadAsPythonReadsThem) {
  write("tokenizer_config.json", R"({"model_max_length": Infinity, "eos_token": "</s>"})");
  EXPECT_THAT(ids("</s>"), ElementsAre(4));
  write("tokenizer_config.json", "{\"eos_token\": \"</s>\",\n}");
  EXPECT_THAT(
      error_of<DataError>([&] { ids("a"); }),
      HasSubstr("tokenizer_config.json: not valid JSON: line 2, column 1: a comma before }"));
}

}  // namespace
}  // namespace phalanx
