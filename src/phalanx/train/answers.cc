#include "phalanx/train/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "phalanx/inference/generation.h"
#include "phalanx/inference/run_answers.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// Gathers the tokens of one answer.
class Collected final : public GenerationListener {
 public:
  Collected(const AnswerPrompts& prompts, RankWatch& watch) : prompts_(prompts), watch_(watch) {}

  bool on_token(std::size_t /*request*/, std::int32_t token) override {
    watch_.tick();
    is_ended_ = std::ranges::find(prompts_.ends, token) != prompts_.ends.end();
    if (!is_ended_) tokens_.push_back(token);
    return !is_ended_;
  }
  bool is_ended() const { return is_ended_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  const AnswerPrompts& prompts_;
  RankWatch& watch_;
  std::vector<std::int32_t> tokens_;
  bool is_ended_ = false;
};

// Ids that the tokenizer does not have, but the model has, have no text.
std::string text_of(const Tokenizer& tokenizer, std::vector<std::int32_t> ids) {
  std::erase_if(ids, [&](std::int32_t id) { return id >= tokenizer.vocab_size(); });
  return tokenizer.decode(ids);
}

}  // namespace

Answers::Answers(const RunSetup& setup, const StopToken& stop, Rank& rank, RankWatch& watch,
                 RunLog& log)
    : setup_(setup), stop_(stop), rank_(rank), watch_(watch), log_(log) {
  if (!setup.answers) return;
  Arena& arena = rank.arenas()["answers"];
  const Tensor memory = arena.allocate(DType::kU8, {arena.capacity()});
  if (rank.ranks().world->rank() != 0) return;
  model_ = std::make_unique<LentModel>(
      answering_model(setup.config, setup.tokenizer->vocab_size()), answer_positions(setup.config),
      setup.device.choice(), static_cast<int>(setup.config.layout.threads_per_rank),
      LentModel::Lender{.backend = rank.context().backend,
                        .table = rank.table(),
                        .weights = rank.parameters().weights().tensors},
      memory);
}

void Answers::after(const RunState& state) {
  const std::int64_t interval = answer_interval(setup_.config.run);
  const bool is_last = state.iteration == setup_.length.last_iteration();
  if (interval == 0 || (state.iteration % interval != 0 && !is_last) || stop_() != 0) return;
  // Weights may still be on their way from the ranks that have updated them.
  rank_.finish_gather();
  if (model_ == nullptr) return;
  const auto busy = rank_.ranks().control->busy(
      fmt::format("answering the prompts of --answer-prompts after iteration {}", state.iteration));
  log_.answers(answered(state));
}

AnswersReport Answers::answered(const RunState& state) {
  AnswersReport report{.iteration = state.iteration,
                       .consumed_samples = state.consumed_train_samples,
                       .answers = {}};
  const Tokenizer& tokenizer = *setup_.tokenizer;
  for (const AnswerPrompt& prompt : setup_.answers->prompts) {
    const GenerationRequest request{.prompt = prompt.ids,
                                    .most = setup_.config.run.answer_tokens,
                                    .sampling = {.temperature = 0}};
    Collected collected(*setup_.answers, watch_);
    model_->truncate(0, 0);
    generate(*model_, std::span(&request, 1), collected);
    AnswersReport::Answer answer{.messages = {},
                                 .expected = prompt.expected,
                                 .text = text_of(tokenizer, collected.tokens()),
                                 .is_ended = collected.is_ended()};
    for (const ChatMessage& message : prompt.messages) {
      answer.messages.emplace_back(message.role, message.content);
    }
    report.answers.push_back(std::move(answer));
  }
  return report;
}

}  // namespace phalanx
