#include "phalanx/train/flags/bound.h"
#include "phalanx/train/flags/sections.h"

namespace phalanx {
namespace {

constexpr TrainFlag kDataRows[] = {
    works<&DataConfig::data_path>(kData,
                                  {.name = "--data-path",
                                   .help = "Prefix of a .bin/.idx dataset, the same one on resume",
                                   .value_name = "PREFIX",
                                   .required_to_train = true}),
    works<&DataConfig::split>(kData, {.name = "--split",
                                      .type = FlagType::kNumbers,
                                      .help = "Shares of training, validation and test data",
                                      .resume = ResumeClass::kFixed}),
    works<&DataConfig::seq_length>(kData, {.name = "--seq-length",
                                           .aliases = "--encoder-seq-length",
                                           .help = "Tokens of a sample",
                                           .required = true,
                                           .range = from_to(1, kMostInt32),
                                           .resume = ResumeClass::kFixed}),
    works<&DataConfig::data_order>(kData, {.name = "--data-order",
                                           .help = "Shuffled, or windows in file order",
                                           .choices = "megatron sequential",
                                           .resume = ResumeClass::kFixed}),
    works<&DataConfig::data_cache_path>(
        kData, {.name = "--data-cache-path",
                .help = "Directory that keeps the order of samples between runs; without it, it is "
                        "made in memory at every start (Megatron: beside the data)",
                .value_name = "DIR"}),
    works<&DataConfig::eod_mask_loss>(kData, {.name = "--eod-mask-loss",
                                              .help = "No loss on end-of-document tokens",
                                              .resume = ResumeClass::kFixed}),
    works<&DataConfig::reset_position_ids>(kData,
                                           {.name = "--reset-position-ids",
                                            .help = "Positions restart after end-of-document",
                                            .resume = ResumeClass::kFixed}),
    works<&DataConfig::reset_attention_mask>(kData, {.name = "--reset-attention-mask",
                                                     .help = "Attention stays within a document",
                                                     .resume = ResumeClass::kFixed}),
    works<&DataConfig::num_workers>(
        kData,
        {.name = "--num-workers",
         .help = "Threads of every rank that reads data, which read a global batch ahead; 0: "
                 "none, and the step reads",
         .range = from_to(0, 1024)}),
};

}  // namespace

std::span<const TrainFlag> data_flags() { return kDataRows; }

}  // namespace phalanx
