#include "phalanx/model/stage_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const EncoderDecoderStages& request) {
  return error_of<ConfigError>([&] { encoder_decoder_stages(request); });
}

TEST(StagePlan, OneStackHasItsEndsOnTheFirstAndTheLastStage) {
  const std::vector<std::int64_t> layers = {1, 3, 2};
  EXPECT_THAT(
      one_stack_stages(layers),
      ElementsAre(StageRange{.stage = 0, .has_embedding = true, .first_layer = 0, .num_layers = 1},
                  StageRange{.stage = 1, .first_layer = 1, .num_layers = 3},
                  StageRange{.stage = 2, .first_layer = 4, .num_layers = 2, .has_head = true}));
  const std::vector<std::int64_t> one = {5};
  EXPECT_THAT(one_stack_stages(one),
              ElementsAre(StageRange{.has_embedding = true, .num_layers = 5, .has_head = true}));
}

TEST(StagePlan, OneStageHasBothStacksWhateverTheSplit) {
  for (const int split : {0, 1, 7}) {
    EXPECT_THAT(encoder_decoder_stages({.encoder_layers = 3, .decoder_layers = 2, .split = split}),
                ElementsAre(StageRange{.has_embedding = true,
                                       .num_layers = 3,
                                       .has_encoder_norm = true,
                                       .has_decoder_embedding = true,
                                       .num_decoder_layers = 2,
                                       .has_head = true}));
  }
}

std::vector<std::int64_t> layers_of(const EncoderDecoderStages& request) {
  std::vector<std::int64_t> layers;
  for (const StageRange& range : encoder_decoder_stages(request)) {
    layers.push_back(range.num_layers + range.num_decoder_layers);
  }
  return layers;
}

// Megatron-LM's numbers of layers for given splits.
TEST(StagePlan, LayersOfMegatronsSplits) {
  EXPECT_THAT(layers_of({.encoder_layers = 4, .decoder_layers = 6, .stages = 4, .split = 2}),
              ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(layers_of({.encoder_layers = 4, .decoder_layers = 8, .stages = 3, .split = 1}),
              ElementsAre(4, 4, 4));
}

TEST(StagePlan, TheFirstAndTheLastStageOfEachStackHaveItsEnds) {
  EXPECT_THAT(
      encoder_decoder_stages({.encoder_layers = 4, .decoder_layers = 3, .stages = 3, .split = 2}),
      ElementsAre(
          StageRange{.stage = 0, .has_embedding = true, .num_layers = 2},
          StageRange{.stage = 1, .first_layer = 2, .num_layers = 2, .has_encoder_norm = true},
          StageRange{.stage = 2,
                     .first_layer = 4,
                     .has_decoder_embedding = true,
                     .num_decoder_layers = 3,
                     .has_head = true}));
}

TEST(StagePlan, AStandaloneEmbeddingLeavesTheEncoderOneStageFewer) {
  const EncoderDecoderStages request{.encoder_layers = 4,
                                     .decoder_layers = 6,
                                     .stages = 5,
                                     .split = 3,
                                     .standalone_embedding = true};
  EXPECT_THAT(layers_of(request), ElementsAre(0, 2, 2, 3, 3));
  const auto stages = encoder_decoder_stages(request);
  EXPECT_TRUE(stages[0].has_embedding);
  EXPECT_FALSE(stages[1].has_embedding);
  EXPECT_TRUE(stages[2].has_encoder_norm);
  EXPECT_EQ(stages[2].first_layer, 2);
}

void expect_each_part_once(const EncoderDecoderStages& request) {
  std::vector<int> encoder(static_cast<std::size_t>(request.encoder_layers));
  std::vector<int> decoder(static_cast<std::size_t>(request.decoder_layers));
  StageRange ends{.stage = -1};
  int embeddings = 0;
  int norms = 0;
  int decoder_embeddings = 0;
  int heads = 0;
  for (const StageRange& range : encoder_decoder_stages(request)) {
    EXPECT_EQ(range.stage, ends.stage + 1);
    ends.stage = range.stage;
    for (std::int64_t i = 0; i < range.num_layers; ++i) {
      ++encoder.at(static_cast<std::size_t>(range.first_layer + i));
    }
    for (std::int64_t i = 0; i < range.num_decoder_layers; ++i) {
      ++decoder.at(static_cast<std::size_t>(range.first_decoder_layer + i));
    }
    embeddings += range.has_embedding ? 1 : 0;
    norms += range.has_encoder_norm ? 1 : 0;
    decoder_embeddings += range.has_decoder_embedding ? 1 : 0;
    heads += range.has_head ? 1 : 0;
    // No stage of several has parts of both stacks.
    if (request.stages > 1) {
      EXPECT_TRUE(range.num_layers == 0 || range.num_decoder_layers == 0);
    }
  }
  EXPECT_EQ(ends.stage, request.stages - 1);
  EXPECT_THAT(encoder, testing::Each(1));
  EXPECT_THAT(decoder, testing::Each(1));
  EXPECT_EQ(embeddings, 1);
  EXPECT_EQ(norms, 1);
  EXPECT_EQ(decoder_embeddings, 1);
  EXPECT_EQ(heads, 1);
}

TEST(StagePlan, EverySplitThatComesOutEvenHasEachLayerOnce) {
  int possible = 0;
  for (const bool standalone : {false, true}) {
    for (const std::int64_t encoder : {1, 2, 3, 4, 6, 12}) {
      for (const std::int64_t decoder : {1, 2, 3, 4, 6, 12}) {
        for (int stages = 2; stages <= 8; ++stages) {
          for (int split = 1; split < stages; ++split) {
            const EncoderDecoderStages request{encoder, decoder, stages, split, standalone};
            const int with_layers = split - (standalone ? 1 : 0);
            if (with_layers == 0 || encoder % with_layers != 0 || decoder % (stages - split) != 0) {
              EXPECT_NE(message_of(request), "no error");
              continue;
            }
            ++possible;
            expect_each_part_once(request);
          }
        }
      }
    }
  }
  EXPECT_GT(possible, 300);
}

TEST(StagePlan, RefusesWhatDoesNotComeOutEven) {
  EXPECT_EQ(message_of({.encoder_layers = 4, .decoder_layers = 4, .stages = 4}),
            "an encoder and a decoder over 4 pipeline stages need "
            "--pipeline-model-parallel-split-rank: the first stage of the decoder, from 1 to 3");
  for (const int split : {-1, 4, 5}) {
    EXPECT_THAT(message_of({.encoder_layers = 4, .decoder_layers = 4, .stages = 4, .split = split}),
                HasSubstr("must be from 1 to 3, below the 4 pipeline stages"));
  }
  EXPECT_EQ(message_of({.encoder_layers = 5, .decoder_layers = 4, .stages = 4, .split = 2}),
            "--encoder-num-layers 5 is not a multiple of the 2 pipeline stages that have layers of "
            "the encoder");
  EXPECT_THAT(message_of({.encoder_layers = 4, .decoder_layers = 4, .stages = 4, .split = 1}),
              HasSubstr("--decoder-num-layers 4 is not a multiple of the 3 pipeline stages"));
  EXPECT_THAT(message_of({.encoder_layers = 4,
                          .decoder_layers = 4,
                          .stages = 2,
                          .split = 1,
                          .standalone_embedding = true}),
              HasSubstr("leaves no stage for the layers of the encoder"));
  EXPECT_THAT(message_of({.encoder_layers = 4, .decoder_layers = 4, .standalone_embedding = true}),
              HasSubstr("needs several pipeline stages"));
}

TEST(StagePlan, IsTold) {
  const auto stages =
      encoder_decoder_stages({.encoder_layers = 4, .decoder_layers = 2, .stages = 4, .split = 2});
  EXPECT_EQ(description_of(stages[0], true), "embedding, encoder layers 0..1");
  EXPECT_EQ(description_of(stages[1], true), "encoder layers 2..3, its norm");
  EXPECT_EQ(description_of(stages[2], true), "decoder embedding, decoder layer 0");
  EXPECT_EQ(description_of(stages[3], true), "decoder layer 1, head");
  const std::vector<std::int64_t> layers = {2, 2};
  EXPECT_EQ(description_of(one_stack_stages(layers)[1], false), "layers 2..3, head");
}

}  // namespace
}  // namespace phalanx
