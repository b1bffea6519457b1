// The descriptions of clusters that are shipped: the machines of published step times, and what
// NVIDIA builds of each device.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/clock/machine.h"

namespace phalanx {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kMicrosecond = 1e-6;

constexpr const char* kByHand = "chosen by hand: step times hardly determine it";
constexpr const char* kAtBound = "step times hardly determine it: the fit ends at its upper bound";

// Eight devices a node, all joined by switches.
ClusterDescription node_of_eight(std::string name, std::string title, std::string device,
                                 const char* sheet, double link_gigabytes) {
  ClusterDescription cluster;
  cluster.name = std::move(name);
  cluster.title = std::move(title);
  cluster.device = std::move(device);
  cluster.devices_per_node = data_sheet(8, sheet);
  cluster.link = data_sheet(link_gigabytes * kGigabyte, sheet);
  cluster.nv_alpha = assumed(20 * kMicrosecond, 10 * kMicrosecond, 30 * kMicrosecond, kByHand);
  cluster.nv_alpha_per_rank =
      assumed(3 * kMicrosecond, 1 * kMicrosecond, 5 * kMicrosecond, kByHand);
  cluster.nv_e = fitted(0.83, 0.75, 0.90, "step times of Selene (arXiv 2104.04473, 2205.05198)");
  cluster.ib_alpha = assumed(15 * kMicrosecond, 5 * kMicrosecond, 30 * kMicrosecond, kByHand);
  cluster.ib_e = assumed(0.95, 0.7, 0.95, kAtBound);
  cluster.p2p_e = assumed(0.95, 0.7, 0.95, kAtBound);
  cluster.x_tp = default_x_tp();
  cluster.x_dp = default_x_dp();
  cluster.scale_loss = default_scale_loss();
  return cluster;
}

ClusterDescription dgx_a100(std::string name, std::string title, std::string device) {
  const char* const sheet = "NVIDIA DGX A100 data sheet: NVLink 3, eight 200 Gb/s cards";
  ClusterDescription cluster =
      node_of_eight(std::move(name), std::move(title), std::move(device), sheet, 300);
  cluster.card_rate = data_sheet(200 * kGigabyte, sheet);
  cluster.x_tp = fitted(0.1, 0.0, 0.4, "predictions of the steps of arXiv 2205.05198");
  return cluster;
}

ClusterDescription dgx_h100(std::string name, std::string title, std::string device) {
  const char* const sheet = "NVIDIA DGX H100 and H200 data sheets: NVLink 4, eight 400 Gb/s cards";
  ClusterDescription cluster =
      node_of_eight(std::move(name), std::move(title), std::move(device), sheet, 450);
  cluster.card_rate = data_sheet(400 * kGigabyte, sheet);
  cluster.nv_alpha = assumed(15 * kMicrosecond, 8 * kMicrosecond, 25 * kMicrosecond, kByHand);
  cluster.nv_e = assumed(0.83, 0.75, 0.97, "as Selene; switches that add reach 0.97 with 8 ranks");
  cluster.x_tp =
      fitted(0.39, 0.3, 0.5, "step times of Llama, Nemotron and GPT-3 on H100 (NVIDIA DGX Cloud)");
  return cluster;
}

ClusterDescription a100_40() { return dgx_a100("a100-40", "NVIDIA DGX A100 320 GB", "a100-40"); }
ClusterDescription a100_80() { return dgx_a100("a100-80", "NVIDIA DGX A100 640 GB", "a100-80"); }
ClusterDescription h100() { return dgx_h100("h100", "NVIDIA DGX H100", "h100"); }
ClusterDescription h200() { return dgx_h100("h200", "NVIDIA DGX H200", "h200"); }

ClusterDescription b200() {
  const char* const sheet = "NVIDIA DGX B200 data sheet: NVLink 5, eight 400 Gb/s cards";
  ClusterDescription cluster = node_of_eight("b200", "NVIDIA DGX B200", "b200", sheet, 900);
  cluster.card_rate = data_sheet(400 * kGigabyte, sheet);
  cluster.nv_alpha = assumed(15 * kMicrosecond, 8 * kMicrosecond, 25 * kMicrosecond, "as DGX H100");
  cluster.nv_e = assumed(0.80, 0.70, 0.90, "between Selene and what NCCL's tuner assumes");
  return cluster;
}

ClusterDescription selene() {
  return dgx_a100("selene", "NVIDIA Selene: DGX A100 640 GB, HDR InfiniBand", "a100-80");
}

ClusterDescription dgxh100() {
  return dgx_h100("dgxh100", "NVIDIA DGX Cloud: DGX H100, NDR InfiniBand", "h100");
}

// A node's four cards of 100 Gb/s are shared by its eight devices.
ClusterDescription jean_zay(std::string name, std::string title) {
  const char* const sheet =
      "BigScience tr11-176B README: 8 A100 80 GB by NVLink, 4 Omni-Path links";
  const char* const steps = "BigScience's step times, from 25 February 2022 on";
  ClusterDescription cluster =
      node_of_eight(std::move(name), std::move(title), "a100-80", sheet, 300);
  cluster.card_rate = data_sheet(50 * kGigabyte, sheet);
  cluster.nv_e = fitted(0.72, 0.68, 0.76, steps);
  cluster.ib_e = fitted(0.27, 0.2, 0.3, "predictions of " + std::string(steps));
  cluster.p2p_e = fitted(0.175, 0.17, 0.18, steps);
  return cluster;
}

ClusterDescription jeanzay() {
  return jean_zay("jeanzay", "Jean Zay (IDRIS): HPE nodes of 8 A100, Omni-Path");
}

ClusterDescription jeanzay_old() {
  ClusterDescription cluster =
      jean_zay("jeanzay_old", "Jean Zay (IDRIS) before 25 February 2022: steps took 6 % longer");
  cluster.nv_e =
      assumed(0.60, 0.40, 0.76, "less than later; what made steps longer is not published");
  cluster.ib_e =
      assumed(0.175, 0.1, 0.27, "less than later; what made steps longer is not published");
  return cluster;
}

// All-reduce of 2 to 8 ranks, 1 MiB to 1 GiB, as vTrain's tables of NCCL have it: least squares of
// log time, tests/planner_rows/nccl_a100.csv.
void set_vtrain_ranks(ClusterDescription& cluster) {
  struct Row {
    int ranks;
    double microseconds, gigabytes;
  };
  constexpr std::array<Row, 7> kRows = {{{2, 40.5, 188},
                                         {3, 55.0, 210},
                                         {4, 45.5, 210},
                                         {5, 52.0, 212},
                                         {6, 60.5, 221},
                                         {7, 64.5, 217},
                                         {8, 77.0, 224}}};
  for (const Row& row : kRows) {
    const std::string source =
        "NCCL all-reduce times of vTrain's nodes (github VIA-Research/vTrain)";
    cluster.measured_ranks[row.ranks] = {.alpha = fitted(row.microseconds * kMicrosecond, source),
                                         .rate = fitted(row.gigabytes * kGigabyte, source)};
  }
}

ClusterDescription vtrain_nodes(std::string name, std::string title) {
  const char* const sheet = "vTrain (arXiv 2312.12391): nodes of 8 A100 with NVSwitch";
  ClusterDescription cluster =
      node_of_eight(std::move(name), std::move(title), "a100-80", sheet, 300);
  cluster.card_rate = assumed(100 * kGigabyte, 100 * kGigabyte, 200 * kGigabyte,
                              "four to eight HDR InfiniBand cards a node");
  set_vtrain_ranks(cluster);
  return cluster;
}

ClusterDescription vtrain() { return vtrain_nodes("vtrain", "KAIST's vTrain: 512 A100"); }
ClusterDescription vtrain1n() { return vtrain_nodes("vtrain1n", "KAIST's vTrain: one node"); }

// MosaicML published neither its nodes nor its network.
ClusterDescription mosaic(ClusterDescription cluster, std::string name, std::string title) {
  cluster.name = std::move(name);
  cluster.title = std::move(title);
  const double rate = cluster.card_rate.value;
  cluster.card_rate = assumed(rate, rate / 4, rate, "as NVIDIA's own nodes; not published");
  return cluster;
}
ClusterDescription mosaic_h100() { return mosaic(h100(), "mosaic", "MosaicML's H100"); }
ClusterDescription mosaic_a100_80() {
  return mosaic(a100_80(), "mosaic-a100-80", "MosaicML's A100 80 GB");
}
ClusterDescription mosaic_a100_40() {
  return mosaic(a100_40(), "mosaic-a100-40", "MosaicML's A100 40 GB");
}

using Make = ClusterDescription (*)();
constexpr std::array kClusters = {
    Make{a100_40},  Make{a100_80},     Make{h100},           Make{h200},          Make{b200},
    Make{selene},   Make{dgxh100},     Make{jeanzay},        Make{jeanzay_old},   Make{vtrain},
    Make{vtrain1n}, Make{mosaic_h100}, Make{mosaic_a100_80}, Make{mosaic_a100_40}};

}  // namespace

std::vector<std::string> shipped_cluster_names() {
  std::vector<std::string> names;
  for (const Make make : kClusters) names.push_back(make().name);
  return names;
}

ClusterDescription shipped_cluster(std::string_view name) {
  for (const Make make : kClusters) {
    ClusterDescription cluster = make();
    if (cluster.name == name) return cluster;
  }
  throw ConfigError("cluster {} is not shipped: it must be one of {}, or a file", name,
                    fmt::join(shipped_cluster_names(), ", "));
}

}  // namespace phalanx
