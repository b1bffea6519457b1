#include "phalanx/tokenizer/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/null_tokenizer.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tokenizer_test::make_tables;
using tokenizer_test::VocabularyDirectory;

using Ids = std::vector<std::int32_t>;

TEST(NullTokenizer, TextIsIds) {
  const NullTokenizer tokenizer(100);
  EXPECT_EQ(tokenizer.vocab_size(), 101);
  EXPECT_EQ(tokenizer.end_of_document(), 100);
  EXPECT_THAT(tokenizer.encode(" 0 7\t99\r\n100  "), ElementsAre(0, 7, 99, 100));
  EXPECT_THAT(tokenizer.encode(" \n"), IsEmpty());
  EXPECT_EQ(tokenizer.decode(Ids{0, 7, 100}), "0 7 100");
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST(NullTokenizer, WhatIsNoIdIsAnError) {
  const NullTokenizer tokenizer(100);
  for (const std::string word :
       {"101", "-1", "+1", "x", "1.5", "1x", "99999999999999999999", "0x1", "\xff"}) {
    EXPECT_THAT(error_of<DataError>([&] { tokenizer.encode("5 " + word + " 6"); }),
                AllOf(HasSubstr("'" + word + "' (word 2, byte 2)"), HasSubstr("from 0 to 100")));
  }
  for (const std::int32_t id : {-1, 101}) {
    EXPECT_THAT(error_of<DataError>([&] {
                  tokenizer.decode({&id, 1});
                }),
                HasSubstr("token id " + std::to_string(id) + " is outside 0 to 100"));
  }
}

TEST(NullTokenizer, VocabSizeOutOfRange) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t size : {std::int64_t{-5}, std::int64_t{0}, kMax}) {
    EXPECT_THAT(error_of<ConfigError>([&] { NullTokenizer{size}; }),
                HasSubstr("--vocab-size " + std::to_string(size) + " is out of range"));
  }
  EXPECT_EQ(NullTokenizer(kMax - 1).vocab_size(), kMax);
}

TEST(MakeTokenizer, EachType) {
  const auto null = make_tokenizer({.tokenizer_type = "NullTokenizer", .vocab_size = 10});
  EXPECT_EQ(null->name(), "NullTokenizer");
  EXPECT_EQ(null->vocab_size(), 11);

  const VocabularyDirectory directory;
  const auto vocab = directory.file("vocab.json");
  const auto merges = directory.file("merges.txt");
  write_bpe_files(make_tables({{"a", "b"}}), vocab, merges);
  const auto of_files = [&](std::int64_t vocab_size) {
    return TokenizerOptions{
        .vocab_file = vocab.string(), .merge_file = merges.string(), .vocab_size = vocab_size};
  };
  const auto bpe = make_tokenizer(of_files(0));
  EXPECT_EQ(bpe->name(), "GPT2BPETokenizer");
  EXPECT_THAT(bpe->encode("ab"), ElementsAre(256));
  EXPECT_EQ(make_tokenizer(of_files(258))->vocab_size(), 258);
  EXPECT_THAT(error_of<ConfigError>([&] { make_tokenizer(of_files(300)); }),
              AllOf(HasSubstr("--vocab-size 300"), HasSubstr("258 tokens")));
}

TEST(MakeTokenizer, NamesTheFlag) {
  const auto error = [](const TokenizerOptions& options) {
    return error_of<ConfigError>([&] { make_tokenizer(options); });
  };
  for (const std::string type : {"", "gpt2"}) {
    EXPECT_THAT(error({.tokenizer_type = type}),
                HasSubstr("--tokenizer-type '" + type + "' is not one of GPT2BPETokenizer"));
  }
  const std::string null = "NullTokenizer";
  EXPECT_THAT(error({.merge_file = "m"}), HasSubstr("--vocab-file is missing"));
  EXPECT_THAT(error({.vocab_file = "v"}), HasSubstr("--merge-file is missing"));
  EXPECT_THAT(error({.vocab_file = "v", .merge_file = "m", .tokenizer_model = "x"}),
              HasSubstr("--tokenizer-model does not belong to GPT2BPETokenizer"));
  EXPECT_THAT(error({.tokenizer_type = null}), HasSubstr("--vocab-size is missing"));
  EXPECT_THAT(error({.tokenizer_type = null, .vocab_file = "v", .vocab_size = 5}),
              HasSubstr("--vocab-file does not belong"));
  EXPECT_THAT(error({.tokenizer_type = null, .merge_file = "m", .vocab_size = 5}),
              HasSubstr("--merge-file does not belong"));
}

TEST(TokenizerTypes, FlagsOfferThem) {
  std::string names;
  for (const TokenizerType& type : tokenizer_types()) {
    names += (names.empty() ? "" : " ") + std::string(type.name);
  }
  EXPECT_EQ(kTokenizerTypes, names);
}

}  // namespace
}  // namespace phalanx
