#include "phalanx/tasks/text_to_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "phalanx/families/families.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/start/run_data.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

class TextToTextTest : public RunTest {
 protected:
  void trained(const std::string& dtype, const std::string& positions) {
    write_sentences();
    TrainConfig c = with_flags(config("run"), "--family t5");
    c.model.num_layers = c.model.decoder_num_layers = 1;
    c.model.position_embedding_type = positions;
    c.model.bf16 = dtype == "bf16";
    set_flags(c, "--matmul-precision fp32 --decoder-seq-length 12");
    c.data.data_path = {path("sentences")};
    set_flags(c, "--split 60,40,0 --tokenizer-type BertWordPieceLowerCase --vocab-size 0");
    c.tokenizer.vocab_file = path("vocab.txt");
    c.tokenizer.vocab_extra_ids = 10;
    c.layout.micro_batch_size = c.layout.global_batch_size = 1;
    train(c);
    resolve(c, true);
    config_ = c;
    tokenizer_ = make_tokenizer(c.tokenizer);
    model_ = t5_config(config_, tokenizer_->vocab_size());
  }
  TextToText make(const AnswerSizes& sizes = {}) const {
    return {config_, model_, CheckpointReader::open(path("run")), DeviceChoice{}, sizes};
  }
  // The validation sample that training evaluates behind `number` others, and the loss it finds.
  struct Evaluated {
    std::vector<std::int32_t> text, target;  // without padding
    double loss = 0.0;
  };
  Evaluated evaluated(std::int64_t number) const {
    const RunData data(config_, *tokenizer_, {.train = 6, .valid = 4, .test = 0});
    Evaluated result;
    TrainConfig c = config_;
    run_ranks(c, *make_model(c, tokenizer_->vocab_size()), [&](Rank& rank) {
      load_run(c, CheckpointReader::open(path("run")), rank);
      RunData::Stream stream(data, SplitKind::kValid, number);
      const BatchSource source = stream.source();
      result.loss = rank.evaluate([&](int microbatch) -> const HostBatch& {
                          const HostBatch& batch = source(microbatch);
                          result.text = real(batch, "tokens", "document");
                          result.target = real(batch, "decoder_tokens", "decoder_document");
                          return batch;
                        })
                        .loss();
    });
    result.target.push_back(*tokenizer_->special_tokens().eos);
    return result;
  }

  TrainConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  T5Config model_;

 private:
  static std::vector<std::int32_t> real(const HostBatch& batch, const char* name,
                                        const char* document) {
    const auto tokens = batch.column<std::int32_t>(name);
    const auto documents = batch.column<std::int32_t>(document);
    std::vector<std::int32_t> result;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (documents[i] == 0) result.push_back(tokens[i]);
    }
    return result;
  }
  void write_sentences() const {
    std::ofstream vocabulary(path("vocab.txt"));
    vocabulary << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < 25; ++i) vocabulary << "w" << i << "\n";
    IndexedDatasetWriter writer(path("sentences"), TokenType::kU16);
    for (int document = 0; document < 20; ++document) {
      for (int sentence = 0; sentence < 3; ++sentence) {
        std::vector<std::int32_t> tokens;
        for (int i = 0; i < 4 + document % 4; ++i) {
          tokens.push_back(5 + (document * 7 + sentence * 5 + i) % 25);
        }
        writer.add_sequence(tokens);
      }
      writer.end_document();
    }
    writer.commit();
  }
};

// The score's loss has the bits of training's.
TEST_F(TextToTextTest, ScoreIsTheLossOfAnEvaluation) {
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const char* positions : {"learned_absolute", "relative"}) {
      trained(dtype, positions);
      const Evaluated sample = evaluated(1);
      ASSERT_LT(std::ssize(sample.text), model_.sequence);
      const TextScore found = make().score(sample.text, sample.target);
      EXPECT_EQ(found.log_probabilities.size() + 1, sample.target.size());
      EXPECT_EQ(found.loss, sample.loss) << dtype << ", " << positions;
    }
  }
}

// Padding changes no probability, and the probabilities add up to one.
TEST_F(TextToTextTest, LogitsAreOfWhatScoreSays) {
  for (const char* positions : {"learned_absolute", "relative"}) {
    trained("fp32", positions);
    const Evaluated sample = evaluated(0);
    const TextScore score = make().score(sample.text, sample.target);
    const std::int64_t most = std::ssize(sample.target) - 1;
    TextToText writer = make({.text = std::ssize(sample.text), .most = most});
    for (std::int64_t i = 0; i < most; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto logits = writer.logits(sample.text, std::span(sample.target).first(at + 1));
      double sum = 0.0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      const auto id = static_cast<std::size_t>(sample.target[at + 1]);
      EXPECT_NEAR(score.log_probabilities[at], logits[id] - std::log(sum), 1e-5) << i;
    }
  }
}

TEST_F(TextToTextTest, AnAnswerEndsWithoutItsEnd) {
  trained("fp32", "learned_absolute");
  const std::vector<std::int32_t> text = {5, 6, 7};
  TextToText writer = make({.text = 3, .most = 12});
  const SamplingOptions likely{.temperature = 0.0};
  const auto whole = writer.generate(text, {.begin = 30, .ends = {}}, likely);
  ASSERT_EQ(whole.size(), 12U);
  // Each token is the most likely one behind those before it.
  std::vector<std::int32_t> target = {30};
  for (const std::int32_t id : whole) {
    const auto logits = writer.logits(text, target);
    EXPECT_EQ(id, std::ranges::max_element(logits) - logits.begin());
    target.push_back(id);
  }
  // The first token already ends the answer.
  EXPECT_TRUE(writer.generate(text, {.begin = 30, .ends = {-1, whole[0]}}, likely).empty());
}

TEST(TargetTokens, AreThoseOfTheTokenizerOrOfTheImportedModel) {
  TokenizerOptions config;
  config.tokenizer_type = "NullTokenizer";
  config.vocab_size = 48;
  const auto tokenizer = make_tokenizer(config);
  EXPECT_THAT([&] { target_tokens(*tokenizer, {}); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("has no [BOS] token")));
  // An imported model has the begin and end tokens of its decoder.
  const TargetTokens imported = target_tokens(
      *tokenizer, {{"config.decoder_start_token_id", "0"}, {"generation.eos_token_ids", "1 47"}});
  EXPECT_EQ(imported.begin, 0);
  EXPECT_THAT(imported.ends, testing::ElementsAre(1, 47));
}

}  // namespace
}  // namespace phalanx
