// What ranks that share the rows of every sample ask of the other flags.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using config_tests::expect_refused;
using config_tests::refusal_of;
using config_tests::resolved;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// 4 layers with 8 heads and 64 tokens, two context-parallel ranks.
TrainConfig shared() {
  return with_flags(config_tests::valid(),
                    "--num-layers 4 --num-attention-heads 8 --seq-length 64 "
                    "--max-position-embeddings 64 --world-size 2 --context-parallel-size 2");
}

// What the command line of such a run must have.
constexpr std::string_view kRequired =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --seq-length 64 "
    "--max-position-embeddings 64 --micro-batch-size 2 --lr 1e-3 --data-path data ";

void expect_shared_refused(const std::string& flags, const std::vector<std::string>& parts) {
  expect_refused(shared(), flags, parts);
}

TEST(ContextRules, RanksThatShareSamples) {
  const TrainConfig c = resolved(shared(), "--world-size 8 --tensor-model-parallel-size 2");
  EXPECT_EQ(data_parallel_size(c.layout), 2);
  EXPECT_EQ(rank_grid(c.layout).sizes(), (GridSizes{.tensor = 2, .context = 2, .data = 2}));
  EXPECT_EQ(context_cut(c.layout), ContextCut(2, ContextCut::Kind::kSequence));
  EXPECT_EQ(document_multiple(c.layout), 1);
  EXPECT_EQ(context_cut(resolved().layout), ContextCut());
}

TEST(ContextRules, EveryRankHasTwoEqualChunks) {
  expect_shared_refused("--seq-length 62", {"--seq-length 62", "multiple of 4, twice",
                                            "--context-parallel-size 2", "give 60 or 64"});
  expect_shared_refused("--seq-length 3", {"give 4"});
  // With sequence parallelism a rank's rows are cut once more.
  const std::string cut_again =
      "--world-size 8 --tensor-model-parallel-size 4 --sequence-parallel --seq-length ";
  expect_shared_refused(cut_again + "60", {"--seq-length 60", "= 30 rows", "--sequence-parallel",
                                           "--tensor-model-parallel-size 4", "give 56 or 64"});
  resolved(shared(), cut_again + "56");
  resolved(shared(), "--world-size 8 --tensor-model-parallel-size 4 --seq-length 60");
}

TEST(ContextRules, TypesOfExchange) {
  const TrainConfig plain = resolved(shared());
  EXPECT_EQ(context_parallel(plain.layout).exchange_of(3), ContextExchange::kRing);
  // Both spellings of one type.
  const TrainConfig each = config_tests::parsed(
      shared(), std::string(kRequired) + "--cp-comm-type p2p a2a allgather all_gather");
  EXPECT_THAT(each.layout.cp_comm_type, ElementsAre("p2p", "a2a", "all_gather", "all_gather"));
  EXPECT_EQ(context_parallel(each.layout).exchange_of(1), ContextExchange::kHeads);
  expect_shared_refused("--cp-comm-type ring", {"--cp-comm-type ring", "p2p", "a2a+p2p"});
  expect_shared_refused("--cp-comm-type p2p a2a",
                        {"--cp-comm-type p2p a2a", "2 words", "--num-layers 4"});
}

TEST(ContextRules, ExchangesByHeadsShareThemEvenly) {
  resolved(shared(), "--cp-comm-type a2a");
  expect_shared_refused(
      "--world-size 3 --context-parallel-size 3 --seq-length 60 --cp-comm-type "
      "p2p p2p p2p a2a",
      {"--cp-comm-type a2a", "--num-attention-heads 8", "--tensor-model-parallel-size 1 = 8 heads",
       "--context-parallel-size 3"});
  const std::string grouped =
      "--group-query-attention --num-attention-heads 24 --kv-channels 8 --cp-comm-type a2a "
      "--num-query-groups ";
  for (const char* groups : {"1", "2", "4", "12"}) resolved(shared(), grouped + groups);
  resolved(shared(), "--world-size 4 --context-parallel-size 4 " + grouped + "2");
  expect_shared_refused(grouped + "3", {"3 groups", "--num-query-groups 3",
                                        "--context-parallel-size 2", "multiple of the other"});
  // Each of four tensor-parallel ranks has 6 heads and one of the two groups.
  resolved(shared(),
           "--world-size 24 --context-parallel-size 6 --tensor-model-parallel-size 4 "
           "--seq-length 60 --global-batch-size 0 " +
               grouped + "2");
  expect_shared_refused(
      "--world-size 16 --context-parallel-size 4 --tensor-model-parallel-size 4 "
      "--global-batch-size 0 " +
          grouped + "2",
      {"= 6 heads are not a multiple of --context-parallel-size 4"});
}

TEST(ContextRules, HierarchiesHaveTwoSizes) {
  const std::string four = "--world-size 4 --context-parallel-size 4 ";
  const std::string both = four + "--cp-comm-type a2a+p2p ";
  const std::string sizes = "--hierarchical-context-parallel-sizes ";
  const TrainConfig c = resolved(shared(), both + sizes + "2 2");
  EXPECT_THAT(c.layout.hierarchical_context_parallel_sizes, ElementsAre(2, 2));
  resolved(shared(), both + sizes + "1 4");
  expect_shared_refused(
      both, {"--cp-comm-type a2a+p2p needs " + sizes + "A B", "--context-parallel-size 4"});
  for (const char* wrong : {"2", "2 2 1", "2 4", "-2 -2", "8 1"}) {
    expect_shared_refused(both + sizes + wrong,
                          {sizes + wrong, "two sizes", "--context-parallel-size 4"});
  }
  expect_shared_refused(four + sizes + "2 2", {sizes + "2 2 is of --cp-comm-type a2a+p2p"});
  // Only the first size shares out heads.
  const std::string six =
      "--world-size 6 --context-parallel-size 6 --cp-comm-type a2a+p2p "
      "--seq-length 60 --global-batch-size 0 ";
  resolved(shared(), six + sizes + "2 3");
  expect_shared_refused(six + sizes + "3 2",
                        {"= 8 heads", "the 3 of --hierarchical-context-parallel-sizes"});
}

TEST(ContextRules, DocumentsAreCutWherePacked) {
  expect_shared_refused("--context-parallel-cut documents",
                        {"--context-parallel-cut documents", "--pack-documents"});
  for (const char* packing : {"greedy", "best-fit"}) {
    const TrainConfig c = resolved(
        shared(), std::string("--context-parallel-cut documents --pack-documents ") + packing);
    EXPECT_EQ(context_cut(c.layout), ContextCut(2, ContextCut::Kind::kDocuments));
    EXPECT_EQ(document_multiple(c.layout), 4);
  }
  const TrainConfig alone = resolved(
      shared(),
      "--context-parallel-cut documents --pack-documents greedy --context-parallel-size 1");
  EXPECT_EQ(document_multiple(alone.layout), 1);
}

TEST(ContextRules, AttentionMustBeFused) {
  expect_shared_refused("--attention-backend unfused",
                        {"--attention-backend unfused", "--context-parallel-size 2"});
}

TEST(ContextRules, OnlyCausalModelsShareSamples) {
  for (const char* family : {"bert", "t5"}) {
    TrainConfig c = with_flags(shared(), std::string("--family ") + family);
    if (c.model.family == "t5") c.data.decoder_seq_length = 32;
    expect_refused(c, "", {"--context-parallel-size 2", "only a GPT's", "give 1"});
    expect_refused(c, "--cp-comm-type a2a", {"--cp-comm-type", "is a flag of gpt"});
  }
}

// All faults are told at once.
TEST(ContextRules, FaultsComeTogether) {
  const std::string text =
      refusal_of(shared(),
                 "--seq-length 62 --attention-backend unfused --context-parallel-cut documents "
                 "--cp-comm-type a2a --num-attention-heads 9 --kv-channels 8 "
                 "--hierarchical-context-parallel-sizes 2 2");
  for (const char* part : {"--seq-length 62", "--attention-backend unfused", "--pack-documents",
                           "= 9 heads", "--hierarchical-context-parallel-sizes 2 2 is of"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(refusal_of(shared()), Not(HasSubstr("--")));
}

TEST(ContextRules, RanksChosenBySampleAreRefusedByName) {
  for (const char* flags : {"--hybrid-context-parallel", "--max-seqlen-per-dp-cp-rank 64"}) {
    const auto parse = [&] { config_tests::parsed(shared(), std::string(kRequired) + flags); };
    EXPECT_THAT(error_of<ConfigError>(parse), AllOf(HasSubstr(std::string(flags).substr(0, 16)),
                                                    HasSubstr("shared out among the same ranks")));
  }
}

}  // namespace
}  // namespace phalanx
