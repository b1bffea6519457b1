#include "phalanx/clock/cluster_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/clock/pattern_search.h"

namespace phalanx {
namespace {

constexpr double kShortestAlpha = 1e-8, kLongestAlpha = 1.0;  // seconds
constexpr double kLeastRate = 1e3, kMostRate = 1e14;          // bytes/s

double squared(double value) { return value * value; }

struct Line {
  double alpha = 0.0;  // seconds
  double rate = 1.0;   // bytes/s
};

// The latency and the rate with which `squares` of them is least, from a first guess on.
Line searched(const Line& guess, const std::function<double(const Line&)>& squares) {
  const auto axis = [](double start, double least, double most) {
    return SearchAxis{.start = std::log(std::clamp(start, least, most)),
                      .step = 1.0,
                      .least = std::log(least),
                      .most = std::log(most)};
  };
  const std::vector<double> place = pattern_search(
      {axis(guess.alpha, kShortestAlpha, kLongestAlpha), axis(guess.rate, kLeastRate, kMostRate)},
      [&](const std::vector<double>& at) {
        return squares({std::exp(at[0]), std::exp(at[1])});
      });
  return {std::exp(place[0]), std::exp(place[1])};
}

// Half of the shortest time, and the most bytes a second.
template <typename Point>
Line guess_of(const std::vector<Point>& points) {
  Line guess{.alpha = kLongestAlpha, .rate = kLeastRate};
  for (const Point& point : points) {
    guess.alpha = std::min(guess.alpha, point.seconds / 2);
    guess.rate = std::max(guess.rate, point.bytes / point.seconds);
  }
  return guess;
}

double error_of(const ClusterDescription& cluster, const CollectivePoint& point) {
  return std::log(collective_seconds(cluster, point.kind, point.bytes, point.place) /
                  point.seconds);
}
double error_of(const ClusterDescription& cluster, const MessagePoint& point) {
  return std::log(message_seconds(cluster, point.bytes, point.is_within_node) / point.seconds);
}

template <typename Point>
double squares_of(const ClusterDescription& cluster, const std::vector<Point>& points) {
  double sum = 0.0;
  for (const Point& point : points) sum += squared(error_of(cluster, point));
  return sum;
}

template <typename Point>
double error_of_all(const ClusterDescription& cluster, const std::vector<Point>& points) {
  if (points.empty()) return 0.0;
  return std::sqrt(squares_of(cluster, points) / static_cast<double>(points.size()));
}

template <typename Point, typename Wanted>
std::vector<Point> filtered(const std::vector<Point>& points, const Wanted& wanted) {
  std::vector<Point> found;
  std::ranges::copy_if(points, std::back_inserter(found), wanted);
  return found;
}

bool is_within_node(const CollectivePoint& point) { return point.place.nodes() == 1; }

// What a description without a measurement says of a link within a node, and of a network.
void assume_link(ClusterDescription& cluster) {
  const std::string source = "one rank a node: no link was measured";
  cluster.link = assumed(10e9, 1e9, 100e9, source);
  cluster.nv_e = assumed(0.8, 0.5, 1.0, source);
  cluster.nv_alpha = assumed(10e-6, 1e-6, 100e-6, source);
  cluster.nv_alpha_per_rank = assumed(2e-6, 0.0, 20e-6, source);
}

void assume_network(ClusterDescription& cluster) {
  const std::string source = "one node: no network was measured";
  cluster.card_rate = assumed(12.5e9, 1.25e9, 100e9, source);
  cluster.ib_alpha = assumed(15e-6, 2e-6, 100e-6, source);
  cluster.ib_e = assumed(0.9, 0.5, 1.0, source);
  cluster.p2p_e = assumed(0.9, 0.5, 1.0, source);
}

// One row for each number of ranks.
std::map<int, Line> fit_groups(const ClusterDescription& before,
                               const std::vector<CollectivePoint>& points) {
  std::map<int, Line> lines;
  std::set<int> sizes;
  for (const CollectivePoint& point : points) sizes.insert(point.place.ranks);
  for (const int ranks : sizes) {
    const auto of_size =
        filtered(points, [&](const CollectivePoint& point) { return point.place.ranks == ranks; });
    ClusterDescription tried = before;
    lines[ranks] = searched(guess_of(of_size), [&](const Line& line) {
      tried.measured_ranks[ranks] = {.alpha = measured(line.alpha, ""),
                                     .rate = measured(line.rate, "")};
      return squares_of(tried, of_size);
    });
  }
  return lines;
}

void fit_link(ClusterDescription& cluster, const ClusterMeasurements& measurements) {
  const std::string& source = measurements.source;
  const std::map<int, Line> groups =
      fit_groups(cluster, filtered(measurements.collectives, is_within_node));
  if (groups.empty()) return;
  const auto messages = filtered(measurements.messages,
                                 [](const MessagePoint& point) { return point.is_within_node; });
  // Without messages, as the smallest group.
  Line message = groups.begin()->second;
  if (!messages.empty()) {
    message = searched(guess_of(messages), [&](const Line& line) {
      double sum = 0.0;
      for (const MessagePoint& point : messages) {
        sum += squared(std::log((line.alpha + point.bytes / line.rate) / point.seconds));
      }
      return sum;
    });
  }
  cluster.link = measured(message.rate, source);
  cluster.nv_e = measured(1.0, source);
  cluster.nv_alpha = measured(message.alpha, source);
  // Least squares through the latency of a message.
  double products = 0.0;
  double squares = 0.0;
  for (const auto& [ranks, line] : groups) {
    products += ranks * (line.alpha - message.alpha);
    squares += squared(ranks);
    if (ranks > kMostMeasuredRanks) continue;
    cluster.measured_ranks[ranks] = {.alpha = measured(line.alpha, source),
                                     .rate = measured(line.rate, source)};
  }
  cluster.nv_alpha_per_rank = measured(std::max(0.0, products / squares), source);
}

void fit_network(ClusterDescription& cluster, const ClusterMeasurements& measurements) {
  const std::string& source = measurements.source;
  const auto collectives = filtered(measurements.collectives, [](const CollectivePoint& point) {
    return !is_within_node(point);
  });
  const auto messages = filtered(measurements.messages,
                                 [](const MessagePoint& point) { return !point.is_within_node; });
  if (collectives.empty()) return;
  const double devices = cluster.devices_per_node.value;
  ClusterDescription tried = cluster;
  tried.ib_e.set(1.0);
  // Of a node, for collectives.
  Line guess = guess_of(collectives);
  guess.rate *= devices;
  const Line line = searched(guess, [&](const Line& at) {
    tried.ib_alpha.set(at.alpha);
    tried.card_rate.set(at.rate);
    return squares_of(tried, collectives);
  });
  cluster.ib_alpha = measured(line.alpha, source);
  double of_messages = line.rate;
  if (!messages.empty()) {
    tried = cluster;
    tried.p2p_e.set(1.0);
    of_messages = searched(guess, [&](const Line& at) {
                    tried.card_rate.set(at.rate);
                    return squares_of(tried, messages);
                  }).rate;
  }
  cluster.card_rate = measured(std::max(line.rate, of_messages), source);
  cluster.ib_e = measured(line.rate / cluster.card_rate.value, source);
  cluster.p2p_e = measured(of_messages / cluster.card_rate.value, source);
}

Quantity share_or(const std::optional<double>& share, Quantity otherwise,
                  const std::string& source) {
  return share ? measured(std::clamp(*share, 0.0, 1.0), source) : std::move(otherwise);
}

}  // namespace

FittedCluster fitted_cluster(const ClusterMeasurements& measurements) {
  if (measurements.collectives.empty()) {
    throw ConfigError("no measured collective: nothing can be fitted");
  }
  FittedCluster fit;
  ClusterDescription& cluster = fit.cluster;
  cluster.title = measurements.title;
  cluster.device = measurements.device;
  cluster.devices_per_node = measured(measurements.devices_per_node, measurements.source);
  assume_link(cluster);
  assume_network(cluster);
  fit_link(cluster, measurements);
  fit_network(cluster, measurements);
  cluster.x_tp = share_or(measurements.x_tp, default_x_tp(), measurements.source);
  cluster.x_dp = share_or(measurements.x_dp, default_x_dp(), measurements.source);
  cluster.scale_loss = default_scale_loss();
  for (const CollectivePoint& point : measurements.collectives) {
    if (fit.collective_errors.contains(point.kind)) continue;
    fit.collective_errors[point.kind] = error_of_all(
        cluster, filtered(measurements.collectives,
                          [&](const CollectivePoint& other) { return other.kind == point.kind; }));
  }
  fit.message_error = error_of_all(cluster, measurements.messages);
  return fit;
}

}  // namespace phalanx
