// A BERT and a T5 learn, in seconds, what is there to be learned: which of two runs of numbers
// comes first, and what stands in the holes of a text that repeats itself.

#include <algorithm>

#include "program_test.h"

namespace phalanx {
namespace {

constexpr const char* kFlags =
    "--num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 16 --lr 5e-3 --lr-decay-style constant "
    "--hidden-dropout 0 --attention-dropout 0 --init-method-std 0.1 --vocab-file vocab.txt "
    "--split 1,0,0 --eval-iters 0 --data-path data_text_document --threads-per-rank 1 --save run ";

class LearningTest : public ProgramTest {
 protected:
  // Documents of four sentences of three numbers each, one sequence a sentence; document d begins
  // at `first(d)`, and numbers are taken modulo `period`.
  template <typename First>
  void prepare_numbers(int documents, int period, const First& first) const {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < 40; ++i) vocabulary += fmt::format("n{}\n", i);
    write("vocab.txt", vocabulary);
    std::string lines;
    for (int d = 0; d < documents; ++d) {
      Json sentences = Json::array();
      for (int s = 0; s < 4; ++s) {
        const int number = first(d) + 3 * s;
        sentences.push_back(fmt::format("n{} n{} n{}", number % period, (number + 1) % period,
                                        (number + 2) % period));
      }
      lines += Json{{"text", sentences}}.dump() + "\n";
    }
    write("text.jsonl", lines);
    const ProgramOutput made =
        run("preprocess-data --input text.jsonl --tokenizer-type BertWordPieceLowerCase "
            "--vocab-file vocab.txt --output-prefix data");
    ASSERT_EQ(made.status, 0) << made.err;
  }
  // A loss's mean over the last iterations.
  double last_mean(const std::string& loss, int iterations) const {
    std::istringstream file(read("run/metrics.jsonl"));
    std::vector<double> values;
    for (std::string line; std::getline(file, line);) {
      const Json json = Json::parse(line);
      if (json.contains("iteration") && json.contains(loss)) values.push_back(json.at(loss));
    }
    double sum = 0.0;
    for (int i = 0; i < iterations; ++i) sum += values.at(values.size() - 1 - i);
    return sum / iterations;
  }
};

TEST_F(LearningTest, ABertLearnsWhichNumbersComeFirst) {
  prepare_numbers(300, 40, [](int document) { return document * 5 % 8; });
  const ProgramOutput trained =
      run("pretrain bert " + std::string(kFlags) + "--train-iters 250 --save-interval 250");
  ASSERT_EQ(trained.status, 0) << trained.err;
  // By chance: ln 2.
  EXPECT_LT(last_mean("sop_loss", 20), 0.2);
}

TEST_F(LearningTest, AT5FillsTheHolesOfWhatRepeats) {
  prepare_numbers(300, 7, [](int document) { return document * 5 % 7; });
  const ProgramOutput trained =
      run("pretrain t5 " + std::string(kFlags) +
          "--decoder-seq-length 12 --vocab-extra-ids 10 --mask-prob 0.3 --train-iters 250 "
          "--save-interval 250");
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_LT(last_mean("lm_loss", 20), 0.6);
}

}  // namespace
}  // namespace phalanx
