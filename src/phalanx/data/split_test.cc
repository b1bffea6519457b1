#include "phalanx/data/split.h"

#include <gtest/gtest.h>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

TEST(Split, CoversEverythingInOrder) {
  const Split split("949,50,1");
  EXPECT_EQ(split.range(SplitKind::kTrain, 1000), (IndexRange{0, 949}));
  EXPECT_EQ(split.range(SplitKind::kValid, 1000), (IndexRange{949, 999}));
  EXPECT_EQ(split.range(SplitKind::kTest, 1000), (IndexRange{999, 1000}));
  for (const char* text : {"949,50,1", "969, 30, 1", "1,1,1", "0.1,0.2,0.7", "98/1/1"}) {
    for (std::int64_t count = 0; count < 500; ++count) {
      std::int64_t end = 0;
      for (const auto kind : kSplitKinds) {
        const auto range = Split(text).range(kind, count);
        EXPECT_EQ(range.begin, end) << text << " of " << count;
        EXPECT_GE(range.size(), 0);
        end = range.end;
      }
      EXPECT_EQ(end, count) << text;
    }
  }
}

// Python's round(): halves go to the even neighbour.
TEST(Split, RoundsHalfToEven) {
  EXPECT_EQ(Split("1,1").range(SplitKind::kTrain, 1).end, 0);
  EXPECT_EQ(Split("1,1").range(SplitKind::kTrain, 3).end, 2);
  EXPECT_EQ(Split("1,1").range(SplitKind::kTrain, 5).end, 2);
  EXPECT_EQ(Split("1,1").range(SplitKind::kTrain, 7).end, 4);
}

TEST(Split, MissingNumbersAreZero) {
  EXPECT_EQ(Split("1").range(SplitKind::kTrain, 17), (IndexRange{0, 17}));
  EXPECT_EQ(Split("1").range(SplitKind::kTest, 17).size(), 0);
  EXPECT_EQ(Split("0,0,3").range(SplitKind::kTest, 17), (IndexRange{0, 17}));
  EXPECT_EQ(Split("3,1").share(SplitKind::kTrain), 0.75);
}

TEST(Split, RefusesWhatItCannotRead) {
  for (const char* text : {"", ",", "1,2,3,4", "a", "1,,2", "-1,2", "0,0,0", "nan,1", "inf", "1e9",
                           "1;2", "1 2", "1,2,", "0x1"}) {
    const auto message = error_of(ErrorCode::kConfiguration, [&] { Split{text}; });
    EXPECT_NE(message.find("--split"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace phalanx
