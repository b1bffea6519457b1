#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr std::string_view kMapped = "dataset files are always mapped into memory";

constexpr TrainFlag kUnboundDataRows[] = {
    with_yaml_keys("!mmap_bin_files", passed_over(kData, "--no-mmap-bin-files", kSwitch, kMapped)),
    satisfied_by(
        "mmap infer", kData, "--data-impl", kText, kMapped,
        {"dataset files are mapped into memory, those of MMapIndexedDataset; leave the flag "
         "out",
         kSamePlan}),
    passed_over(kData, "--mmap-warmup", kSwitch, "dataset files are not read ahead",
                "cat FILE.bin > /dev/null before the run does that"),
    passed_over(kData, "--num-dataset-builder-threads", kInteger,
                "the order of samples is the same for any number of threads, and made by one"),
    passed_over(kTokenizer, "--trust-remote-code", kSwitch,
                "no code of a tokenizer's folder is ever run"),
    with_yaml_keys("!create_attention_mask_in_dataloader",
                   satisfied(kData, "--no-create-attention-mask-in-dataloader", kSwitch,
                             "no mask is ever stored: attention knows the positions and documents "
                             "of its rows")),
    satisfied_by("1", kData, "--sample-rate", kReal, "all samples of the training split are used",
                 {"samples are not drawn by chance; leave some out with --split", kSamePlan}),
    {.section = kChat,
     .spec = {.name = "--sft-tokenizer-prompt-format",
              .type = kText,
              .stands_for = "--sft-loss all",
              .state = FlagState::kSatisfied,
              .reason = "the template is the tokenizer's, and prompts are trained, too",
              .satisfied_by = "default",
              .otherwise = "no format has a name here: give --chat-template FILE with the model's "
                           "template (chat_template.jinja of its folder)",
              .planned = kSamePlan}},
    only_default("256", kData, "--retriever-seq-length", kInteger, kRetriever),
};

}  // namespace

std::span<const TrainFlag> unbound_data_flags() { return kUnboundDataRows; }

}  // namespace phalanx
