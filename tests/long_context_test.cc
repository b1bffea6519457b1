// Samples that lie on several ranks, as people ask for them: pictures, the page, and the example.

#include <string>

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

class LongContextTest : public ProgramTest {};

TEST_F(LongContextTest, PicturesOfRowsAndExchanges) {
  const std::string grid = "grid --world-size 8 --context-parallel-size 4 ";
  const ProgramOutput rows =
      run(grid +
          "--seq-length 64 --draw-rows a.svg --context-parallel-cut documents "
          "--documents 40 16 8");
  EXPECT_EQ(rows.status, 0) << rows.err;
  EXPECT_NE(read("a.svg").find("cut by documents"), std::string::npos);
  EXPECT_EQ(rows.out, run(grid).out);
  expect_error(grid + "--draw-rows a.svg", 78, "--seq-length");
  expect_error(grid + "--seq-length 64", 78, "--draw-rows");
  expect_error(grid + "--seq-length 60 --draw-rows a.svg", 78, "60 rows");
  const std::string plan =
      "plan gpt " + training() + "--vocab-size 64 --nproc 4 --global-batch-size 16 ";
  const std::string context = plan + "--context-parallel-size 2 ";
  const ProgramOutput drawn = run(context + "--context-timeline b.svg");
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_NE(read("b.svg").find("Attention of a layer on 2 ranks, --cp-comm-type p2p"),
            std::string::npos);
  EXPECT_NE(drawn.out.find("4 ranks: tensor parallel 1, context parallel 2 (p2p), data parallel 2"),
            std::string::npos)
      << drawn.out;
  expect_error(plan + "--context-timeline b.svg", 78, "give --context-parallel-size");
  expect_error(context + "--context-timeline b.svg --timeline b.svg", 64, "give two files");
  expect_error(context + "--context-timeline b.svg --compare 'a | b' --svg c.svg", 78,
               "--context-timeline");
}

// Every picture of the page is what its command draws.
TEST_F(LongContextTest, ThePicturesAreUpToDate) {
  const ProgramOutput output =
      run_between("'" + source_path("tools/draw-context").string() + "' --check '" +
                      program_path() + "' >drawn 2>&1 || echo bad >>drawn",
                  "version", "");
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(read("drawn"), "") << "run tools/draw-context and look at what it changed";
}

// On a small text, with samples of 256 tokens.
TEST_F(LongContextTest, TheExampleFromItsBeginningToItsEnd) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += fmt::format("And the {} said unto the {}, behold, day {}.\n", i % 7, i % 5, i % 11);
    if (i % 100 == 99) text += "\n";
  }
  write("text.txt", text);
  const auto start = [&](const std::string& words) {
    const std::string command = fmt::format(
        "cd / && env PHALANX='{0}' RUN='{1}/run' TEXT='{1}/text.txt' VOCABULARY=300 SEQUENCE=256 "
        "'{2}' {3} >'{1}/stdout' 2>'{1}/stderr' </dev/null",
        program_path(), directory_.string(), source_path("examples/long-context/run").string(),
        words);
    const int status = std::system(command.c_str());
    return ProgramOutput{WEXITSTATUS(status), read("stdout"), read("stderr")};
  };
  const ProgramOutput made = start("--num-layers 1");
  ASSERT_EQ(made.status, 0) << made.out << made.err;
  EXPECT_EQ(metrics("run/checkpoint").size(), 3U);
  EXPECT_NE((made.out + made.err).find("context-parallel size 4 (p2p)"), std::string::npos);
  EXPECT_NE(made.out.find("each of 4 ranks"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find("resident"), std::string::npos) << made.out;
  // What exists is not made again, and the numbers are there all the same.
  const auto written = std::filesystem::last_write_time(directory_ / "run/book_text_document.bin");
  const ProgramOutput again = start("--num-layers 1");
  ASSERT_EQ(again.status, 0) << again.out << again.err;
  EXPECT_EQ(std::filesystem::last_write_time(directory_ / "run/book_text_document.bin"), written);
  EXPECT_EQ(metrics("run/checkpoint").size(), 3U);
  EXPECT_NE(again.out.find("resident"), std::string::npos) << again.out;
}

}  // namespace
}  // namespace phalanx
