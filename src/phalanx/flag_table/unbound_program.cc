#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr Absence kVision = {"nothing depends on it without a vision model",
                             {"vision models are not trained by Phalanx; leave the flag out"}};
constexpr Absence kServer = {
    "nothing depends on it in training",
    {"it is for text generation; phalanx generate has the flags for that", kSamePlan}};
constexpr Refusal kEmbeddings = {
    "embeddings of BERT are not written by Phalanx; leave the flag out"};

constexpr TrainFlag kUnboundProgramRows[] = {
    refused(kNetwork, "--ict-head-size", kInteger, kRetriever.refusal),
    only_default("0", kNetwork, "--biencoder-projection-dim", kInteger, kRetriever),
    refused(kNetwork, "--biencoder-shared-query-context-model", kSwitch, kRetriever.refusal),
    refused(kCheckpoints, "--ict-load", kText, kRetriever.refusal),
    refused(kCheckpoints, "--bert-load", kText, kRetriever.refusal),
    refused(kData, "--titles-data-path", kText, kRetriever.refusal),
    only_default("0.1", kData, "--query-in-block-prob", kReal, kRetriever),
    refused(kData, "--use-one-sent-docs", kSwitch, kRetriever.refusal),
    refused(kData, "--evidence-data-path", kText, kRetriever.refusal),
    refused(kData, "--block-data-path", kText, kRetriever.refusal),
    refused(kData, "--embedding-path", kText, kRetriever.refusal),
    refused(kValidation, "--retriever-report-topk-accuracies", kList, kRetriever.refusal),
    refused(kTraining, "--retriever-score-scaling", kSwitch, kRetriever.refusal),
    only_default("128", kTraining, "--indexer-batch-size", kInteger, kRetriever),
    only_default("1000", kLogging, "--indexer-log-interval", kInteger, kRetriever),
    refused(kData, "--output-bert-embeddings", kSwitch, kEmbeddings),
    refused(kData, "--bert-embedder-type", kText, kEmbeddings),

    only_default("1000", kNetwork, "--num-classes", kInteger, kVision),
    only_default("224", kNetwork, "--img-dim", kInteger, kVision),
    only_default("224", kNetwork, "--img-h", kInteger, kVision),
    only_default("224", kNetwork, "--img-w", kInteger, kVision),
    only_default("3", kNetwork, "--num-channels", kInteger, kVision),
    only_default("16", kNetwork, "--patch-dim", kInteger, kVision),
    only_default("1", kData, "--classes-fraction", kReal, kVision),
    only_default("1", kData, "--data-per-class-fraction", kReal, kVision),
    only_default("1", kLearningRate, "--head-lr-mult", kReal, kVision),
    refused(kTraining, "--vision-pretraining", kSwitch, kVision.refusal),
    only_default("classify", kTraining, "--vision-pretraining-type", kText, kVision),
    only_default("vit", kNetwork, "--vision-backbone-type", kText, kVision),

    only_default("512", kRanks, "--inference-batch-times-seqlen-threshold", kInteger, kServer),
    only_default("12000", kRanks, "--max-tokens-to-oom", kInteger, kServer),
};

}  // namespace

std::span<const TrainFlag> unbound_program_flags() { return kUnboundProgramRows; }

}  // namespace phalanx
