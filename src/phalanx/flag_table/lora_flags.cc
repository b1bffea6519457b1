// Low-rank adapters.

#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

// Adapters of another shape or scale are other weights; a new run may begin with its own. What
// needs --lora-rank is in rules/lora_rules.cc, because a command may have a rank of its own.
constexpr TrainFlag kLoraRows[] = {
    of_families("gpt", works<&LoraConfig::rank>(
                           kAdapters, "--lora-rank",
                           "Train adapters of this rank beside the linears of layers, and nothing "
                           "else but what --trainable names (0: off)",
                           {.range = from_to(0, kMostInt32), .resume = kFixed})),
    of_families("gpt", works<&LoraConfig::alpha>(
                           kAdapters, "--lora-alpha",
                           "Adapters are added times this over the rank; often twice the rank",
                           {.range = above(0), .resume = kFixed})),
    of_families("gpt", works<&LoraConfig::dropout>(
                           kAdapters, "--lora-dropout", "Dropout of the input of adapters",
                           {.range = share_below_one(), .resume = kWarned})),
    of_families("gpt", works<&LoraConfig::targets>(
                           kAdapters, "--lora-targets",
                           "Where adapters are: at parts of linears; qkv and fc1 are one adapter "
                           "for all parts of these linears",
                           {.value_name = "PART",
                            .choices = "q k v o gate up down qkv fc1 all-linear",
                            .accumulates = true,
                            .resume = kFixed})),
    of_families("gpt", works<&LoraConfig::scaling>(
                           kAdapters, "--lora-scaling",
                           "Adapters are added times alpha over the rank, or over its square root",
                           {.choices = "standard rank-stabilized", .resume = kFixed})),
    of_families("gpt",
                works<&LoraConfig::layers>(kAdapters, "--lora-layers",
                                           "Layers with adapters, from 0: 0-3,7 (not given: all)",
                                           {.value_name = "LAYERS", .resume = kFixed})),
    of_families("gpt", works<&LoraConfig::init>(
                           kAdapters, "--lora-init",
                           "How the first factor of adapters begins; the second one is zero",
                           {.choices = "uniform gaussian"})),
    of_families("gpt", works<&LoraConfig::load>(
                           kAdapters, "--lora-load",
                           "A new run begins with these adapters: a checkpoint's, or those of a "
                           "folder of peft's",
                           {.value_name = "DIR"})),
    of_families(
        "gpt", works<&LoraConfig::base>(kAdapters, "--lora-base",
                                        "Where the base of the loaded adapters is, if it was moved",
                                        {.value_name = "DIR"})),
};

}  // namespace

std::span<const TrainFlag> lora_flags() { return kLoraRows; }

}  // namespace phalanx
