#pragma once
// Devices that `phalanx selftest` has found right, for this user: lines of a file in
// $XDG_STATE_HOME/phalanx (~/.local/state/phalanx). A run on another device, driver or library says
// that nobody has checked it.

#include <filesystem>
#include <optional>
#include <string>

namespace phalanx {

struct CheckedDevice {
  std::string name;      // "NVIDIA H100 80GB HBM3"
  int driver = 0;        // 13000: the CUDA that the driver has
  std::string products;  // the device's generation and cuBLASLt: "cuda-sm90-lt130100"

  // With Phalanx's version: another one has other kernels.
  std::string text() const;
};

// The folder, which need not be there; nothing without a home.
std::optional<std::filesystem::path> state_folder();

// False where the file cannot be read.
bool is_checked(const CheckedDevice& device);
// Keeps that the device passed, or no longer does. Why it could not be kept, or an empty string.
std::string keep_checked(const CheckedDevice& device, bool passed);

}  // namespace phalanx
