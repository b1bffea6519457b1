#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr TrainFlag kDataRows[] = {
    works<&DataConfig::data_path>(
        kData, "--data-path",
        "Prefixes of .bin/.idx datasets, the same ones on resume: one; WEIGHT PREFIX WEIGHT PREFIX "
        "... for a blend; or several, each sample at most once",
        {.value_name = "PREFIX",
         .required_to_train = true,
         .required_unless =
             "--train-data-path --data-args-path --per-split-data-args-path --mock-data"}),
    works<&DataConfig::train_data_path>(
        kData, "--train-data-path", "As --data-path, of training data alone: all of each dataset",
        {.aliases = "--train-data", .value_name = "PREFIX", .excludes = "--split"}),
    works<&DataConfig::valid_data_path>(
        kData, "--valid-data-path", "As --data-path, of validation data alone",
        {.aliases = "--valid-data", .value_name = "PREFIX", .excludes = "--split"}),
    works<&DataConfig::test_data_path>(kData, "--test-data-path",
                                       "As --data-path, of test data alone",
                                       {.value_name = "PREFIX", .excludes = "--split"}),
    works<&DataConfig::data_args_path>(
        kData, "--data-args-path",
        "A file with the words of --data-path, where they are too many for a command line",
        {.value_name = "FILE"}),
    works<&DataConfig::per_split_data_args_path>(
        kData, "--per-split-data-args-path",
        "A file of JSON, {\"train\": [...], \"valid\": [...], \"test\": [...]}: each the words of "
        "--train-data-path, ...",
        {.value_name = "FILE", .excludes = "--split"}),
    works<&DataConfig::mock_data>(kData, "--mock-data",
                                  "Made-up documents, Megatron's: 1, 2, 3, ... and end-of-document",
                                  {.resume = kFixed}),
    works<&DataConfig::dataloader_type>(
        kData, "--dataloader-type",
        "Samples in one order, or in a new one each epoch, which depends on micro batch and "
        "data-parallel size (torch's permutations: --seed has no part in them)",
        {.choices = "single cyclic", .resume = kFixed}),
    works<&DataConfig::no_data_sharding>(kData, "--no-data-sharding",
                                         "A cyclic order goes over all samples; without the flag "
                                         "each data-parallel rank has a part of its own",
                                         {.resume = kFixed}),
    works<&DataConfig::full_validation>(
        kValidation, "--full-validation",
        "An evaluation reads all validation data once, not --eval-iters batches",
        {.resume = kWarned}),
    works<&DataConfig::multiple_validation_sets>(
        kValidation, "--multiple-validation-sets",
        "Each prefix of --valid-data-path is a validation set by itself", {.resume = kWarned}),
    works<&DataConfig::split>(kData, "--split", "Shares of training, validation and test data",
                              {.type = FlagType::kNumbers, .resume = kFixed}),
    works<&DataConfig::seq_length>(
        kData, "--seq-length", "Tokens of a sample; of T5, the encoder's",
        {.required = true, .range = from_to(1, kMostInt32), .resume = kFixed}),
    {.section = kData,
     .spec = {.name = "--encoder-seq-length",
              .type = FlagType::kInteger,
              .help = "The same as --seq-length, which is the encoder's of a T5",
              .stands_for = "--seq-length @",
              .range = from_to(1, kMostInt32)}},
    of_families("t5",
                works<&DataConfig::decoder_seq_length>(
                    kData, "--decoder-seq-length", "T5: tokens of a sample that the decoder reads",
                    {.range = from_to(0, kMostInt32), .resume = kFixed})),
    of_families("bert t5", works<&DataConfig::mask_prob>(
                               kData, "--mask-prob", "Share of the tokens that BERT and T5 guess",
                               {.range = share_between(), .resume = kFixed})),
    of_families("bert t5", works<&DataConfig::short_seq_prob>(
                               kData, "--short-seq-prob",
                               "How often a sample of BERT or T5 is cut short, to a random length",
                               {.range = from_to(0, 1), .resume = kFixed})),
    of_families("gpt", works<&DataConfig::data_order>(
                           kData, "--data-order", "Shuffled, or windows in file order",
                           {.choices = "megatron sequential", .resume = kFixed})),
    works<&DataConfig::data_cache_path>(
        kData, "--data-cache-path",
        "Directory that keeps the order of samples between runs; without it, it is made in memory "
        "at every start (Megatron: beside the data)",
        {.value_name = "DIR"}),
    of_families("gpt", works<&DataConfig::eod_mask_loss>(kData, "--eod-mask-loss",
                                                         "No loss on end-of-document tokens",
                                                         {.resume = kFixed})),
    of_families("gpt", works<&DataConfig::reset_position_ids>(
                           kData, "--reset-position-ids", "Positions restart after end-of-document",
                           {.resume = kFixed})),
    of_families("gpt", works<&DataConfig::reset_attention_mask>(kData, "--reset-attention-mask",
                                                                "Attention stays within a document",
                                                                {.resume = kFixed})),
    of_families(
        "gpt", works<&DataConfig::pack_documents>(
                   kData, "--pack-documents",
                   "wrapped: the text is cut every --seq-length tokens. greedy, best-fit: a sample "
                   "is whole documents, in file order or where they fit best; each is seen alone, "
                   "its positions begin at 0",
                   {.choices = "wrapped greedy best-fit", .resume = kFixed})),
    works<&DataConfig::num_workers>(kData, "--num-workers",
                                    "Threads of every rank that reads data, which read a global "
                                    "batch ahead; 0: none, and the step reads",
                                    {.range = from_to(0, 1024)}),
};

}  // namespace

std::span<const TrainFlag> data_flags() { return kDataRows; }

}  // namespace phalanx
