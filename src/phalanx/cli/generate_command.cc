#include <algorithm>
#include <array>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/family_commands.h"
#include "phalanx/cli/generate.h"

namespace phalanx {
namespace {

void add_text_flags(FlagSet& flags, GenerateOptions& o) {
  flags.section("Text");
  flags.add(
      {.name = "--prompt",
       .help =
           "The beginning of the text, or of several; for a BERT a text with [MASK] where it fills "
           "something in, for a T5 what its encoder reads",
       .value_name = "TEXT",
       .may_be_empty = true,
       .accumulates = true},
      &o.prompts);
  flags.add({.name = "--prompts-file",
             .help = "More of them: a line each, of a .jsonl file {\"prompt\": TEXT}",
             .value_name = "FILE",
             .excludes = "--interactive"},
            &o.prompts_file);
  flags.add({.name = "--interactive",
             .help = "Continues lines of standard input, behind what was said before; /reset or "
                     "an empty line forgets that, /quit or /exit ends, Ctrl-C ends an answer",
             .excludes = "--prompt --json --num-beams"},
            &o.interactive);
  flags.add({.name = "--context",
             .help = "Tokens that --interactive remembers (0: the model's positions)",
             .range = at_least(0),
             .needs = "--interactive"},
            &o.context);
  flags.add({.name = "--parse-special-tokens",
             .help = "Special tokens written in a prompt become their ids"},
            &o.encoding.parse_special);
  flags.add({.name = "--add-special-tokens",
             .help = "Adds the special tokens that the tokenizer puts around a text"},
            &o.encoding.add_special);
  flags.add({.name = "--max-tokens", .help = "Tokens to generate at most", .range = at_least(0)},
            &o.max_tokens);
  flags.add({.name = "--stop",
             .help = "Ends the answer in front of this text; given twice, of each",
             .value_name = "TEXT",
             .excludes = "--num-beams",
             .may_be_empty = true,
             .accumulates = true},
            &o.stops);
  flags.add({.name = "--ignore-eos", .help = "Goes on behind tokens that end a text"},
            &o.ignore_eos);
}

void add_choice_flags(FlagSet& flags, GenerateOptions& o) {
  flags.section("Choice");
  SamplingOptions& sampling = o.sampling;
  flags.add(
      {.name = "--temperature", .help = "0: always the most likely token", .range = at_least(0)},
      &sampling.temperature);
  flags.add(
      {.name = "--top-k",
       .help =
           "Choose among the k most likely tokens (0: all); for a BERT the answers to show (0: 5)",
       .range = at_least(0)},
      &sampling.top_k);
  flags.add({.name = "--top-p",
             .help = "Choose among the most likely tokens of this mass (0: all)",
             .range = from_to(0, 1)},
            &sampling.top_p);
  flags.add({.name = "--min-p",
             .help = "And among those of this share of the most likely one's probability",
             .range = from_to(0, 1)},
            &sampling.min_p);
  flags.add({.name = "--repetition-penalty",
             .help = "Makes tokens that were there less likely, above 1 (1: none)",
             .range = above(0)},
            &sampling.repetition_penalty);
  flags.add({.name = "--seed",
             .help = "Seed of the choices; of several prompts the next has the next seed",
             .range = at_least(0)},
            &o.seed);
  flags.add({.name = "--num-beams",
             .help = "Beam search: the most probable answer of those that so many paths find",
             .range = from_to(1, 1024),
             .excludes = "--temperature --top-k --top-p --min-p --seed"},
            &o.beams);
  flags.add({.name = "--length-penalty",
             .help = "Scores are divided by tokens to this power",
             .needs = "--num-beams"},
            &o.length_penalty);
  flags.add({.name = "--early-stopping",
             .help = "Ends when there are as many answers as beams",
             .needs = "--num-beams"},
            &o.early_stopping);
}

void add_flags(FlagSet& flags, GenerateOptions& o) {
  o.model.add_load_to(flags);
  add_text_flags(flags, o);
  add_chat_flags(flags, o.chat);
  add_choice_flags(flags, o);
  flags.section("Model");
  flags.add({.name = "--batch-prompts",
             .help = "Prompts that are continued at a time; no answer depends on it",
             .range = from_to(1, 1024)},
            &o.batch_size);
  o.model.add_layout_to(flags);
  o.model.add_others_to(flags);
  flags.section("Output");
  flags.add({.name = "--plan", .help = "Prints the memory that it would take, and ends"}, &o.plan);
  flags.add(
      {.name = "--json",
       .help = "One JSON document: the prompt's and the new token ids, the text, for a GPT why it "
               "ended and how fast it was, for a BERT the answers for each mask"},
      &o.json);
  const std::string& command = flags.command();
  flags.add_example(command + " --load RUN --prompt 'In the beginning'", "one text");
  flags.add_example(command + " --load RUN --prompts-file prompts.txt --json",
                    "a text for each line");
  flags.add_example(command + " --load RUN --interactive --stop Q:", "line by line");
  flags.add_example(command + " --load RUN --interactive --chat", "a conversation");
}

// Refuses flags that only a GPT has.
void expect_plain(const FlagSet& flags, std::string_view family) {
  constexpr std::array<std::string_view, 18> kOfGpt = {"--prompts-file",
                                                       "--interactive",
                                                       "--context",
                                                       "--parse-special-tokens",
                                                       "--add-special-tokens",
                                                       "--stop",
                                                       "--ignore-eos",
                                                       "--chat",
                                                       "--system",
                                                       "--chat-template",
                                                       "--chat-template-args",
                                                       "--chat-template-date",
                                                       "--num-beams",
                                                       "--length-penalty",
                                                       "--early-stopping",
                                                       "--batch-prompts",
                                                       "--tensor-model-parallel-size",
                                                       "--plan"};
  for (const std::string_view flag : kOfGpt) {
    if (flags.given(flag)) {
      throw ConfigError("{} is for a GPT, the checkpoint is a {}: leave it out", flag, family);
    }
  }
}

}  // namespace

int run_generate(CommandIo& io, const Arguments& arguments) {
  return generate(io, {"phalanx generate"}, arguments);
}

int generate(CommandIo& io, const ModelCommand& command, const Arguments& arguments) {
  GenerateOptions options;
  options.model = ModelFlags(command.family);
  FlagSet flags(command.name, "Text from a checkpoint.");
  add_flags(flags, options);
  flags.parse(arguments);
  options.sampling.seed = static_cast<std::uint64_t>(options.seed);
  check(options.sampling);
  if (std::ranges::find(options.stops, "") != options.stops.end()) {
    throw ConfigError("--stop is empty, and every answer begins with that: give a text");
  }

  if (options.plan) options.model.only_plans();
  const TrainedModel trained = options.model.open(options.plan ? Verify::kNo : Verify::kWeights);
  const std::string& family = trained.config.model.family;
  if (command.family != nullptr) expect_language_model(command, trained);
  if (trained.goes_on) {
    if (!options.interactive) return continue_texts(io, options, trained);
    return options.chat.is_on ? chat(io, options, trained) : converse(io, options, trained);
  }
  expect_plain(flags, family);
  if (options.prompts.size() > 1) {
    throw ConfigError("--prompt is given {} times: a {} takes one", options.prompts.size(), family);
  }
  if (family == "bert") return fill_masks(io, options, trained);
  if (family == "t5") return answer_text(io, options, trained);
  throw ConfigError("{} is a model that neither goes on with a text nor fills in or answers one",
                    family);
}

}  // namespace phalanx
