#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

constexpr TrainFlag kDataRows[] = {
    works<&DataConfig::data_path>(
        kData,
        {.name = "--data-path",
         .help = "Prefixes of .bin/.idx datasets, the same ones on resume: one; WEIGHT PREFIX "
                 "WEIGHT PREFIX ... for a blend; or several, each sample at most once",
         .value_name = "PREFIX",
         .required_to_train = true,
         .required_unless = "--train-data-path --data-args-path --per-split-data-args-path "
                            "--mock-data"}),
    works<&DataConfig::train_data_path>(
        kData, {.name = "--train-data-path",
                .aliases = "--train-data",
                .help = "As --data-path, of training data alone: all of each dataset",
                .value_name = "PREFIX",
                .excludes = "--split"}),
    works<&DataConfig::valid_data_path>(kData, {.name = "--valid-data-path",
                                                .aliases = "--valid-data",
                                                .help = "As --data-path, of validation data alone",
                                                .value_name = "PREFIX",
                                                .excludes = "--split"}),
    works<&DataConfig::test_data_path>(kData, {.name = "--test-data-path",
                                               .help = "As --data-path, of test data alone",
                                               .value_name = "PREFIX",
                                               .excludes = "--split"}),
    works<&DataConfig::data_args_path>(
        kData, {.name = "--data-args-path",
                .help = "A file with the words of --data-path, where they are too many for a "
                        "command line",
                .value_name = "FILE"}),
    works<&DataConfig::per_split_data_args_path>(
        kData, {.name = "--per-split-data-args-path",
                .help = "A file of JSON, {\"train\": [...], \"valid\": [...], \"test\": [...]}: "
                        "each the words of --train-data-path, ...",
                .value_name = "FILE",
                .excludes = "--split"}),
    works<&DataConfig::mock_data>(
        kData, {.name = "--mock-data",
                .help = "Made-up documents, Megatron's: 1, 2, 3, ... and end-of-document",
                .resume = ResumeClass::kFixed}),
    works<&DataConfig::dataloader_type>(
        kData, {.name = "--dataloader-type",
                .help = "Samples in one order, or in a new one each epoch, which depends on micro "
                        "batch and data-parallel size (torch's permutations: --seed has no part "
                        "in them)",
                .choices = "single cyclic",
                .resume = ResumeClass::kFixed}),
    works<&DataConfig::no_data_sharding>(
        kData, {.name = "--no-data-sharding",
                .help = "A cyclic order goes over all samples; without the flag each data-parallel "
                        "rank has a part of its own",
                .resume = ResumeClass::kFixed}),
    works<&DataConfig::full_validation>(
        kValidation, {.name = "--full-validation",
                      .help = "An evaluation reads all validation data once, not --eval-iters "
                              "batches",
                      .resume = ResumeClass::kWarned}),
    works<&DataConfig::multiple_validation_sets>(
        kValidation, {.name = "--multiple-validation-sets",
                      .help = "Each prefix of --valid-data-path is a validation set by itself",
                      .resume = ResumeClass::kWarned}),
    works<&DataConfig::split>(kData, {.name = "--split",
                                      .type = FlagType::kNumbers,
                                      .help = "Shares of training, validation and test data",
                                      .resume = ResumeClass::kFixed}),
    works<&DataConfig::seq_length>(kData, {.name = "--seq-length",
                                           .help = "Tokens of a sample; of T5, the encoder's",
                                           .required = true,
                                           .range = from_to(1, kMostInt32),
                                           .resume = ResumeClass::kFixed}),
    {.section = kData,
     .spec = {.name = "--encoder-seq-length",
              .type = FlagType::kInteger,
              .help = "The same as --seq-length, which is the encoder's of a T5",
              .stands_for = "--seq-length @",
              .range = from_to(1, kMostInt32)}},
    of_families("t5", works<&DataConfig::decoder_seq_length>(
                          kData, {.name = "--decoder-seq-length",
                                  .help = "T5: tokens of a sample that the decoder reads",
                                  .range = from_to(0, kMostInt32),
                                  .resume = ResumeClass::kFixed})),
    of_families("bert t5", works<&DataConfig::mask_prob>(
                               kData, {.name = "--mask-prob",
                                       .help = "Share of the tokens that BERT and T5 guess",
                                       .range = share_between(),
                                       .resume = ResumeClass::kFixed})),
    of_families("bert t5",
                works<&DataConfig::short_seq_prob>(
                    kData, {.name = "--short-seq-prob",
                            .help = "How often a sample of BERT or T5 is cut short, to a random "
                                    "length",
                            .range = from_to(0, 1),
                            .resume = ResumeClass::kFixed})),
    of_families("gpt",
                works<&DataConfig::data_order>(kData, {.name = "--data-order",
                                                       .help = "Shuffled, or windows in file order",
                                                       .choices = "megatron sequential",
                                                       .resume = ResumeClass::kFixed})),
    works<&DataConfig::data_cache_path>(
        kData, {.name = "--data-cache-path",
                .help = "Directory that keeps the order of samples between runs; without it, it is "
                        "made in memory at every start (Megatron: beside the data)",
                .value_name = "DIR"}),
    of_families("gpt", works<&DataConfig::eod_mask_loss>(
                           kData, {.name = "--eod-mask-loss",
                                   .help = "No loss on end-of-document tokens",
                                   .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&DataConfig::reset_position_ids>(
                           kData, {.name = "--reset-position-ids",
                                   .help = "Positions restart after end-of-document",
                                   .resume = ResumeClass::kFixed})),
    of_families("gpt", works<&DataConfig::reset_attention_mask>(
                           kData, {.name = "--reset-attention-mask",
                                   .help = "Attention stays within a document",
                                   .resume = ResumeClass::kFixed})),
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
