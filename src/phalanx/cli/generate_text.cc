// Continues prompts with a GPT. The answer of the first unfinished prompt is shown as it comes;
// those of later prompts wait for their turn.

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>

#include "phalanx/base/log.h"
#include "phalanx/cli/generate_parts.h"
#include "phalanx/cli/generate_prompts.h"
#include "phalanx/inference/beam_search.h"
#include "phalanx/tasks/answer_text.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStopping =
    "SIGINT: ending with what there is; press Ctrl-C again to end at once\n";

// The answer to a prompt.
struct Answer {
  std::vector<std::int32_t> tokens;
  std::string text;
  std::string finish = {};  // why it has ended; empty: it has not
};

// Shows texts in the order of their prompts.
class Pages {
 public:
  Pages(CommandIo& io, std::span<const GeneratePrompt> prompts, bool silent)
      : io_(io), prompts_(prompts), silent_(silent) {
    waiting_.resize(prompts.size());
    ended_.resize(prompts.size());
    begin_page();
  }

  void write(std::size_t page, std::string_view text) {
    if (page == turn_) {
      show(text);
    } else {
      waiting_[page] += text;
    }
  }
  void end(std::size_t page) {
    ended_[page] = true;
    while (turn_ < prompts_.size() && ended_[turn_]) {
      show("\n");
      ++turn_;
      begin_page();
    }
  }

 private:
  void show(std::string_view text) const {
    if (!silent_ && !text.empty()) io_.write(text);
  }
  void begin_page() {
    if (turn_ >= prompts_.size()) return;
    if (turn_ > 0) show("\n");
    // Of a conversation only the answer.
    if (prompts_[turn_].messages.empty()) show(prompts_[turn_].text);
    show(waiting_[turn_]);
  }

  CommandIo& io_;
  std::span<const GeneratePrompt> prompts_;
  bool silent_;
  std::size_t turn_ = 0;
  std::vector<std::string> waiting_;
  std::vector<bool> ended_;
};

class Answers final : public GenerationListener {
 public:
  Answers(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
          const GeneratePrompts& prompts)
      : ends_(end_tokens(options, trained, prompts.end_of_turn)),
        signals_(io.listen(kStopping)),
        pages_(io, prompts.all, options.json),
        answers_(prompts.all.size()) {
    for (const GeneratePrompt& prompt : prompts.all) {
      texts_.emplace_back(*trained.tokenizer, prompt.ids, options.stops);
    }
  }

  bool on_token(std::size_t request, std::int32_t token) override {
    Answer& answer = answers_[request];
    if (std::ranges::find(ends_, token) != ends_.end()) {
      answer.finish = "end";
      return false;
    }
    answer.tokens.push_back(token);
    pages_.write(request, texts_[request].add(token));
    if (texts_[request].is_stopped()) {
      answer.finish = "stop";
    } else if (interrupted()) {
      answer.finish = "interrupted";
    } else {
      return true;
    }
    return false;
  }

  void on_end(std::size_t request) override {
    pages_.write(request, texts_[request].finish());
    answers_[request].text = texts_[request].text();
    if (answers_[request].finish.empty()) answers_[request].finish = "length";
    pages_.end(request);
  }

  // Adds an answer that is complete.
  void add(std::size_t request, const BeamAnswer& found) {
    for (const std::int32_t token : found.tokens) {
      if (!on_token(request, token)) break;
    }
    if (found.ended) answers_[request].finish = "end";
    on_end(request);
  }

  bool goes_on() override { return !interrupted(); }

  bool interrupted() const { return signals_->received() != 0; }
  int signal() const { return signals_->received(); }
  const std::vector<std::int32_t>& ends() const { return ends_; }
  const Answer& operator[](std::size_t request) const { return answers_[request]; }

 private:
  std::vector<std::int32_t> ends_;
  std::unique_ptr<StopRequests> signals_;
  Pages pages_;
  std::deque<AnswerText> texts_;
  std::vector<Answer> answers_;
};

CachedModel::Sizes sizes_of(const GenerateOptions& options, std::span<const GeneratePrompt> prompts,
                            std::int64_t positions) {
  CachedModel::Sizes sizes;
  for (const GeneratePrompt& prompt : prompts) {
    const std::int64_t length = std::ssize(prompt.ids);
    sizes.reads.push_back(length);
    sizes.capacity = std::max(sizes.capacity, std::min(positions, length + options.max_tokens));
  }
  const auto together = static_cast<std::int64_t>(prompts.size());
  sizes.sequences =
      static_cast<int>(options.beams > 1 ? options.beams : std::min(together, options.batch_size));
  return sizes;
}

GenerationRates sample(const GenerateOptions& options, std::span<const GeneratePrompt> prompts,
                       SequenceModel& model, Answers& answers) {
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    SamplingOptions sampling = options.sampling;
    sampling.seed += i;
    requests.push_back(
        {.prompt = prompts[i].ids, .most = options.max_tokens, .sampling = sampling});
  }
  return generate(model, requests, answers);
}

GenerationRates search(const GenerateOptions& options, std::span<const GeneratePrompt> prompts,
                       SequenceModel& model, Answers& answers) {
  const BeamOptions beams{.beams = static_cast<int>(options.beams),
                          .length_penalty = options.length_penalty,
                          .early_stopping = options.early_stopping,
                          .repetition_penalty = options.sampling.repetition_penalty,
                          .end_tokens = answers.ends()};
  GenerationRates rates;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    BeamAnswer found;
    if (options.max_tokens > 0 && !answers.interrupted()) {
      found = beam_search(model, prompts[i].ids, options.max_tokens, beams, rates,
                          [&] { return !answers.interrupted(); });
    }
    answers.add(i, found);
  }
  return rates;
}

Json json_of(const GeneratePrompt& prompt, const Answer& answer) {
  Json json = Json::object();
  for (const ChatMessage& message : prompt.messages) {
    json["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  json["prompt"] = prompt.ids;
  json["tokens"] = answer.tokens;
  json["text"] = answer.text;
  json["finish"] = answer.finish.empty() ? "interrupted" : answer.finish;
  return json;
}

void print_json(CommandIo& io, std::span<const GeneratePrompt> prompts, const Answers& answers,
                const GenerationRates& rates) {
  Json document;
  if (prompts.size() == 1) {
    document = json_of(prompts[0], answers[0]);
  } else {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      document["answers"].push_back(json_of(prompts[i], answers[i]));
    }
  }
  document["rates"] = {{"prompt_tokens", rates.prompt_tokens},
                       {"prompt_seconds", rates.prompt_seconds},
                       {"decoded_tokens", rates.decoded_tokens},
                       {"decode_seconds", rates.decode_seconds}};
  io.write(document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

int continue_texts(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained) {
  const GeneratePrompts read = read_prompts(options, trained);
  const std::span<const GeneratePrompt> prompts = read.all;
  const auto model = plan_model(trained, sizes_of(options, prompts, trained.model.max_positions));
  if (options.plan) {
    print_plan(io, options, trained, *model);
    return 0;
  }
  load_model(trained, *model,
             "Give fewer --max-tokens, a smaller --batch-prompts or end other programs");
  Answers answers(io, options, trained, read);
  const GenerationRates rates = options.beams > 1 ? search(options, prompts, *model, answers)
                                                  : sample(options, prompts, *model, answers);
  if (options.json) {
    print_json(io, prompts, answers, rates);
  } else if (answers.interrupted()) {
    io.write("\n");
  }
  log_info("{}", text_of(rates));
  constexpr int kEndedBySignal = 128;  // and its number, as shells say it
  return answers.interrupted() ? kEndedBySignal + answers.signal() : 0;
}

}  // namespace phalanx
