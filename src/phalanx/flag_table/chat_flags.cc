#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr TrainFlag kChatRows[] = {
    of_families("gpt", works<&DataConfig::sft>(
                           kChat, "--sft",
                           "Data paths name files of conversations, a line of JSON each, and what "
                           "the assistant says is trained. A sample is whole conversations; each "
                           "is seen alone, its positions begin at 0",
                           {.excludes = "--mock-data --pack-documents --eod-mask-loss "
                                        "--reset-position-ids --reset-attention-mask",
                            .resume = kFixed})),
    of_families(
        "gpt",
        works<&DataConfig::sft_loss>(
            kChat, "--sft-loss",
            "What is trained: what the assistant says, what it says last, everything, or "
            "what is not the prompt, of lines with prompt and completion",
            {.choices = "assistant last all completion", .needs = "--sft", .resume = kFixed})),
    of_families("gpt",
                works<&DataConfig::sft_truncation>(
                    kChat, "--sft-truncation",
                    "A conversation longer than --seq-length ends the run, is left out, or loses "
                    "its end or its start",
                    {.choices = "error drop end start", .needs = "--sft", .resume = kFixed})),
    of_families("gpt",
                works<&DataConfig::sft_packing>(
                    kChat, "--sft-packing",
                    "How conversations share a sample: where they fit best, in file order, or not",
                    {.choices = "best-fit next-fit none", .needs = "--sft", .resume = kFixed})),
    of_families("gpt",
                works<&DataConfig::sft_average>(
                    kChat, "--sft-average",
                    "The loss is the mean of all trained tokens of a global batch, or the mean of "
                    "its conversations' means. Evaluations count tokens",
                    {.choices = "token sample", .needs = "--sft", .resume = kFixed})),
    of_families("gpt", works<&DataConfig::sft_drop_incomplete>(
                           kChat, "--sft-drop-incomplete",
                           "Leave out conversations whose last message is not the assistant's, "
                           "with a warning; without the flag they end the run",
                           {.needs = "--sft", .resume = kFixed})),
    of_families("gpt",
                works<&DataConfig::sft_special_tokens_in_content>(
                    kChat, "--sft-special-tokens-in-content",
                    "A message with the text of a special token in it ends the run, or that text "
                    "becomes the token, as the library transformers has it",
                    {.choices = "refuse parse", .needs = "--sft", .resume = kFixed})),
    of_families("gpt", works<&DataConfig::chat_template>(
                           kChat, "--chat-template",
                           "The chat template (Jinja), instead of the one beside the tokenizer; "
                           "the same one on resume",
                           {.value_name = "FILE", .needs = "--sft"})),
    of_families("gpt", works<&DataConfig::chat_template_args>(
                           kChat, "--chat-template-args",
                           "Further variables of the template, a JSON object",
                           {.value_name = "JSON", .needs = "--sft", .resume = kFixed})),
    of_families("gpt", works<&DataConfig::chat_template_date>(
                           kChat, "--chat-template-date",
                           "The day of a template that asks for today's, YYYY-MM-DD",
                           {.value_name = "DAY", .needs = "--sft", .resume = kFixed})),
    of_families("gpt",
                works<&RunConfig::answer_prompts>(
                    kChat, "--answer-prompts",
                    "Conversations, a line of JSON each, whose last message is the assistant's: "
                    "the model answers what is before it while it is trained, and log, "
                    "metrics.jsonl and report.html have both",
                    {.value_name = "FILE", .needs = "--sft"})),
    of_families("gpt",
                works<&RunConfig::answer_interval>(
                    kChat, "--answer-interval", "Iterations between answers (0: --eval-interval)",
                    {.range = at_least(0), .needs = "--answer-prompts"})),
    of_families("gpt", works<&RunConfig::answer_tokens>(
                           kChat, "--answer-tokens", "Tokens of an answer, at most",
                           {.range = from_to(1, kMostInt32), .needs = "--answer-prompts"})),
};

}  // namespace

std::span<const TrainFlag> chat_flags() { return kChatRows; }

}  // namespace phalanx
