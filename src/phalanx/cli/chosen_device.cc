#include "phalanx/cli/chosen_device.h"

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/named_devices.h"

namespace phalanx {

DeviceChoice chosen_device(const TrainConfig& config, DeviceUse use) {
  const std::string& device = config.layout.device;
  DeviceChoice choice;
  if (const NamedDevice* named = named_device(device)) {
    if (use == DeviceUse::kCompute) {
      throw ConfigError(
          "--device {}: a device with a name is for plans: give --device cuda to compute on the "
          "one that is there",
          device);
    }
    choice.named = named;
  } else if (const auto place = cuda_place(device, 0)) {
    expect_device(*place);
    choice.cuda = place;
  } else {
    const ModelConfig& model = config.model;
    choice.products = cpu::choose_products(model.matmul_precision, model.bf16).products;
  }
  return choice;
}

}  // namespace phalanx
