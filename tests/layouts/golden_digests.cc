#include "golden_digests.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "expectations.h"
#include "phalanx/base/hash.h"
#include "phalanx/ops/cpu/device.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

template <typename T>
void add(Xxh3& hash, const std::vector<T>& values) {
  hash.update(std::as_bytes(std::span(values)));
}

void add(Xxh3& hash, const GlobalValues& values) {
  for (const auto& [name, elements] : values) {
    hash.update(std::as_bytes(std::span(name)));
    add(hash, elements);
  }
}

std::string digest_of(const TrainingResult& result) {
  Xxh3 hash;
  add(hash, result.losses);
  add(hash, result.grad_norms);
  add(hash, result.weights);
  add(hash, result.exp_avg);
  add(hash, result.exp_avg_sq);
  return digest_to_text(hash.digest());
}

nlohmann::json kept_digests() {
  std::ifstream file(source_path("tests/golden/layout_digests.json"));
  return nlohmann::json::parse(file);
}

bool has_digest(const Layout& layout) {
  return layout.storage == StorageType::kF32 ||
         layout.products == cpu::name_of(cpu::ProductPrecision::kAmx);
}

}  // namespace

void expect_golden_digest(const TrainingResult& result, const Layout& layout) {
  // Without fused multiply-add products round twice.
  if (!has_digest(layout) || cpu::active_target() == cpu::Target::kScalar) return;
  const std::string name = name_of(layout), digest = digest_of(result);
  if (std::getenv("PHALANX_SHOW_DIGESTS") != nullptr) {
    fmt::print("digest {}|{}\n", name, digest);
    return;
  }
  static const nlohmann::json kept = kept_digests();
  const auto found = kept.find(name);
  if (found == kept.end()) {
    EXPECT_TRUE(is_nightly()) << "tests/golden/write-layout-digests adds the layout";
    return;
  }
  EXPECT_EQ(digest, found->get<std::string>()) << "the bits of " << name << " have changed";
}

}  // namespace phalanx
