#include "phalanx/rendezvous/round.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"

namespace phalanx::rendezvous {
namespace {

class RoundTest : public testing::Test {
 protected:
  // The result of a gathering of these texts, as it goes over the wire.
  RoundResult gather(const std::vector<std::string>& texts) {
    for (int member = 0; member < std::ssize(texts); ++member) {
      EXPECT_FALSE(round_.finish());
      round_.add(member, {number_, RoundKind::kGather, texts[static_cast<std::size_t>(member)]});
    }
    ++number_;
    std::optional<RoundResult> result = round_.finish();
    EXPECT_TRUE(result);
    return std::get<RoundResult>(decode(encode(result.value_or(RoundResult{}))));
  }
  void expect_gathered(const std::vector<std::string>& texts) {
    EXPECT_EQ(reader_.texts_of(gather(texts)), texts);
  }

  Round round_{4};
  RoundReader reader_{4};
  std::int64_t number_ = 0;
};

TEST_F(RoundTest, TextsComeBackHoweverTheyChange) {
  const std::string text_of_300(300, 'l');
  expect_gathered({"a", "a", "b", ""});
  expect_gathered({"a", "a", "b", ""});
  expect_gathered({"", "a", text_of_300, "c"});
  expect_gathered({"", "a", text_of_300, "c"});
  expect_gathered({"", "a", "", text_of_300});
  expect_gathered({text_of_300, text_of_300, text_of_300, ""});
  expect_gathered({"", "", "", ""});
}

TEST_F(RoundTest, NamesWhatHasChangedOnly) {
  EXPECT_EQ(gather({"one", "one", "one", "two"}).runs.size(), 2U);
  EXPECT_TRUE(gather({"one", "one", "one", "two"}).runs.empty());
  const RoundResult changed = gather({"one", "new", "new", "two"});
  ASSERT_EQ(changed.runs.size(), 1U);
  EXPECT_EQ(changed.runs[0].first, 1);
  EXPECT_EQ(changed.runs[0].count, 2);
}

TEST_F(RoundTest, KnowsWhoIsMissing) {
  EXPECT_EQ(round_.missing_count(), 0);
  round_.add(2, {0, RoundKind::kGather, "x"});
  EXPECT_EQ(round_.missing(9), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(round_.missing(2), (std::vector<int>{0, 1}));
  EXPECT_EQ(round_.missing_count(), 3);
}

TEST_F(RoundTest, RefusesTextsOfMembersThatThereAreNot) {
  EXPECT_THROW(reader_.texts_of({0, RoundKind::kGather, {{3, 2, "x"}}}), UnavailableError);
  EXPECT_THROW(reader_.texts_of({0, RoundKind::kBroadcast, {}}), UnavailableError);
}

}  // namespace
}  // namespace phalanx::rendezvous
