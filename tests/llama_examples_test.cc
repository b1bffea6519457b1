// examples/tiny-llama, examples/tiny-mixtral and examples/continue-imported from their beginnings
// to their ends, on a small text and for a few iterations.

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

class LlamaExamplesTest : public ProgramTest {
 protected:
  LlamaExamplesTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      text += fmt::format("And the {} said unto the {}, behold.\n", i % 7, i % 5);
      text += fmt::format("And it came to pass on day {}.\n\n", i % 11);
    }
    write("text.txt", text);
  }

  // In the repository, with everything that it makes in the test's directory.
  ProgramOutput start(const std::string& settings, const std::string& example,
                      const std::string& words = "") const {
    const std::string command = fmt::format(
        "cd / && env PHALANX='{}' RUN='{}/run' TEXT='{}/text.txt' VOCABULARY=300 {} "
        "'{}/{}/run' {} >'{}/stdout' 2>'{}/stderr' </dev/null",
        program_path(), directory_.string(), directory_.string(), settings,
        source_path("examples").string(), example, words, directory_.string(), directory_.string());
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read("stdout"), read("stderr")};
  }
};

constexpr const char* kSmall =
    "--num-layers 2 --hidden-size 64 --ffn-hidden-size 96 --eval-iters 1 --eval-interval 4";

TEST_F(LlamaExamplesTest, ATinyLlamaFromNothing) {
  const ProgramOutput made = start("ITERATIONS=4", "tiny-llama", kSmall);
  ASSERT_EQ(made.status, 0) << made.out << made.err;
  EXPECT_EQ(metrics("run/checkpoint").size(), 4U);
  const Json config = Json::parse(read("run/hugging-face/config.json"));
  EXPECT_EQ(config.at("architectures"), Json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(config.at("num_key_value_heads"), 2);
  EXPECT_EQ(config.at("hidden_size"), 64);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run/hugging-face/model.safetensors"));
  // What exists is not made again.
  const auto written = std::filesystem::last_write_time(directory_ / "run/book_text_document.bin");
  const ProgramOutput again = start("ITERATIONS=4", "tiny-llama", kSmall);
  ASSERT_EQ(again.status, 0) << again.out << again.err;
  EXPECT_EQ(metrics("run/checkpoint").size(), 4U);
  EXPECT_EQ(std::filesystem::last_write_time(directory_ / "run/book_text_document.bin"), written);
}

TEST_F(LlamaExamplesTest, ATinyMixtralFromNothing) {
  const ProgramOutput made = start("ITERATIONS=4", "tiny-mixtral", kSmall);
  ASSERT_EQ(made.status, 0) << made.out << made.err;
  EXPECT_EQ(metrics("run/checkpoint").size(), 4U);
  const std::size_t parameters = made.out.find(" parameters, of which ");
  EXPECT_NE(parameters, std::string::npos) << made.out;
  const std::size_t found = made.out.find("balancing loss: ");
  ASSERT_NE(found, std::string::npos) << made.out;
  double first = 0.0;
  double last = 0.0;
  ASSERT_EQ(
      std::sscanf(made.out.c_str() + found,
                  "balancing loss: %lf in the first iteration, %lf in the last", &first, &last),
      2)
      << made.out;
  EXPECT_GT(std::min(first, last), 0.9);
  const std::size_t busiest = made.out.find("busiest expert over the mean: ");
  ASSERT_NE(busiest, std::string::npos) << made.out;
  EXPECT_EQ(std::sscanf(made.out.c_str() + busiest,
                        "busiest expert over the mean: %lf in the first iteration, %lf in the last",
                        &first, &last),
            2)
      << made.out;
  const Json config = Json::parse(read("run/hugging-face/config.json"));
  EXPECT_EQ(config.at("architectures"), Json::array({"MixtralForCausalLM"}));
  EXPECT_EQ(config.at("num_local_experts"), 8);
  EXPECT_EQ(config.at("num_experts_per_tok"), 2);
  EXPECT_NE(made.out.find("And God said"), std::string::npos) << made.out;
}

TEST_F(LlamaExamplesTest, AnImportedModelLearnsAnotherText) {
  const ProgramOutput base =
      start("ITERATIONS=4", "tiny-llama", std::string(kSmall) + " --save-interval 4");
  ASSERT_EQ(base.status, 0) << base.out << base.err;
  const std::string folder = (directory_ / "published").string();
  std::filesystem::rename(directory_ / "run/hugging-face", folder);
  std::filesystem::remove_all(directory_ / "run");
  const ProgramOutput made = start("ITERATIONS=20 SEQUENCE=32 LR=5e-3", "continue-imported",
                                   folder + " --micro-batch-size 2 --global-batch-size 4");
  ASSERT_EQ(made.status, 0) << made.out << made.err;
  EXPECT_EQ(metrics("run/continued").size(), 20U);
  const std::size_t found = made.out.find("loss of held-out text: ");
  ASSERT_NE(found, std::string::npos) << made.out;
  double before = 0.0;
  double after = 0.0;
  ASSERT_EQ(std::sscanf(made.out.c_str() + found, "loss of held-out text: %lf as imported, %lf now",
                        &before, &after),
            2)
      << made.out;
  EXPECT_LT(after, before);
  const Json theirs = Json::parse(read("published/config.json"));
  const Json ours = Json::parse(read("run/hugging-face/config.json"));
  for (const char* key : {"architectures", "hidden_size", "vocab_size", "num_key_value_heads"}) {
    EXPECT_EQ(ours.at(key), theirs.at(key)) << key;
  }
}

// It has no time to learn here: the script says so by its status.
TEST_F(LlamaExamplesTest, AModelIsAskedBeforeAndAfterFineTuning) {
  std::string verses;
  for (int i = 1; i <= 6; ++i)
    verses += fmt::format("Genesis 1:{} And it came to pass on day {}.\n", i, i);
  write("verses.txt", verses);
  const ProgramOutput made =
      start(fmt::format("VERSES='{0}/verses.txt' BASE_TEXT='{0}/text.txt' BASE_ITERATIONS=4 "
                        "BASE_FLAGS='{1}' ASKED=3 EPOCHS=1",
                        directory_.string(), kSmall),
            "chat-finetune", "--micro-batch-size 1");
  ASSERT_EQ(made.status, 1) << made.out << made.err;
  EXPECT_NE(made.out.find("What does Genesis 1:2 say?"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find(" of 3 answers right before, "), std::string::npos) << made.out;
}

TEST_F(LlamaExamplesTest, SayWhatTheyCannotUse) {
  EXPECT_EQ(start("", "continue-imported", "--steps").status, 64);
  EXPECT_EQ(start("", "tiny-llama", "words").status, 64);
  const ProgramOutput missing = start("", "continue-imported", "/nowhere");
  EXPECT_EQ(missing.status, 66);
  EXPECT_NE(missing.err.find("/nowhere/config.json"), std::string::npos) << missing.err;
}

}  // namespace
}  // namespace phalanx
