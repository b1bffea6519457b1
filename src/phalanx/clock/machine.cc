#include "phalanx/clock/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "phalanx/base/error.h"
#include "phalanx/clock/description_file.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/flags/yaml_file.h"

namespace phalanx {
namespace {

// More would not be one machine.
constexpr int kMostRanksOfMachine = 1024;

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_file(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

// Ranks that are processes or threads of one machine: what they send is copied in memory, a byte
// read and a byte written.
ClusterDescription one_machine(const DeviceDescription& device) {
  const std::string source = "ranks of one machine, copies in its memory; not measured";
  const double copied = device.memory_rate.value / 2;
  ClusterDescription cluster;
  cluster.name = device.name;
  cluster.title = device.title;
  cluster.device = device.name;
  cluster.devices_per_node = assumed(kMostRanksOfMachine, 1, kMostRanksOfMachine, source);
  for (Quantity* const rate : {&cluster.link, &cluster.card_rate}) {
    *rate = assumed(copied, copied / 4, copied * 2, source);
  }
  for (Quantity* const alpha : {&cluster.nv_alpha, &cluster.nv_alpha_per_rank, &cluster.ib_alpha}) {
    *alpha = assumed(5e-6, 0.0, 50e-6, source);
  }
  for (Quantity* const share : {&cluster.nv_e, &cluster.ib_e, &cluster.p2p_e}) {
    *share = assumed(1.0, 0.5, 1.0, source);
  }
  cluster.x_tp = default_x_tp();
  cluster.x_dp = default_x_dp();
  cluster.scale_loss = default_scale_loss();
  return cluster;
}

// The device that a cluster's file names.
DeviceDescription device_beside(const std::string& file, const std::string& device) {
  if (has(shipped_device_names(), device)) return shipped_device(device);
  const std::string path =
      (std::filesystem::path(file).parent_path() / std::filesystem::path(device)).string();
  if (!is_file(path)) {
    throw ConfigError("{}: device {} is neither a file beside it nor one of {}", file, device,
                      fmt::join(shipped_device_names(), ", "));
  }
  return device_of(path);
}

}  // namespace

DeviceDescription device_of(const std::string& name_or_file) {
  if (has(shipped_device_names(), name_or_file)) return shipped_device(name_or_file);
  if (!is_file(name_or_file)) {
    throw ConfigError("device {} is neither a file nor one of {}", name_or_file,
                      fmt::join(shipped_device_names(), ", "));
  }
  const YamlContents contents = read_yaml(name_or_file);
  if (!has_heading(contents, "device")) {
    throw DataError("{}: it has no section `device:`, as the file of a device", name_or_file);
  }
  return device_from_yaml(contents, name_or_file);
}

Machine Machine::with(DeviceDescription other) const {
  ClusterDescription described = is_device_alone ? one_machine(other) : cluster;
  return {.device = std::move(other),
          .cluster = std::move(described),
          .is_device_alone = is_device_alone};
}

Machine machine_of(const std::string& name_or_file) {
  if (has(shipped_cluster_names(), name_or_file)) {
    ClusterDescription cluster = shipped_cluster(name_or_file);
    DeviceDescription device = shipped_device(cluster.device);
    return {.device = std::move(device), .cluster = std::move(cluster)};
  }
  if (!is_file(name_or_file)) {
    const auto near = nearest(name_or_file, shipped_cluster_names());
    throw ConfigError("{} is neither a file nor a shipped description{}; those are {}",
                      name_or_file, near ? fmt::format(" (is {} meant?)", *near) : "",
                      fmt::join(shipped_cluster_names(), ", "));
  }
  const YamlContents contents = read_yaml(name_or_file);
  if (has_heading(contents, "cluster")) {
    ClusterDescription cluster = cluster_from_yaml(contents, name_or_file);
    DeviceDescription device = device_beside(name_or_file, cluster.device);
    return {.device = std::move(device), .cluster = std::move(cluster)};
  }
  if (has_heading(contents, "device")) {
    DeviceDescription device = device_from_yaml(contents, name_or_file);
    ClusterDescription cluster = one_machine(device);
    return {.device = std::move(device), .cluster = std::move(cluster), .is_device_alone = true};
  }
  throw DataError("{}: it has neither a section `cluster:` nor `device:`", name_or_file);
}

}  // namespace phalanx
