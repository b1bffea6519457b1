#include "phalanx/clock/cluster_description.h"

#include <fmt/format.h>

#include "phalanx/clock/description_file.h"

namespace phalanx {
namespace {

constexpr std::string_view kHeading = "cluster";

template <typename File, typename Cluster>
void visit(File& file, Cluster& cluster) {
  file.text("title", cluster.title);
  file.text("device", cluster.device);
  file.quantity("devices_per_node", cluster.devices_per_node, kCount);
  file.quantity("link", cluster.link, kRate);
  file.quantity("card_rate", cluster.card_rate, kRate);
  file.quantity("nv_alpha", cluster.nv_alpha, kSeconds);
  file.quantity("nv_alpha_per_rank", cluster.nv_alpha_per_rank, kSeconds);
  file.quantity("nv_e", cluster.nv_e, kShare);
  file.quantity("ib_alpha", cluster.ib_alpha, kSeconds);
  file.quantity("ib_e", cluster.ib_e, kShare);
  file.quantity("p2p_e", cluster.p2p_e, kShare);
  file.quantity("x_tp", cluster.x_tp, kLoss);
  file.quantity("x_dp", cluster.x_dp, kLoss);
  file.quantity("scale_loss", cluster.scale_loss, kLoss);
  file.optional_quantity("price", cluster.price, {.most = 1e6});
}

std::string key_of(int ranks) { return fmt::format("ranks_{}", ranks); }

}  // namespace

Quantity default_x_tp() {
  return assumed(0.39, 0.2, 0.6, "fitted to steps of H100 that overlap tensor-parallel traffic");
}
Quantity default_x_dp() {
  return assumed(0.2, 0.0, 0.4, "between nothing and what tensor-parallel traffic leaves exposed");
}
Quantity default_scale_loss() {
  return fitted(0.004, 0.0035, 0.005,
                "steps of fixed work a device, bf16, 8 to 2,304 H100 (DGX Cloud, Megatron-LM)");
}

bool operator==(const ClusterDescription& a, const ClusterDescription& b) {
  return a.name == b.name && yaml_of(a) == yaml_of(b);
}

ClusterDescription cluster_from_yaml(const YamlContents& contents, const std::string& file) {
  ClusterDescription cluster;
  cluster.name = file;
  cluster.x_tp = default_x_tp();
  cluster.x_dp = default_x_dp();
  cluster.scale_loss = default_scale_loss();
  DescriptionReader reader(contents, file);
  visit(reader, cluster);
  for (int ranks = 2; ranks <= kMostMeasuredRanks; ++ranks) {
    MeasuredRanks row;
    reader.optional_pair(key_of(ranks), row.alpha, kSeconds, row.rate, kRate);
    if (row.alpha) cluster.measured_ranks.emplace(ranks, row);
  }
  reader.finish();
  return cluster;
}

std::string yaml_of(const ClusterDescription& cluster) {
  DescriptionWriter writer{std::string(kHeading)};
  visit(writer, cluster);
  for (const auto& [ranks, row] : cluster.measured_ranks) {
    writer.optional_pair(key_of(ranks), row.alpha, kSeconds, row.rate, kRate);
  }
  return writer.yaml();
}

std::vector<NamedQuantity> quantities_of(const ClusterDescription& cluster) {
  std::vector<NamedQuantity> quantities;
  ClusterDescription copy = cluster;
  QuantityWalk walk([&](const std::string& key, const Quantity& quantity, const Bounds&) {
    quantities.push_back({key, quantity});
  });
  visit(walk, copy);
  return quantities;
}

ClusterDescription at_end(ClusterDescription cluster, RangeEnd end) {
  QuantityWalk walk([&](const std::string&, Quantity& quantity, const Bounds& bounds) {
    const bool takes_low = bounds.slows == (end == RangeEnd::kFastest);
    quantity.value = takes_low ? quantity.low : quantity.high;
  });
  visit(walk, cluster);
  return cluster;
}

}  // namespace phalanx
