#include "phalanx/chat/unused_keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(KeyUses, NamesWhatNoLineUses) {
  KeyUses uses;
  EXPECT_EQ(uses.unused(), "");
  uses.add("\"id\"", false);
  uses.add("\"name\"", false);
  KeyUses later;
  later.add("\"id\"", false, 1999);
  later.add("\"name\"", true);
  uses.add(later);
  EXPECT_EQ(uses.unused(), "\"id\" (2,000)");
}

// A key of its own in each line takes no memory.
TEST(KeyUses, KeepsAFewNames) {
  KeyUses uses;
  for (int i = 0; i < 1000; ++i) uses.add(fmt::format("{:04}", i), false);
  KeyUses twice = uses;
  twice.add(uses);
  const std::string text = uses.unused();
  EXPECT_TRUE(text.starts_with("0000 (1), 0001 (1)")) << text;
  EXPECT_TRUE(text.ends_with("0019 (1), others (980)")) << text;
  EXPECT_TRUE(twice.unused().ends_with("0019 (2), others (1,960)")) << twice.unused();
  KeyUses of_long;
  of_long.add(std::string(99, 'a') + "é" + std::string(1000, 'b'), false);
  EXPECT_EQ(of_long.unused(), std::string(99, 'a') + " (1)");
}

}  // namespace
}  // namespace phalanx
