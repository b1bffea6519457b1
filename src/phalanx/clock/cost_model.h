#pragma once
// Seconds of an op on a device: pure functions of its description. Products are formulas of tiles
// and waves (docs/planning.md); what moves memory is bytes and rates. Bytes are those read and
// written, FLOPs count a multiplication and an addition as two. Every function throws ConfigError
// where the description has no rates of the type.

#include <cstdint>
#include <string_view>

#include "phalanx/clock/device_description.h"

namespace phalanx {

inline constexpr int kMostSplits = 8;  // of k

// Tiles of 256 x 128, 128 x 256, 128 x 128, 128 x 64 or 64 x 64 on all cores, k cut into 1 to 8
// parts; the fastest counts. Never less than bytes() / memory_rate, nor than kernel_floor. 0 if
// nothing is multiplied. Times product_factor() of what was measured.
double product_seconds(const DeviceDescription& device, const MatrixProduct& product);
// The same without what was measured.
double formula_seconds(const DeviceDescription& device, const MatrixProduct& product);

// An op that moves so many bytes and computes little: bytes / (memory_rate e_bw) + kernel_floor.
double memory_seconds(const DeviceDescription& device, double bytes);
// The op by its name and type (OpCost): at its own rate, where the device has one. Beyond
// cache_bytes no op moves them faster than the first.
double op_seconds(const DeviceDescription& device, std::string_view op, DType dtype, double bytes);

// Fused attention of so many useful FLOPs of a forward pass (of a causal mask half of the square:
// 2 s^2 h a sample and layer); a backward pass has 2.5 times as many. `bytes`: queries, keys,
// values and outputs.
double attention_seconds(const DeviceDescription& device, const AttentionPass& pass,
                         double forward_flops, double bytes);
inline constexpr double kAttentionBackwardFlops = 2.5;  // of the forward pass

// The optimizer's update of parameters in fp32, with two moments: 40 bytes for each that the rank
// updates.
double optimizer_seconds(const DeviceDescription& device, double parameters);
inline constexpr double kOptimizerBytes = 40.0;

// Growth of a step's time with the number of devices, at fixed work for each: machines differ, and
// the slowest counts. 1 + scale_loss for each doubling.
double scale_factor(double scale_loss, int devices);

}  // namespace phalanx
