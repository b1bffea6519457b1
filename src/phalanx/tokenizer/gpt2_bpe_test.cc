#include "phalanx/tokenizer/gpt2_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <thread>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tokenizer_test::make_tables;

using Ids = std::vector<std::int32_t>;

TEST(ByteSymbols, EqualThoseOfGpt2) {
  EXPECT_EQ(symbols_from_bytes("a b\n"), "a\u0120b\u010a");
  EXPECT_EQ(symbols_from_bytes(std::string(1, '\0') + "\x7f\xa0\xad\xff"),
            "\u0100\u0121\u0142\u0143\u00ff");
  EXPECT_EQ(byte_of_symbol(0), '!');
  EXPECT_EQ(byte_of_symbol(220), ' ');  // the id of a space in GPT-2's vocabulary
  EXPECT_EQ(byte_of_symbol(255), 0xad);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(bytes_from_symbols(symbols_from_bytes(all)), all);
}

TEST(ByteSymbols, OtherTextIsRefused) {
  for (const char* text :
       {" ", "\u0144", "\u00ad", "\u4e16", "\xc4", "\xc1\xa1", "a\xff", "\xc4z"}) {
    EXPECT_FALSE(bytes_from_symbols(text)) << symbols_from_bytes(text);
  }
}

// Expected: merges and ids of Hugging Face tokenizers 0.23.3 for the first three verses of Genesis.
TEST(Gpt2Bpe, AgreesWithAnIndependentImplementation) {
  const Gpt2BpeTokenizer tokenizer(
      make_tables({{"t", "h"},  {" ", "th"},  {" th", "e"}, {"n", "d"},  {" ", "w"},   {"a", "nd"},
                   {"e", "a"},  {" ", "and"}, {" w", "a"},  {"A", "nd"}, {"G", "o"},   {"o", "f"},
                   {" ", "f"},  {" ", "And"}, {" ", "Go"},  {" ", "of"}, {" wa", "s"}, {" Go", "d"},
                   {"a", "c"},  {"b", "e"},   {"e", "d"},   {"g", "h"},  {"i", "d"},   {"i", "n"},
                   {"i", "gh"}, {"l", "igh"}, {"o", "n"},   {"p", "on"}, {"r", "e"},   {"r", "th"},
                   {"u", "pon"}}));
  EXPECT_EQ(tokenizer.vocab_size(), 288);
  EXPECT_EQ(tokenizer.end_of_document(), 287);
  EXPECT_EQ(tokenizer.name(), "GPT2BPETokenizer");
  EXPECT_EQ(tokenizer.encode(
                "And God said, the cat's earth wasn't caf\u00e9 \u4e16\n\n  42<|endoftext|>"),
            (Ids{265, 273, 220, 82, 64, 278, 11, 258, 220, 66,  64,  83,  6,   82,  220, 262,
                 285, 272, 77,  6,  83, 220, 66, 64,  69,  127, 102, 220, 160, 116, 244, 198,
                 198, 220, 220, 19, 17, 27,  91, 68,  259, 267, 83,  68,  87,  83,  91,  29}));
  EXPECT_EQ(tokenizer.decode(Ids{265, 273, 287}), "And God<|endoftext|>");
}

TEST(Gpt2Bpe, MergesByRankThenFromTheLeft) {
  const Gpt2BpeTokenizer tokenizer(make_tables({{"a", "a"}, {"b", "c"}, {"a", "b"}, {"aa", "aa"}}));
  const auto texts = [&tokenizer](std::string_view text) {
    std::vector<std::string> tokens;
    for (const auto id : tokenizer.encode(text)) tokens.push_back(tokenizer.decode({&id, 1}));
    return tokens;
  };
  EXPECT_THAT(texts("abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(texts("abd"), ElementsAre("ab", "d"));
  EXPECT_THAT(texts("aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(texts("aaaaaaab"), ElementsAre("aaaa", "aa", "ab"));
  EXPECT_THAT(texts("ab ab"), ElementsAre("ab", " ", "ab"));
  EXPECT_THAT(texts(""), IsEmpty());
}

// GPT-2's algorithm: find the best pair, merge all its occurrences, repeat.
Ids encode_plainly(const BpeTables& tables, std::string_view word) {
  Ids ids;
  for (const char c : word) {
    const auto found = std::find(tables.tokens.begin(), tables.tokens.end(), std::string(1, c));
    ids.push_back(static_cast<std::int32_t>(found - tables.tokens.begin()));
  }
  while (true) {
    const auto occurs = [&ids](const BpeMerge& merge) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] == merge.left && ids[i + 1] == merge.right) return true;
      }
      return false;
    };
    const auto best = std::find_if(tables.merges.begin(), tables.merges.end(), occurs);
    if (best == tables.merges.end()) return ids;
    Ids merged;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool here = i + 1 < ids.size() && ids[i] == best->left && ids[i + 1] == best->right;
      merged.push_back(here ? best->result : ids[i]);
      i += here ? 1 : 0;
    }
    ids = std::move(merged);
  }
}

TEST(Gpt2Bpe, EqualsThePlainAlgorithmForAnyOrderOfMerges) {
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    while (merges.size() < 8) {
      const std::string left = tokens[below(tokens.size())];
      const std::string right = tokens[below(tokens.size())];
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      tokens.push_back(left + right);
      merges.emplace_back(left, right);
    }
    BpeTables tables = make_tables(merges);
    std::shuffle(tables.merges.begin(), tables.merges.end(),
                 random);  // a part may rank after its use
    const Gpt2BpeTokenizer tokenizer(tables);
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (std::size_t n = below(24); n > 0; --n) word.push_back("abc"[below(3)]);
      ASSERT_EQ(tokenizer.encode(word), encode_plainly(tables, word)) << word;
    }
  }
}

TEST(Gpt2Bpe, AnyBytesRoundTrip) {
  const Gpt2BpeTokenizer tokenizer(make_tables(
      {{"\xc3", "\xa9"}, {" ", "t"}, {"\xff", "\xff"}, {"a", "b"}, {"\xff\xff", "\xff"}}));
  std::mt19937 random(11);
  // Raw bytes, and pieces that give long words, multi-byte characters and fragments of them.
  const std::vector<std::string> pieces = {"a",
                                           "b",
                                           " ",
                                           " t",
                                           "'s",
                                           "1",
                                           "\n",
                                           "\u00e9",
                                           "\u4e16",
                                           "\U0001f600",
                                           "\xc3",
                                           "\xff",
                                           "\xe4\xb8",
                                           "\x80",
                                           std::string(1, '\0'),
                                           "<|endoftext|>"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (std::size_t n = random() % 40; n > 0; --n) {
      if (i % 2 == 0) {
        text.push_back(static_cast<char>(random() % 256));
      } else {
        text += pieces[random() % pieces.size()];
      }
    }
    const Ids ids = tokenizer.encode(text);
    ASSERT_EQ(tokenizer.decode(ids), text) << symbols_from_bytes(text);
    ASSERT_EQ(std::count(ids.begin(), ids.end(), tokenizer.end_of_document()), 0);
  }
}

TEST(Gpt2Bpe, WordsBeyondTheCacheAreEncodedEqually) {
  const Gpt2BpeTokenizer tokenizer(make_tables({{"a", "b"}, {" ", "a"}}));
  std::string text;
  Ids expected;
  const auto append = [&](const std::string& word) {
    text += word;
    const Ids ids = tokenizer.encode(word);
    expected.insert(expected.end(), ids.begin(), ids.end());
  };
  for (int i = 0; i < 80000; ++i) {  // more distinct words than the cache holds, some repeated
    append(" " + std::to_string(i));
    if (i % 8 == 0) append(" ab");
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
}

TEST(Gpt2Bpe, ThreadsShareATokenizer) {
  const Gpt2BpeTokenizer tokenizer(make_tables({{"t", "h"}, {"th", "e"}, {" ", "the"}}));
  const std::string text = "the light of the world \u4e16 \xff the end";
  const Ids expected = tokenizer.encode(text);
  std::vector<Ids> results(4);
  std::vector<std::jthread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = tokenizer.encode(text);
    });
  }
  threads.clear();  // joins
  EXPECT_THAT(results, testing::Each(expected));
}

TEST(Gpt2Bpe, DecodingAnIdOutOfRangeIsAnError) {
  const Gpt2BpeTokenizer tokenizer(make_tables({{"a", "b"}}));
  for (const std::int32_t id : {-1, 258, std::numeric_limits<std::int32_t>::max(),
                                std::numeric_limits<std::int32_t>::min()}) {
    EXPECT_THAT(
        error_of<DataError>([&] {
          tokenizer.decode({&id, 1});
        }),
        HasSubstr("token id " + std::to_string(id) + " is outside the vocabulary, 0 to 257"));
  }
}

}  // namespace
}  // namespace phalanx
