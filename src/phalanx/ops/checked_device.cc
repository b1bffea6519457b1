#include "phalanx/ops/checked_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "checked-devices";

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string CheckedDevice::text() const {
  return fmt::format("{}, driver of CUDA {}.{}, {}, Phalanx {}", name, driver / 1000,
                     driver % 1000 / 10, products, PHALANX_VERSION);
}

// The XDG base directory specification: a path that is not absolute is ignored.
std::optional<fs::path> state_folder() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "phalanx";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return std::nullopt;
  return fs::path(home) / ".local" / "state" / "phalanx";
}

bool is_checked(const CheckedDevice& device) {
  const auto folder = state_folder();
  if (!folder) return false;
  const std::vector<std::string> lines = lines_of(*folder / kFile);
  return std::ranges::find(lines, device.text()) != lines.end();
}

std::string keep_checked(const CheckedDevice& device, bool passed) {
  const auto folder = state_folder();
  if (!folder) return "there is no home directory (HOME, XDG_STATE_HOME)";
  std::vector<std::string> lines = lines_of(*folder / kFile);
  const bool was_there = std::erase(lines, device.text()) > 0;
  if (!passed && !was_there) return {};
  if (passed) lines.push_back(device.text());
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  try {
    create_directories_durably(*folder);
    write_file_durably(*folder / kFile, text);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace phalanx
