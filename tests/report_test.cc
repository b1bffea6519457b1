// `phalanx report`, through the built program.

#include <gmock/gmock.h>

#include "program_test.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class ReportProgramTest : public ProgramTest {
 protected:
  void write_run(const std::string& name) const {
    std::filesystem::create_directories(directory_ / name);
    write(name + "/metrics.jsonl",
          "{\"iteration\": 1, \"lm_loss\": 9.5}\n{\"iteration\": 2, \"lm_loss\": 9.25}\n");
  }
};

TEST_F(ReportProgramTest, WritesOnePage) {
  write_run("a");
  write_run("b");
  EXPECT_EQ(run("report a").status, 0);
  EXPECT_THAT(read("a/report.html"), HasSubstr("<h1>a</h1>"));
  EXPECT_EQ(run("report a b -o both.html").status, 0);
  EXPECT_THAT(read("both.html"), HasSubstr("2 runs compared"));
  const ProgramOutput printed = run("report b -o -");
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.out, HasSubstr("<h1>b</h1>"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "b/report.html"));
}

TEST_F(ReportProgramTest, FaultsAreToldInASentence) {
  write_run("a");
  write_run("b");
  std::filesystem::create_directories(directory_ / "empty");
  expect_error("report", 64, "DIR");
  expect_error("report none", 66, "none: no such directory");
  expect_error("report empty", 66, "empty: there is no metrics.jsonl in it");
  expect_error("report a b", 64, "-o FILE");
  expect_error("report a ./a -o x.html", 64, "the same directory");
  expect_error("report a -o no/x.html", 73, "there is no directory no");
  expect_error("report a -o empty", 73, "this is a directory");
}

}  // namespace
}  // namespace phalanx
