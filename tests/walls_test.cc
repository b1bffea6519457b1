#include "walls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string_view>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx::walls {
namespace {

// A small source tree in the temporary directory, removed at the end.
class WallsOfTree : public testing::Test {
 protected:
  WallsOfTree() {
    write("walls.txt", "# a comment\nlow:\nmiddle: low\nhigh: middle\n\nvendor lib/: low/deep\n");
  }

  void write(std::string_view name, std::string_view text) {
    const auto path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::vector<std::string> violations() const {
    std::vector<std::string> lines;
    for (const auto& violation : check(root_)) lines.push_back(violation.to_string());
    return lines;
  }

 private:
  const TemporaryDirectory temporary_{"walls"};
  const std::filesystem::path root_ = temporary_.path();
};

TEST(Walls, OfThisProjectStand) {
  for (const auto& violation : check(source_path("src/phalanx"))) {
    ADD_FAILURE() << "src/phalanx/" << violation.to_string();
  }
}

TEST_F(WallsOfTree, AllowItselfDownwardsAndTheVendorsRoom) {
  write("low/deep/a.cc", "#include <lib/x.h>\n#include \"lib/y.h\"\n#include <vector>\n");
  write("high/b.cc", "#include \"phalanx/high/b.h\"\n  #  include \"phalanx/low/a.h\"\n");
  write("high/b.h", "// #include \"phalanx/nowhere/a.h\"\n");
  EXPECT_THAT(violations(), testing::IsEmpty());
}

TEST_F(WallsOfTree, RefuseAnIncludeUpwards) {
  write("low/a.cc", "\n#include \"phalanx/middle/b.h\"\n");
  EXPECT_THAT(violations(),
              testing::ElementsAre("low/a.cc:2: low may not include phalanx/middle/b.h"));
}

TEST_F(WallsOfTree, RefuseAnUnknownFolder) {
  write("attic/a.cc", "int a;\n");
  write("high/b.h", "#include \"phalanx/attic/a.h\"\n");
  EXPECT_THAT(violations(),
              testing::ElementsAre("attic/a.cc:1: is in no folder that walls.txt knows",
                                   "high/b.h:1: high may not include phalanx/attic/a.h"));
}

TEST_F(WallsOfTree, RefuseAVendorOutsideItsRoom) {
  write("low/a.cc", "#include <vector>\n#include <lib/x.h>\n");
  write("low/deeper/a.cc", "#include \"lib/x.h\"\n");
  EXPECT_THAT(violations(),
              testing::ElementsAre("low/a.cc:2: vendor header lib/x.h outside its room",
                                   "low/deeper/a.cc:1: vendor header lib/x.h outside its room"));
}

TEST_F(WallsOfTree, RefuseARelativeInclude) {
  write("low/a.cc", "#include \"a.h\"\n#include \"../middle/b.h\"\n");
  write("low/a.h", "");
  write("middle/b.h", "");
  EXPECT_THAT(violations(), testing::ElementsAre(
                                "low/a.cc:1: include a.h by its full name, phalanx/...",
                                "low/a.cc:2: include ../middle/b.h by its full name, phalanx/..."));
}

TEST_F(WallsOfTree, RefuseACircle) {
  write("walls.txt", "low: high\nmiddle: low\nhigh: middle\nother: high\n");
  EXPECT_THAT(violations(), testing::ElementsAre("walls.txt:1: low uses itself in a circle",
                                                 "walls.txt:2: middle uses itself in a circle",
                                                 "walls.txt:3: high uses itself in a circle"));
}

TEST_F(WallsOfTree, TestsMayUseMoreThanTheirFolder) {
  write("walls.txt", "low:\nmiddle: low\nhigh: middle\ntests low: high\n");
  write("low/a_test.cc", "#include \"phalanx/middle/a.h\"\n");
  write("low/test_support.h", "#include \"phalanx/high/a.h\"\n");
  write("low/a.cc", "#include \"phalanx/high/a.h\"\n");
  EXPECT_THAT(violations(),
              testing::ElementsAre("low/a.cc:1: low may not include phalanx/high/a.h"));
}

TEST_F(WallsOfTree, RefuseATableThatCannotBeRead) {
  write("walls.txt", "low:\nlow: low2\nno colon\nmiddle: nowhere\nvendors lib/: low\n");
  EXPECT_THAT(
      violations(),
      testing::ElementsAre("walls.txt:2: a second line for low",
                           "walls.txt:3: no line of a folder, of a folder's tests or of a vendor",
                           "walls.txt:4: middle names the unknown folder nowhere",
                           "walls.txt:5: no line of a folder, of a folder's tests or of a vendor"));
}

}  // namespace
}  // namespace phalanx::walls
