#pragma once
// A machine to predict for: a cluster and its device, shipped by name or from files.

#include <string>
#include <string_view>
#include <vector>

#include "phalanx/clock/cluster_description.h"
#include "phalanx/clock/device_description.h"

namespace phalanx {

struct Machine {
  DeviceDescription device;
  ClusterDescription cluster;
  // The cluster follows from the device: its ranks are of one machine.
  bool is_device_alone = false;

  // The same with another device.
  Machine with(DeviceDescription other) const;
};

// What is shipped: a100-40, a100-80, h100, h200, b200, and clusters of them. The name of a device
// also names the cluster that its vendor builds of it.
std::vector<std::string> shipped_device_names();
std::vector<std::string> shipped_cluster_names();
// ConfigError that lists the names, if there is none such.
DeviceDescription shipped_device(std::string_view name);
ClusterDescription shipped_cluster(std::string_view name);

// A shipped device, or a file with a section `device`. ConfigError if there is neither, DataError
// as DescriptionReader.
DeviceDescription device_of(const std::string& name_or_file);

// A name, or a file with a section `cluster` or `device` (ranks of one machine, which copy in its
// memory: that is assumed, not measured). A cluster's file names its device as --cluster does: a
// shipped one, or a file beside it. ConfigError or InputMissingError if there is neither, DataError
// as DescriptionReader.
Machine machine_of(const std::string& name_or_file);

}  // namespace phalanx
