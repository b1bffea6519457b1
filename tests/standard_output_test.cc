// What a command prints arrives, or the command says that it does not: 73 and one line.

#include <gmock/gmock.h>

#include "program_test.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class StandardOutputTest : public ProgramTest {
 protected:
  void expect_refused(const std::string& words) const {
    const ProgramOutput output = run_between("", words, ">/dev/full", "And the 3");
    EXPECT_EQ(output.status, 73) << words << "\n" << output.err;
    EXPECT_THAT(output.err,
                HasSubstr("standard output: cannot be written: No space left on device\n"))
        << words;
    std::istringstream lines(output.err);
    int errors = 0;
    for (std::string line; std::getline(lines, line);)
      errors += line.starts_with("error: ") ? 1 : 0;
    EXPECT_EQ(errors, 1) << words << "\n" << output.err;
  }
};

// A text that fits into a buffer, and one that does not.
TEST_F(StandardOutputTest, IsFullForCommandsWithoutFiles) {
  const std::string shape =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 ";
  const std::string schedule = "schedule --kind 1f1b --pipeline-size 2 --microbatches 4 ";
  for (const std::string& words :
       {std::string("--help"),
        std::string("--version"),
        std::string("version --json"),
        std::string("help"),
        std::string("help plan gpt"),
        std::string("help --markdown"),
        std::string("pretrain gpt --help"),
        std::string("dataset --help"),
        std::string("launch --help"),
        std::string("completion bash"),
        std::string("completion zsh"),
        std::string("completion fish"),
        "plan gpt " + shape,
        "plan gpt --json " + shape,
        "plan gpt --print-yaml " + shape,
        "pretrain gpt --mock-data --print-yaml --micro-batch-size 1 --lr 1 --tokenizer-type "
        "NullTokenizer --vocab-size 9 --train-iters 1 " +
            shape,
        schedule,
        schedule + "--json",
        schedule + "--check-only",
        schedule + "--lowered",
        std::string("schedule --list-kinds"),
        std::string("grid --world-size 4"),
        std::string("grid --world-size 512 --json")}) {
    expect_refused(words);
  }
}

TEST_F(StandardOutputTest, IsFullForCommandsWithFiles) {
  prepare();
  const std::string trains = "pretrain gpt " + training() +
                             "--train-iters 2 --eval-iters 0 --threads-per-rank 1 --save run "
                             "--save-interval 2";
  ASSERT_EQ(run(trains).status, 0);
  const std::string data = "--data-path data_text_document ";
  for (const std::string& words :
       {"tokenize " + tokenizer(), "dataset info " + data, "dataset check " + data,
        "dataset head " + data,
        "dataset samples --seq-length 8 --train-samples 2 " + data + tokenizer(),
        std::string("checkpoint info run"), std::string("checkpoint digest run"),
        std::string("checkpoint digest run --json"), std::string("checkpoint diff run run"),
        std::string("score --load run"),
        std::string("generate --load run --max-tokens 2 --prompt A"),
        std::string("generate --load run --max-tokens 2 --prompt A --json"),
        std::string("evaluate perplexity --load run --valid-data text.txt"),
        std::string("report run -o -"), std::string("bench disk . --size 1 --seconds 0.01")}) {
    expect_refused(words);
  }
}

// A reader that leaves ends the command without a word, also where a caller ignores SIGPIPE. The
// text is longer than a pipe keeps, so that it is not all written before the reader leaves.
TEST_F(StandardOutputTest, ThatNobodyReadsIsNoError) {
  for (const char* before : {"{", "trap '' PIPE; {"}) {
    const ProgramOutput output =
        run_between(before, "help --markdown", ">&3; echo $? >status\n} 3>&1 | true");
    EXPECT_EQ(output.err, "") << before;
    EXPECT_EQ(read("status"), "141\n") << before;
  }
}

TEST_F(StandardOutputTest, ThatIsClosedIsNamed) {
  const ProgramOutput output = run_between("", "version", ">&-");
  EXPECT_EQ(output.status, 73) << output.err;
  EXPECT_THAT(output.err, HasSubstr("standard output: cannot be written: Bad file descriptor"));
}

}  // namespace
}  // namespace phalanx
