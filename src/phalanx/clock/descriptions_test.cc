#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/clock/description_file.h"
#include "phalanx/clock/machine.h"
#include "phalanx/flags/yaml_file.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

DeviceDescription device_of(const std::string& text) {
  return device_from_yaml(parse_yaml(text, "device.yaml"), "device.yaml");
}
ClusterDescription cluster_of(const std::string& text) {
  return cluster_from_yaml(parse_yaml(text, "cluster.yaml"), "cluster.yaml");
}

std::string fault_of_device(const std::string& text) {
  return error_of<DataError>([&] { device_of(text); });
}
std::string fault_of_cluster(const std::string& text) {
  return error_of<DataError>([&] { cluster_of(text); });
}

// The text with the value of a key (a list of items, or a word) replaced.
std::string with(const std::string& text, const std::string& key, const std::string& value) {
  const std::size_t begin = text.find("\n  " + key + ":") + 1;
  std::size_t end = text.find("\n  ", begin);
  while (end != std::string::npos && text.compare(end, 5, "\n    ") == 0) {
    end = text.find("\n  ", end + 1);
  }
  const std::string line = value.empty() ? "" : "  " + key + ": " + value + "\n";
  const std::string rest = end == std::string::npos ? "" : text.substr(end + 1);
  return text.substr(0, begin) + line + rest;
}

void expect_sourced(const Quantity& quantity, const std::string& of) {
  EXPECT_FALSE(quantity.source.empty()) << of;
  EXPECT_LE(quantity.low, quantity.value) << of;
  EXPECT_GE(quantity.high, quantity.value) << of;
  EXPECT_NE(quantity.origin, Origin::kGiven) << of;
}

TEST(Descriptions, ShippedDevicesAreReadAsTheyAreWritten) {
  for (const std::string& name : shipped_device_names()) {
    DeviceDescription device = shipped_device(name);
    DeviceDescription read = device_of(yaml_of(device));
    EXPECT_EQ(read.name, "device.yaml");
    read.name = name;
    EXPECT_EQ(read, device) << yaml_of(device);
    EXPECT_EQ(read.e_bw, device.e_bw);
    EXPECT_EQ(read.product(ProductType::kBF16).e_gemm, device.product(ProductType::kBF16).e_gemm);
    EXPECT_EQ(read.product(ProductType::kFP8).peak, device.product(ProductType::kFP8).peak);
    for (const Quantity& quantity :
         {device.cores, device.memory_rate, device.memory_bytes, device.k0, device.e_tile,
          device.e_bw, device.kernel_floor, device.attention_forward, device.attention_backward,
          device.host_op, device.unaligned_64, device.unaligned_8}) {
      expect_sourced(quantity, name);
    }
  }
}

TEST(Descriptions, ShippedClustersAreReadAsTheyAreWritten) {
  for (const std::string& name : shipped_cluster_names()) {
    ClusterDescription cluster = shipped_cluster(name);
    ClusterDescription read = cluster_of(yaml_of(cluster));
    read.name = name;
    EXPECT_EQ(read, cluster) << yaml_of(cluster);
    EXPECT_EQ(read.nv_e, cluster.nv_e);
    EXPECT_EQ(read.measured_ranks.size(), cluster.measured_ranks.size());
    EXPECT_THAT(shipped_device_names(), Contains(cluster.device));
    for (const Quantity& quantity :
         {cluster.devices_per_node, cluster.link, cluster.card_rate, cluster.nv_alpha,
          cluster.nv_alpha_per_rank, cluster.nv_e, cluster.ib_alpha, cluster.ib_e, cluster.p2p_e,
          cluster.x_tp, cluster.x_dp, cluster.scale_loss}) {
      expect_sourced(quantity, name);
    }
  }
  EXPECT_EQ(cluster_of(yaml_of(shipped_cluster("vtrain"))).measured_ranks.at(8).rate->value, 224e9);
}

TEST(Descriptions, ANumberMayStandAloneWithItsSourceOrWithItsRange) {
  const std::string yaml = yaml_of(shipped_device("h100"));
  EXPECT_EQ(device_of(with(yaml, "e_bw", "0.8")).e_bw, (Quantity{.value = 0.8}));
  EXPECT_EQ(device_of(with(yaml, "e_bw", "[0.8, measured, a bench]")).e_bw,
            measured(0.8, "a bench"));
  EXPECT_EQ(device_of(with(yaml, "e_bw", "[0.8, default, as B200, 0.7, 0.9]")).e_bw,
            assumed(0.8, 0.7, 0.9, "as B200"));
  EXPECT_EQ(
      device_of(with(with(yaml, "peak_fp8", ""), "e_gemm_fp8", "")).product(ProductType::kFP8).peak,
      std::nullopt);
  EXPECT_EQ(device_of(with(yaml, "peak_bf16", "1e15")).peak(ProductType::kBF16), 1e15);
}

TEST(Descriptions, OpsAndTypesMayHaveTheirOwnRates) {
  DeviceDescription device = shipped_device("h100");
  device.cache_bytes = measured(3e7, "the last level");
  device.op_rates["copy_f32"] = measured(1e12, "1,024 x 768");
  device.op_rates["add_positions_bf16"] = Quantity{.value = 2e12};
  device.product(ProductType::kBF16).attention_backward = measured(0.5, "s 1,024");
  DeviceDescription read = device_of(yaml_of(device));
  read.name = device.name;
  EXPECT_EQ(read, device) << yaml_of(device);
  EXPECT_EQ(read.op_rates, device.op_rates);
  EXPECT_EQ(read.cache_bytes, device.cache_bytes);
  EXPECT_EQ(read.attention_share(ProductType::kBF16, true), 0.5);
  EXPECT_EQ(read.attention_share(ProductType::kBF16, false), device.attention_forward.value);
}

TEST(Descriptions, ShapesMayHaveBeenMeasured) {
  DeviceDescription device = shipped_device("h100");
  device.measured_products = {{{8192, 768, 3072, 1, ProductType::kBF16}, measured(1.25, "t")}};
  device.measured_attention = {{{ProductType::kF32, true, 64, 1024}, measured(0.1, "t")}};
  const std::string yaml = yaml_of(device);
  DeviceDescription read = device_of(yaml);
  read.name = device.name;
  EXPECT_EQ(read, device) << yaml;
  EXPECT_EQ(read.measured_products.front().product.k, 3072);
  EXPECT_TRUE(read.measured_attention.front().pass.is_backward);
  for (const char* const wrong :
       {"product_factor_bf16_8192x768", "product_factor_int8_1x1x1", "product_factor_bf16_1x1x1x1",
        "product_factor_bf16_0x1x1", "attention_share_sideways_bf16_64x1024",
        "attention_share_forward_bf16", "attention_share_forward_bf16_64x1024k"}) {
    EXPECT_THAT(error_of<DataError>([&] { device_of(with(yaml, wrong, "0.5")); }),
                AllOf(HasSubstr(wrong), HasSubstr("such as")))
        << wrong;
  }
}

// The example of docs/planning.md.
TEST(Descriptions, ThePagesExampleIsOne) {
  std::ifstream page(source_path("docs/planning.md"));
  std::string example;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("    cluster:") || (!example.empty() && line.starts_with("      "))) {
      example += line.substr(4) + "\n";
    } else if (!example.empty()) {
      break;
    }
  }
  const ClusterDescription cluster = cluster_of(example);
  EXPECT_EQ(cluster.card_rate, data_sheet(400e9, "eight 400 Gb/s cards"));
  EXPECT_EQ(cluster.measured_ranks.at(8).rate->value, 370e9);
}

TEST(Descriptions, ErrorsNameThePlaceAndTheKey) {
  const std::string yaml = yaml_of(shipped_device("h100"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "")), "device.yaml: e_bw is missing");
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "fast")),
              AllOf(HasSubstr("device.yaml:"), HasSubstr("e_bw is 'fast', which is no number")));
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "1.2")), HasSubstr("must be from 1e-06 to 1"));
  EXPECT_THAT(fault_of_device(with(yaml, "cores", "1.5")), HasSubstr("must be a whole number"));
  EXPECT_THAT(fault_of_device(with(yaml, "k0", "nan")), HasSubstr("no number"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "[0.8, guessed, me]")),
              HasSubstr("e_bw is from 'guessed': it must be data-sheet, measured"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "[0.8, default, me]")),
              HasSubstr("e_bw is a default without its range"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "[0.8, default, me, 0.82, 0.9]")),
              HasSubstr("not between 0.82 and 0.9"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_bw", "[0.8, default]")), HasSubstr("has 2 words"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_gemm_bf16", "")),
              HasSubstr("peak_bf16 and e_gemm_bf16 belong together"));
  EXPECT_THAT(fault_of_device(yaml + "  e_bandwidth: 0.8\n"),
              HasSubstr("e_bandwidth is no key of a description"));
  EXPECT_THAT(fault_of_device(with(yaml, "e_tile", "") + "  e_tiles: 0.8\n"),
              HasSubstr("e_tile is missing"));
  EXPECT_THAT(fault_of_device(with(yaml, "title", "[]")), HasSubstr("title must be a text"));
  const std::string cluster = yaml_of(shipped_cluster("vtrain"));
  EXPECT_THAT(fault_of_cluster(with(cluster, "ranks_8", "[1e-5, 2e11]")),
              HasSubstr("ranks_8 has 2 words: write [NUMBER, NUMBER, ORIGIN"));
  EXPECT_THAT(fault_of_cluster(with(cluster, "device", "")), "cluster.yaml: device is missing");
}

TEST(Descriptions, AClusterNeedNotSayWhatNobodyMeasured) {
  std::string yaml = yaml_of(shipped_cluster("selene"));
  for (const char* key : {"x_tp", "x_dp", "scale_loss"}) yaml = with(yaml, key, "");
  const ClusterDescription cluster = cluster_of(yaml);
  EXPECT_EQ(cluster.x_tp, default_x_tp());
  EXPECT_EQ(cluster.x_dp, default_x_dp());
  EXPECT_EQ(cluster.scale_loss, default_scale_loss());
  EXPECT_EQ(cluster.price, std::nullopt);
  EXPECT_EQ(cluster_of(yaml + "  price: 2.5\n").price->value, 2.5);
}

TEST(Descriptions, ADeviceWithoutATypeSaysSo) {
  EXPECT_THAT(error_of<ConfigError>([] { shipped_device("a100-80").peak(ProductType::kFP8); }),
              HasSubstr("device a100-80: it has no peak_fp8"));
}

TEST(Descriptions, RangesHaveAFastAndASlowEnd) {
  const DeviceDescription device = shipped_device("h200");
  const DeviceDescription fast = at_end(device, RangeEnd::kFastest);
  const DeviceDescription slow = at_end(device, RangeEnd::kSlowest);
  EXPECT_EQ(fast.e_gemm(ProductType::kBF16), 0.72);
  EXPECT_EQ(slow.e_gemm(ProductType::kBF16), 0.62);
  EXPECT_EQ(fast.k0.value, 100);
  EXPECT_EQ(slow.k0.value, 300);
  EXPECT_EQ(fast.peak(ProductType::kBF16), device.peak(ProductType::kBF16));
  const ClusterDescription cluster = shipped_cluster("h200");
  EXPECT_EQ(at_end(cluster, RangeEnd::kFastest).nv_alpha.value, 8e-6);
  EXPECT_EQ(at_end(cluster, RangeEnd::kSlowest).x_tp.value, 0.5);
}

TEST(Descriptions, ListTheirNumbers) {
  const auto numbers = quantities_of(shipped_device("h200"));
  EXPECT_EQ(numbers.front().key, "peak_f32");
  EXPECT_THAT(numbers, Contains(testing::Field(&NamedQuantity::key, "attention_backward")));
  EXPECT_EQ(quantities_of(shipped_cluster("selene")).size(), 12U);
  EXPECT_EQ(quantities_of(shipped_cluster("selene"))[2].quantity.value, 200e9);
}

class Machines : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.path() / name) << text;
    return (directory_.path() / name).string();
  }
  TemporaryDirectory directory_;
};

TEST_F(Machines, AreShippedOrFilesOrFilesThatNameFiles) {
  EXPECT_EQ(machine_of("selene").device.name, "a100-80");
  EXPECT_EQ(machine_of("h200").cluster.title, "NVIDIA DGX H200");

  const std::string device = write("mine.yaml", yaml_of(shipped_device("b200")));
  const Machine alone = machine_of(device);
  EXPECT_EQ(alone.device.peak(ProductType::kBF16), 2250e12);
  EXPECT_GE(alone.cluster.devices_per_node.value, 64);
  EXPECT_EQ(alone.cluster.link.value, alone.device.memory_rate.value / 2);
  EXPECT_TRUE(alone.cluster.link.is_range());

  const std::string yaml = yaml_of(shipped_cluster("selene"));
  EXPECT_EQ(machine_of(write("shipped.yaml", yaml)).device.name, "a100-80");
  const Machine joined = machine_of(write("own.yaml", with(yaml, "device", "mine.yaml")));
  EXPECT_EQ(joined.device.title, "NVIDIA B200 SXM, 180 GB");
  EXPECT_EQ(joined.cluster.card_rate.value, 200e9);
}

TEST_F(Machines, RefuseWhatIsNeither) {
  EXPECT_THAT(error_of<ConfigError>([] { machine_of("selena"); }),
              AllOf(HasSubstr("is selene meant?"), HasSubstr("a100-40, a100-80, h100")));
  const std::string yaml = yaml_of(shipped_cluster("selene"));
  EXPECT_THAT(
      error_of<ConfigError>([&] { machine_of(write("c.yaml", with(yaml, "device", "v100"))); }),
      HasSubstr("device v100 is neither a file beside it nor one of a100-40"));
  write("other.yaml", yaml);
  EXPECT_THAT(
      error_of<DataError>([&] { machine_of(write("c.yaml", with(yaml, "device", "other.yaml"))); }),
      HasSubstr("it has no section `device:`"));
  EXPECT_THAT(error_of<DataError>([&] { machine_of(write("d.yaml", "model: {layers: 2}\n")); }),
              HasSubstr("neither a section `cluster:` nor `device:`"));
}

TEST(Machine, DataSheetsAgreeWithThemselves) {
  for (const std::string& name : shipped_cluster_names()) {
    const Machine machine = machine_of(name);
    EXPECT_LT(machine.cluster.link.value, machine.device.memory_rate.value) << name;
    EXPECT_LE(machine.cluster.card_rate.value / machine.cluster.devices_per_node.value,
              machine.cluster.link.value)
        << name;
    for (const ProductType type : kProductTypes) {
      const ProductRate& rate = machine.device.product(type);
      if (rate.e_gemm) {
        EXPECT_LE(rate.e_gemm->high, 1.0) << name;
      }
    }
  }
}

}  // namespace
}  // namespace phalanx
