#pragma once
// Reasons that answers to Megatron-LM's flags and to DeepSpeed's keys share.

#include <string_view>

namespace phalanx {

inline constexpr std::string_view kFp32Sums = "gradients are always fp32, and summed in fp32";
inline constexpr std::string_view kFp32States =
    "main parameters, gradients and moments are always fp32";
inline constexpr std::string_view kContiguousGradients =
    "gradients always lie in contiguous buffers";
inline constexpr std::string_view kAverageFromTheStart =
    "the number that backward begins with has the average in it, so gradients are only summed";
inline constexpr std::string_view kStatesInHostMemory =
    "optimizer states lie in the host's memory and are updated there anyway";
inline constexpr std::string_view kInHostMemory =
    "weights and activations lie in the host's memory anyway";

}  // namespace phalanx
