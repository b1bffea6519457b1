#include "phalanx/tokenizer/greedy_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

using Ids = std::vector<std::int32_t>;

const std::vector<std::string>& tokens() {
  static const std::vector<std::string> kTokens = {
      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un",  "##aff", "##able",
      "want",  "##ed",  "runn",  "##ing", ",",      "e",   "##e",   "a",
      "##a",   "中",    "##",    "",      "##é",    "##éb"};
  return kTokens;
}

Ids ids_of(const std::string& word, std::size_t most_characters = 100) {
  const GreedyPieces pieces(tokens(), {.most_characters = most_characters, .unknown = 1});
  Ids ids;
  pieces.append_ids(word, ids);
  return ids;
}

TEST(GreedyPieces, LongestPrefixFirst) {
  EXPECT_THAT(ids_of("unaffable"), ElementsAre(5, 6, 7));
  EXPECT_THAT(ids_of("running"), ElementsAre(10, 11));
  EXPECT_THAT(ids_of("unéb"), ElementsAre(5, 21));
  EXPECT_THAT(ids_of("unée"), ElementsAre(5, 20, 14));
  EXPECT_THAT(ids_of("##aff"), ElementsAre(6));
  EXPECT_THAT(ids_of(""), IsEmpty());
}

TEST(GreedyPieces, AFailingPartFailsTheWord) {
  EXPECT_THAT(ids_of("unwantedx"), ElementsAre(1));
  EXPECT_THAT(ids_of("xun"), ElementsAre(1));
  EXPECT_THAT(ids_of("un中"), ElementsAre(1));
  EXPECT_THAT(ids_of("##"), ElementsAre(18));
}

TEST(GreedyPieces, TheLimitCountsCharacters) {
  Ids hundred(100, 16);
  hundred[0] = 15;
  EXPECT_THAT(ids_of(std::string(100, 'a')), ElementsAreArray(hundred));
  EXPECT_THAT(ids_of(std::string(101, 'a')), ElementsAre(1));
  EXPECT_THAT(ids_of("aéé", 3), ElementsAre(15, 20, 20));
  EXPECT_THAT(ids_of("aééé", 3), ElementsAre(1));
}

TEST(GreedyPieces, OtherPrefixOrNone) {
  const std::vector<std::string> list = {"?", "a", "@b", "b"};
  Ids ids;
  GreedyPieces(list, {.continuing_prefix = "@", .unknown = 0}).append_ids("ab", ids);
  GreedyPieces(list, {.continuing_prefix = "", .unknown = 0}).append_ids("ab", ids);
  EXPECT_THAT(ids, ElementsAre(1, 2, 1, 3));
}

}  // namespace
}  // namespace phalanx
