#include "phalanx/chat_data/chat_sources.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "phalanx/base/text_batches.h"
#include "phalanx/chat_data/test_support.h"
#include "phalanx/data/indexed_dataset.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kBare =
    "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}";

class ChatSourcesTest : public ConversationTest {
 protected:
  ChatSourceOptions source_options(std::int64_t rows) const {
    return {.samples = {.schema = gpt_batch_schema(rows),
                        .batch = {},
                        .sequence_length = rows,
                        .vocabulary_size = tokenizer_.vocab_size(),
                        .order = DataOrder::kSequential,
                        .packing = DocumentPacking::kBestFit},
            .conversations = options(kBare)};
  }
  std::shared_ptr<const SampleSource> source(const ChatSourceOptions& options,
                                             const DataBlend& blend,
                                             const SourceRequest& request = {}) const {
    return ChatSources(tokenizer_, options).make(blend, request);
  }
  // Columns of a sample, one number a row.
  struct Rows {
    std::vector<std::int32_t> tokens, labels, position_ids, position, document;
    std::vector<float> loss_mask;
    double count = 0.0;
  };
  static Rows rows_of(const SampleSource& source, std::int64_t i) {
    Sample sample(source.schema());
    Rows rows;
    source.fetch(i, sample, {&rows.count, 1});
    const auto get = [&]<typename T>(const char* name, std::vector<T>& to) {
      const auto column = sample.column<T>(source.schema().index(name));
      to.assign(column.begin(), column.end());
    };
    get("tokens", rows.tokens);
    get("labels", rows.labels);
    get("position_ids", rows.position_ids);
    get("position", rows.position);
    get("document", rows.document);
    get("loss_mask", rows.loss_mask);
    return rows;
  }
  // The first letters of the conversations of all samples, in order.
  static std::string beginnings(const SampleSource& source) {
    std::string letters;
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const Rows rows = rows_of(source, i);
      for (std::size_t row = 0; row < rows.tokens.size(); ++row) {
        if (rows.document[row] < 0 || rows.position_ids[row] != 0) continue;
        letters += static_cast<char>(rows.tokens[row]);
      }
    }
    return letters;
  }
};

// "qr" and "s<|im_end|>", "t" and "uvw<|im_end|>": 4 and 5 tokens.
TEST_F(ChatSourcesTest, RowsOfAPack) {
  const std::string file = write("c.jsonl", {line("qr", "s"), line("t", "uvw")});
  const auto packed = source(source_options(11), {.prefixes = {file}, .weights = {}});
  ASSERT_EQ(packed->size(), 1);
  const Rows rows = rows_of(*packed, 0);
  constexpr int kEnd = 259;
  EXPECT_THAT(rows.tokens, ElementsAre('t', 'u', 'v', 'w', kEnd, 'q', 'r', 's', kEnd, 0, 0));
  EXPECT_THAT(rows.labels, ElementsAre('u', 'v', 'w', kEnd, 0, 'r', 's', kEnd, 0, 0, 0));
  EXPECT_THAT(rows.loss_mask, ElementsAre(1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0));
  EXPECT_THAT(rows.position_ids, ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0));
  EXPECT_THAT(rows.position, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(rows.document, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1));
  EXPECT_EQ(rows.count, 6);
}

// For ranks of a context that cut documents.
TEST_F(ChatSourcesTest, ConversationsTakeAMultipleOfRows) {
  const std::string file = write("c.jsonl", {line("qr", "s"), line("t", "uvw")});
  ChatSourceOptions options = source_options(12);
  options.samples.document_multiple = 4;
  const Rows rows = rows_of(*source(options, {.prefixes = {file}, .weights = {}}), 0);
  EXPECT_THAT(rows.document, ElementsAre(0, 0, 0, 0, 0, -1, -1, -1, 1, 1, 1, 1));
  EXPECT_THAT(rows.loss_mask, ElementsAre(1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0));
}

TEST_F(ChatSourcesTest, WaysOfPacking) {
  const std::string file =
      write("c.jsonl", {line("a", "12"), line("b", "1"), line("c", "1234"), line("d", "1")});
  const auto letters = [&](DocumentPacking packing, std::int64_t samples) {
    ChatSourceOptions options = source_options(7);
    options.samples.packing = packing;
    const auto made = source(options, {.prefixes = {file}, .weights = {}});
    EXPECT_EQ(made->size(), samples);
    return beginnings(*made);
  };
  EXPECT_EQ(letters(DocumentPacking::kBestFit, 3), "cabd");
  EXPECT_EQ(letters(DocumentPacking::kGreedy, 3), "abcd");
  EXPECT_EQ(letters(DocumentPacking::kSingle, 4), "abcd");
}

// Training weighs conversations, evaluations count tokens.
TEST_F(ChatSourcesTest, AveragesOfConversations) {
  const std::string file = write("c.jsonl", {line("qr", "s"), line("t", "uvw")});
  ChatSourceOptions options = source_options(9);
  options.samples.batch.averages_documents = true;
  const DataBlend blend{.prefixes = {file}, .weights = {}};
  const Rows trained = rows_of(*source(options, blend), 0);
  EXPECT_THAT(trained.loss_mask, ElementsAre(0.25, 0.25, 0.25, 0.25, 0, 0, 0.5, 0.5, 0));
  EXPECT_EQ(trained.count, 2);
  const Rows valid = rows_of(*source(options, blend, {.kind = SplitKind::kValid}), 0);
  EXPECT_THAT(valid.loss_mask, ElementsAre(1, 1, 1, 1, 0, 0, 1, 1, 0));
  EXPECT_EQ(valid.count, 6);
}

TEST_F(ChatSourcesTest, LongConversations) {
  // 3, 9 and 3 tokens.
  const std::string file = write("c.jsonl", {line("a", "b"), line("cdefg", "hij"), line("k", "l")});
  const auto chosen = [&](Truncation truncation, std::int64_t rows) {
    const auto all = read(file, options(kBare));
    const std::vector<std::uint32_t> numbers = {0, 1, 2};
    return ChosenConversations(all, numbers, rows, truncation);
  };
  const auto ids = [](const ChosenConversations& some, std::int64_t i) {
    std::vector<std::int32_t> found(static_cast<std::size_t>(some.length(i)));
    some.get(i, 0, found);
    return found;
  };
  const ChosenConversations dropped = chosen(Truncation::kDrop, 8);
  EXPECT_EQ(dropped.counts().too_long, 1);
  EXPECT_EQ(dropped.counts().conversations, 2);
  EXPECT_EQ(dropped.number(1), 2);

  const ChosenConversations end = chosen(Truncation::kEnd, 7);
  EXPECT_EQ(end.counts().cut, 1);
  EXPECT_EQ(ids(end, 1), (std::vector<std::int32_t>{'c', 'd', 'e', 'f', 'g', 'h', 'i'}));
  EXPECT_THAT(end.trained(1), ElementsAre(0, 0, 0, 0, 0, 1, 1));

  // Nothing of the answer is left.
  const ChosenConversations prompt = chosen(Truncation::kEnd, 5);
  EXPECT_EQ(prompt.counts().untrained, 1);
  EXPECT_EQ(prompt.counts().cut, 0);

  const ChosenConversations start = chosen(Truncation::kStart, 3);
  EXPECT_EQ(start.counts().cut, 1);
  EXPECT_EQ(ids(start, 1), (std::vector<std::int32_t>{'i', 'j', 259}));
  EXPECT_THAT(start.trained(1), ElementsAre(1, 1, 1));
  EXPECT_EQ(start.counts().trained_labels, 2 + 2 + 2);
  // The first token that is kept is of the prompt, and is no label.
  EXPECT_EQ(chosen(Truncation::kStart, 5).counts().trained_labels, 2 + 4 + 2);

  EXPECT_THAT(error_of<ConfigError>([&] { chosen(Truncation::kError, 8); }),
              AllOf(HasSubstr("c.jsonl:2: 9 tokens are more than --seq-length 8"),
                    HasSubstr("--sft-truncation drop")));
  ChatSourceOptions options = source_options(2);
  EXPECT_THAT(error_of<ConfigError>([&] { source(options, {.prefixes = {file}, .weights = {}}); }),
              HasSubstr("none of these conversations is left: 3 are longer than --seq-length 2"));
}

// Held-out conversations come from everywhere in the file, and each is in one part.
TEST_F(ChatSourcesTest, ASplitTakesConversationsFromEverywhere) {
  std::vector<std::string> lines;
  for (char letter = 'a'; letter <= 'z'; ++letter) lines.push_back(line({letter}, "1"));
  const std::string file = write("c.jsonl", lines);
  const auto part = [&](SplitKind kind, std::uint32_t seed) {
    ChatSourceOptions options = source_options(3);
    options.samples.seed = seed;
    return beginnings(*source(options, {.prefixes = {file}, .weights = {}},
                              {.kind = kind, .split = Split("80,20")}));
  };
  const std::string train = part(SplitKind::kTrain, 1);
  const std::string valid = part(SplitKind::kValid, 1);
  EXPECT_EQ(valid.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(train));
  EXPECT_LT(valid.front(), 'v');
  std::set<char> all(train.begin(), train.end());
  all.insert(valid.begin(), valid.end());
  EXPECT_EQ(all.size(), 26U);
  EXPECT_EQ(valid, part(SplitKind::kValid, 1));
  EXPECT_NE(valid, part(SplitKind::kValid, 2));
}

TEST_F(ChatSourcesTest, EpochsAndBlends) {
  const std::string file = write("c.jsonl", {line("a", "1"), line("b", "1"), line("c", "1")});
  const std::string other = write("d.jsonl", {line("x", "1")});
  ChatSourceOptions options = source_options(3);
  options.samples.order = DataOrder::kMegatron;
  const auto epochs = source(options, {.prefixes = {file}, .weights = {}}, {.samples = 9});
  const std::string letters = beginnings(*epochs);
  ASSERT_EQ(letters.size(), 9U);
  for (std::size_t epoch = 0; epoch < 9; epoch += 3) {
    std::string sorted = letters.substr(epoch, 3);
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, "abc");
  }
  const std::string blend =
      beginnings(*source(options, {.prefixes = {file, other}, .weights = {1, 1}}, {.samples = 12}));
  EXPECT_EQ(std::ranges::count(blend, 'x'), 6);
}

TEST_F(ChatSourcesTest, CountsAllFiles) {
  const std::string file = write("c.jsonl", {line("a", "1"), line("b", "22")});
  ChatSources sources(tokenizer_, source_options(8));
  sources.make({.prefixes = {file}, .weights = {}}, {});
  EXPECT_EQ(sources.documents(), 2);
  EXPECT_EQ(sources.tokens(), 3 + 4);
  EXPECT_THROW(sources.make_mock({}), ConfigError);
}

}  // namespace
}  // namespace phalanx
