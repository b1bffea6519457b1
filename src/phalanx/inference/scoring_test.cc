#include "phalanx/inference/scoring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/start/run_data.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

TEST(ScoreWindows, OneWhereThereIsRoom) {
  EXPECT_THAT(score_windows(1, 8, 0), ElementsAre(ScoreWindow{0, 1, 0}));
  EXPECT_THAT(score_windows(8, 8, 0), ElementsAre(ScoreWindow{0, 8, 0}));
  EXPECT_THAT(score_windows(8, 8, 3), ElementsAre(ScoreWindow{0, 8, 0}));
}

TEST(ScoreWindows, StepByTheStride) {
  EXPECT_THAT(score_windows(20, 8, 8),
              ElementsAre(ScoreWindow{0, 8, 0}, ScoreWindow{8, 8, 8}, ScoreWindow{16, 4, 16}));
  EXPECT_THAT(score_windows(14, 8, 4),
              ElementsAre(ScoreWindow{0, 8, 0}, ScoreWindow{4, 8, 8}, ScoreWindow{8, 6, 12}));
  EXPECT_THAT(score_windows(10, 8, 1),
              ElementsAre(ScoreWindow{0, 8, 0}, ScoreWindow{1, 8, 8}, ScoreWindow{2, 8, 9}));
}

TEST(ScoreWindows, ReadEveryTokenOnceAsTheNewest) {
  for (std::int64_t inputs = 1; inputs <= 40; ++inputs) {
    for (std::int64_t stride = 1; stride <= 7; ++stride) {
      std::int64_t read = 0;
      for (const auto& window : score_windows(inputs, 7, stride)) {
        EXPECT_EQ(window.first, read);
        EXPECT_LE(window.begin, window.first);
        EXPECT_LE(window.inputs, 7);
        read = window.begin + window.inputs;
        EXPECT_GT(read, window.first);
        // Except at the text's begin, the scored tokens have as much context as there is room for.
        if (window.begin > 0) {
          EXPECT_GE(window.first - window.begin, 7 - stride);
        }
      }
      EXPECT_EQ(read, inputs);
    }
  }
}

class ScoringTest : public RunTest {
 protected:
  // A run of a few steps, and a Scorer of its checkpoint.
  void trained(const std::function<void(TrainConfig&)>& change = [](TrainConfig&) {}) {
    TrainConfig c = config("run");
    c.layout.micro_batch_size = c.layout.global_batch_size = 1;
    c.model.matmul_precision = "fp32";
    change(c);
    train(c);
    resolve(c, true);
    config_ = c;
    tokenizer_ = make_tokenizer(c.tokenizer);
    model_ = gpt_config(config_, tokenizer_->vocab_size());
  }
  std::vector<TextScore> scores(const std::vector<std::vector<std::int32_t>>& texts,
                                const ScoreOptions& options = {}) const {
    std::vector<std::int64_t> lengths;
    for (const auto& text : texts) lengths.push_back(std::ssize(text));
    Scorer scorer(config_, model_, CheckpointReader::open(path("run")), DeviceChoice{},
                  tokenizer_->end_of_document(), lengths, options);
    std::vector<TextScore> results;
    for (const auto& text : texts) results.push_back(scorer.score(text));
    return results;
  }
  TextScore score(const std::vector<std::int32_t>& text, const ScoreOptions& options = {}) const {
    return scores({text}, options).front();
  }
  // A validation sample, and its loss as training computes it.
  std::vector<std::int32_t> sample(std::int64_t number) const {
    const auto data = std::make_shared<const IndexedDataset>(path("data"));
    const GptDataset valid(
        data, Split(config_.data.split).range(SplitKind::kValid, data->sequences()), 49,
        {.sequence_length = config_.data.seq_length, .samples = counts().valid, .seed = 1234});
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(config_.data.seq_length) + 1);
    valid.sample(number, tokens);
    return tokens;
  }
  double evaluated(std::int64_t number) const {
    const RunData data(config_, *tokenizer_, counts());
    double loss = 0.0;
    TrainConfig c = config_;
    run_ranks(c, *make_model(c, tokenizer_->vocab_size()), [&](Rank& rank) {
      load_run(c, CheckpointReader::open(path("run")), rank);
      RunData::Stream stream(data, SplitKind::kValid, number);
      loss = rank.evaluate(stream.source()).loss();
    });
    return loss;
  }
  static SampleCounts counts() { return {.train = 6, .valid = 4, .test = 1}; }

  TrainConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  GptConfig model_;
};

// A Scorer's loss has the bits of training's.
TEST_F(ScoringTest, IsTheLossOfAnEvaluation) {
  for (const char* type : {"fp32", "bf16", "fp16"}) {
    trained([&](TrainConfig& c) {
      c.model.bf16 = type == std::string_view("bf16");
      c.model.fp16 = type == std::string_view("fp16");
      c.optimizer.initial_loss_scale = 65536;  // no step is skipped
    });
    const TextScore found = score(sample(0));
    EXPECT_EQ(found.log_probabilities.size(), 24U);
    EXPECT_EQ(found.loss, evaluated(0)) << type;
  }
}

TEST_F(ScoringTest, DocumentsAreWhatTrainingMakesOfThem) {
  trained([](TrainConfig& c) { c.data.reset_position_ids = c.data.reset_attention_mask = true; });
  std::int64_t number = 0;
  const auto ends_a_document = [&] {
    const auto tokens = sample(number);
    return std::find(tokens.begin(), tokens.end() - 2, 48) != tokens.end() - 2;
  };
  while (!ends_a_document()) ++number;
  EXPECT_EQ(score(sample(number)).loss, evaluated(number));
  // The answer is another if the text is one document.
  const double loss = score(sample(number)).loss;
  config_.data.reset_position_ids = config_.data.reset_attention_mask = false;
  model_.transformer.mask_documents = false;
  EXPECT_NE(score(sample(number)).loss, loss);
}

// A sample of whole documents has the losses that they have alone.
TEST_F(ScoringTest, PackedDocumentsDoNotSeeEachOther) {
  IndexedDatasetWriter writer(path("short"), TokenType::kI32);
  for (std::int32_t i = 0; i < 100; ++i) {
    std::vector<std::int32_t> text(static_cast<std::size_t>(1 + i % 11));
    for (std::size_t k = 0; k < text.size(); ++k) {
      text[k] = (i * 7 + static_cast<std::int32_t>(k) * 5) % 48;
    }
    writer.add_sequence(text);
    writer.end_document();
  }
  writer.commit();
  trained([&](TrainConfig& c) {
    c.data.data_path = {path("short")};
    c.data.split = "60,30,10";
    c.data.pack_documents = "best-fit";
  });
  const RunData data(config_, *tokenizer_, counts());
  const SampleSource& source = *data.sets(SplitKind::kValid).front().source;
  const std::int64_t number = 1;
  Sample sample(source.schema());
  double count = 0.0;
  source.fetch(number, sample, {&count, 1});
  const auto tokens = sample.column<std::int32_t>(source.schema().index("tokens"));
  const auto documents = sample.column<std::int32_t>(source.schema().index("document"));
  std::map<std::int32_t, std::vector<std::int32_t>> texts;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (documents[row] >= 0) texts[documents[row]].push_back(tokens[row]);
  }
  ASSERT_GT(texts.size(), 1U);
  double sum = 0.0;
  for (const auto& [document, text] : texts) {
    if (text.size() > 1) sum += score(text).loss * static_cast<double>(text.size() - 1);
  }
  EXPECT_NEAR(evaluated(number), sum / count, 1e-5);
}

TEST_F(ScoringTest, LogitsAreOfTheTokenThatFollows) {
  trained();
  const std::vector<std::int32_t> text = {1, 2, 3, 4, 5, 6, 48, 1};
  const auto shorter = std::vector<std::int32_t>(text.begin(), text.end() - 1);
  const TextScore with = score(shorter, {.logits = true});
  ASSERT_EQ(with.logits.size(), 49U);
  double sum = 0.0;
  for (const float logit : with.logits) sum += std::exp(static_cast<double>(logit));
  const TextScore whole = score(text);
  ASSERT_EQ(whole.log_probabilities.size(), 7U);
  EXPECT_NEAR(whole.log_probabilities.back(), with.logits[1] - std::log(sum), 1e-5);
  // Later tokens change nothing.
  const TextScore without = score(shorter);
  EXPECT_TRUE(without.logits.empty());
  ASSERT_EQ(without.log_probabilities.size(), 6U);
  EXPECT_EQ(without.log_probabilities, with.log_probabilities);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(whole.log_probabilities[i], without.log_probabilities[i], 1e-5) << i;
  }
}

TEST_F(ScoringTest, WindowsOfALongText) {
  trained();
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < 60; ++i) text.push_back(i * 7 % 47);
  const auto part = [&](std::int64_t begin, std::int64_t inputs) {
    return std::vector<std::int32_t>(text.begin() + begin, text.begin() + begin + inputs + 1);
  };
  const auto parts = scores({part(0, 24), part(24, 24), part(48, 11)});
  const TextScore whole = score(text, {.stride = 24});
  std::vector<float> joined;
  for (const auto& one : parts) {
    joined.insert(joined.end(), one.log_probabilities.begin(), one.log_probabilities.end());
  }
  EXPECT_EQ(whole.log_probabilities, joined);
  EXPECT_NEAR(whole.loss, (24 * parts[0].loss + 24 * parts[1].loss + 11 * parts[2].loss) / 59,
              1e-12);

  // With overlap the later tokens of each window alone count.
  const TextScore overlapping = score(text, {.stride = 10});
  ASSERT_EQ(overlapping.log_probabilities.size(), 59U);
  const TextScore third = score(part(20, 24));
  for (std::size_t i = 34; i < 44; ++i) {
    EXPECT_EQ(overlapping.log_probabilities[i], third.log_probabilities[i - 20]) << i;
  }
  // The logits of a long text are those of its last window.
  const TextScore last = score(text, {.stride = 24, .logits = true});
  const TextScore tail =
      score(std::vector<std::int32_t>(text.begin() + 48, text.end()), {.logits = true});
  EXPECT_EQ(last.logits, tail.logits);
  EXPECT_EQ(last.log_probabilities, whole.log_probabilities);
}

// The padded rows of the table have no probability: those of all ids add up to 1.
TEST_F(ScoringTest, ProbabilitiesOfAllIdsAreOne) {
  trained();
  std::vector<std::vector<std::int32_t>> texts;
  for (std::int32_t id = 0; id < 49; ++id) texts.push_back({5, 6, id});
  double sum = 0.0;
  for (const auto& one : scores(texts)) {
    sum += std::exp(static_cast<double>(one.log_probabilities.back()));
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

}  // namespace
}  // namespace phalanx
