#include "phalanx/offload/file_layout.h"

#include <gtest/gtest.h>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

TEST(FileLayout, RecordsBeginAtMultiplesAndHaveBlocksOfTheirOwn) {
  FileLayout layout(8192);
  EXPECT_EQ(layout.add(1), 0);
  EXPECT_EQ(layout.add(20000), 4096);
  EXPECT_EQ(layout.add(8192), 4096 + 20480);
  EXPECT_EQ(layout.bytes(), 4096 + 20480 + 8192);
  EXPECT_EQ(layout.blocks(), 1 + 3 + 1);

  const auto whole = layout.blocks_of(4096, 20000);
  EXPECT_EQ(whole.first, 1);
  EXPECT_EQ(whole.count, 3);
  const auto inner = layout.blocks_of(4096 + 8192, 8192);
  EXPECT_EQ(inner.first, 2);
  EXPECT_EQ(inner.count, 1);
  const auto tail = layout.blocks_of(4096 + 16384, 20000 - 16384);
  EXPECT_EQ(tail.first, 3);
  EXPECT_EQ(tail.count, 1);
}

TEST(FileLayout, RefusesWhatIsNotWholeBlocksOfOneRecord) {
  FileLayout layout(8192);
  EXPECT_THROW(layout.blocks_of(0, 1), InternalError);
  layout.add(20000);
  layout.add(8192);
  for (const auto& [offset, bytes] : {std::pair{0, 20001},
                                      {0, 100},
                                      {4096, 8192},
                                      {8192, 20000},
                                      {0, 20480 + 8192},
                                      {-8192, 8192},
                                      {0, 0},
                                      {100000, 8192}}) {
    EXPECT_THROW(layout.blocks_of(offset, bytes), InternalError) << offset << " " << bytes;
  }
  EXPECT_THROW(FileLayout(5000), InternalError);
  EXPECT_THROW(FileLayout().add(0), InternalError);
}

}  // namespace
}  // namespace phalanx
