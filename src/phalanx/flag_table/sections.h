#pragma once
// The headings of the training flags, in the order of --help.

#include <array>
#include <string_view>

namespace phalanx {

inline constexpr std::string_view kNetwork = "Network size";
inline constexpr std::string_view kExperts = "Mixture of experts";
inline constexpr std::string_view kRegularisation = "Regularisation";
inline constexpr std::string_view kTraining = "Training";
inline constexpr std::string_view kLearningRate = "Learning rate";
inline constexpr std::string_view kPrecision = "Precision";
inline constexpr std::string_view kRanks = "Ranks";
inline constexpr std::string_view kPipelines = "Pipelines";
inline constexpr std::string_view kDataParallelism = "Data parallelism";
inline constexpr std::string_view kOffload = "States in files";
inline constexpr std::string_view kRecomputation = "Recomputation of activations";
inline constexpr std::string_view kAdapters = "Low-rank adapters";
inline constexpr std::string_view kCheckpoints = "Checkpoints";
inline constexpr std::string_view kData = "Data";
inline constexpr std::string_view kChat = "Chat";
inline constexpr std::string_view kTokenizer = "Tokenizer";
inline constexpr std::string_view kValidation = "Validation";
inline constexpr std::string_view kLogging = "Logging";
inline constexpr std::string_view kOwn = "Phalanx's own";

inline constexpr std::array kSections = {
    kNetwork,     kExperts,   kRegularisation,  kTraining, kLearningRate,  kPrecision,
    kRanks,       kPipelines, kDataParallelism, kOffload,  kRecomputation, kAdapters,
    kCheckpoints, kData,      kTokenizer,       kChat,     kValidation,    kLogging,
    kOwn};

}  // namespace phalanx
