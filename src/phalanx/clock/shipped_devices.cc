// The descriptions of devices that are shipped. Sources of the fitted numbers: the step times that
// NVIDIA, BigScience, KAIST and MosaicML published.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/clock/machine.h"
#include "phalanx/ops/named_devices.h"

namespace phalanx {
namespace {

constexpr double kTera = 1e12;
constexpr double kGigabyte = 1e9;
constexpr double kMicrosecond = 1e-6;

constexpr const char* kA100Sheet = "NVIDIA A100 Tensor Core GPU data sheet, 2021: SXM4";
constexpr const char* kH100Sheet = "NVIDIA H100 Tensor Core GPU data sheet, 2022: SXM5";
constexpr const char* kH200Sheet = "NVIDIA H200 Tensor Core GPU data sheet, 2023: SXM";
constexpr const char* kB200Sheet = "NVIDIA HGX B200 and DGX B200 data sheets, 2024";
constexpr const char* kA100Steps =
    "one set for the step times of SC21 (arXiv 2104.04473), arXiv 2205.05198, BigScience "
    "(tr11-176B "
    "prequel) and vTrain (arXiv 2312.12391)";
constexpr const char* kA100Products =
    "predictions with --stack of published steps: SC21 (arXiv 2104.04473), arXiv 2205.05198, "
    "BigScience and vTrain (arXiv 2312.12391)";
constexpr const char* kH100Products =
    "predictions with --stack of steps that NVIDIA published (DGX Cloud benchmarks)";
constexpr const char* kH100Steps =
    "step times of Llama, Nemotron and GPT-3 on 8 to 2,304 H100 (NVIDIA DGX Cloud benchmarks)";

// What no step time tells apart.
void set_common(DeviceDescription& device) {
  device.kernel_floor =
      assumed(4 * kMicrosecond, 2 * kMicrosecond, 6 * kMicrosecond, "chosen by hand for all GPUs");
  device.host_op = assumed(5 * kMicrosecond, 2 * kMicrosecond, 10 * kMicrosecond,
                           "launches of kernels: 2-3 us from C++, 5-10 us from Python");
  device.unaligned_64 = fitted(1.08, kA100Steps);
  device.unaligned_8 = fitted(2.5, kA100Steps);
}

void set_rates(DeviceDescription& device, ProductType type, double tera, const char* sheet,
               Quantity e_gemm) {
  device.product(type) = {.peak = data_sheet(tera * kTera, sheet), .e_gemm = std::move(e_gemm)};
}

// Title and memory, which plans of memory have, too.
void set_named(DeviceDescription& device, std::string_view plan_name, const char* sheet) {
  const NamedDevice& named = *named_device(plan_name);
  device.title = fmt::format("{} SXM, {:g} GB", named.title,
                             static_cast<double>(named.memory_bytes) / kGigabyte);
  device.memory_bytes = data_sheet(static_cast<double>(named.memory_bytes), sheet);
}

DeviceDescription a100() {
  DeviceDescription device;
  set_common(device);
  set_rates(device, ProductType::kF32, 19.5, kA100Sheet,
            assumed(0.85, 0.7, 0.95, "products without tensor cores, not measured here"));
  set_rates(device, ProductType::kTF32, 156, kA100Sheet, assumed(0.77, 0.6, 0.85, "as bf16"));
  set_rates(device, ProductType::kF16, 312, kA100Sheet, fitted(0.788, kA100Products));
  set_rates(device, ProductType::kBF16, 312, kA100Sheet, fitted(0.788, kA100Products));
  device.cores = data_sheet(108, kA100Sheet);
  device.k0 = fitted(258, kA100Steps);
  device.e_tile = fitted(0.65, kA100Steps);
  device.e_bw = fitted(0.82, kA100Steps);
  device.attention_forward =
      assumed(0.58, 0.5, 0.73, "FlashAttention-2 (arXiv 2307.08691): 50 to 73 % of the peak");
  device.attention_backward = assumed(0.46, 0.4, 0.63, "0.8 of the forward rate");
  return device;
}

DeviceDescription a100_40() {
  DeviceDescription device = a100();
  device.name = "a100-40";
  set_named(device, "cuda:a100-40g", kA100Sheet);
  device.memory_rate = data_sheet(1555 * kGigabyte, kA100Sheet);
  return device;
}

DeviceDescription a100_80() {
  DeviceDescription device = a100();
  device.name = "a100-80";
  set_named(device, "cuda:a100-80g", kA100Sheet);
  device.memory_rate = data_sheet(2039 * kGigabyte, kA100Sheet);
  return device;
}

DeviceDescription h100() {
  DeviceDescription device;
  set_common(device);
  device.name = "h100";
  set_named(device, "cuda:h100-80g", kH100Sheet);
  set_rates(device, ProductType::kF32, 67, kH100Sheet,
            assumed(0.8, 0.6, 0.95, "products without tensor cores, not measured here"));
  set_rates(device, ProductType::kTF32, 494.7, kH100Sheet, assumed(0.66, 0.55, 0.75, "as bf16"));
  set_rates(device, ProductType::kF16, 989.4, kH100Sheet, fitted(0.675, kH100Products));
  set_rates(device, ProductType::kBF16, 989.4, kH100Sheet, fitted(0.675, kH100Products));
  set_rates(device, ProductType::kFP8, 1978.9, kH100Sheet, fitted(0.546, kH100Products));
  device.cores = data_sheet(132, kH100Sheet);
  device.memory_rate = data_sheet(3350 * kGigabyte, kH100Sheet);
  device.k0 = fitted(200, kH100Steps);
  device.e_tile = fitted(0.80, kH100Steps);
  device.e_bw = fitted(0.86, kH100Steps);
  device.attention_forward = fitted(0.575, kH100Steps);
  device.attention_backward = fitted(0.46, kH100Steps);
  return device;
}

// The processors of an H100 with other memory.
DeviceDescription h200() {
  DeviceDescription device = h100();
  device.name = "h200";
  set_named(device, "cuda:h200-141g", kH200Sheet);
  device.memory_rate = data_sheet(4800 * kGigabyte, kH200Sheet);
  const auto as_h100 = [](Quantity& quantity, double low, double high) {
    quantity = assumed(quantity.value, low, high, "as an H100, which has the same processors");
  };
  as_h100(*device.product(ProductType::kF16).e_gemm, 0.62, 0.72);
  as_h100(*device.product(ProductType::kBF16).e_gemm, 0.62, 0.72);
  as_h100(*device.product(ProductType::kFP8).e_gemm, 0.50, 0.62);
  as_h100(device.k0, 100, 300);
  as_h100(device.e_tile, 0.7, 0.9);
  as_h100(device.e_bw, 0.78, 0.90);
  as_h100(device.attention_forward, 0.52, 0.65);
  as_h100(device.attention_backward, 0.42, 0.52);
  return device;
}

DeviceDescription b200() {
  // The best shape of a short run (stas00/ml-engineering, MAMF): bf16 1,745 of 2,250 TFLOP/s, fp8
  // 3,432 of 4,500. A long run of H100 reaches 0.83 and 0.77 of such a maximum.
  constexpr const char* kShare = "the best shape of B200 (MAMF) times what long runs of H100 keep";
  DeviceDescription device;
  set_common(device);
  device.name = "b200";
  set_named(device, "cuda:b200-180g", kB200Sheet);
  set_rates(device, ProductType::kF32, 75, kB200Sheet,
            assumed(0.8, 0.6, 0.95, "products without tensor cores, not measured here"));
  set_rates(device, ProductType::kTF32, 1125, kB200Sheet, assumed(0.64, 0.55, 0.72, "as bf16"));
  set_rates(device, ProductType::kF16, 2250, kB200Sheet, assumed(0.64, 0.57, 0.70, kShare));
  set_rates(device, ProductType::kBF16, 2250, kB200Sheet, assumed(0.64, 0.57, 0.70, kShare));
  set_rates(device, ProductType::kFP8, 4500, kB200Sheet, assumed(0.59, 0.50, 0.66, kShare));
  device.cores = data_sheet(148, kB200Sheet);
  device.memory_rate = data_sheet(8000 * kGigabyte, kB200Sheet);
  device.k0 = assumed(200, 100, 400, "as an H100");
  device.e_tile = assumed(0.80, 0.65, 0.9, "as an H100");
  device.e_bw = assumed(0.86, 0.78, 0.92, "as an H100");
  device.attention_forward = assumed(0.55, 0.45, 0.65, "0.77 of the best published kernels");
  device.attention_backward = assumed(0.44, 0.35, 0.52, "0.8 of the forward rate");
  return device;
}

using Make = DeviceDescription (*)();
constexpr std::array<Make, 5> kDevices = {a100_40, a100_80, h100, h200, b200};

}  // namespace

std::vector<std::string> shipped_device_names() {
  std::vector<std::string> names;
  for (const Make make : kDevices) names.push_back(make().name);
  return names;
}

DeviceDescription shipped_device(std::string_view name) {
  for (const Make make : kDevices) {
    DeviceDescription device = make();
    if (device.name == name) return device;
  }
  throw ConfigError("device {} is not shipped: it must be one of {}, or a file", name,
                    fmt::join(shipped_device_names(), ", "));
}

}  // namespace phalanx
