#include "phalanx/checkpoint/tensor_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

// Tensors of consecutive numbers that come an element at a time.
class CountingSource final : public TensorSource {
 public:
  explicit CountingSource(std::vector<std::string> names) {
    elements.assign(names.size(), 6);
    for (auto& name : names) infos_.push_back({std::move(name), DType::kF32, {2, 3}});
  }

  int size() const override { return static_cast<int>(infos_.size()); }
  const Info& info(int index) const override { return infos_[static_cast<std::size_t>(index)]; }
  void visit(int index, const Visitor& visitor) override {
    visited.push_back(index);
    for (int i = 0; i < elements[static_cast<std::size_t>(index)]; ++i) {
      const float value = static_cast<float>(100 * index + i);
      visitor(std::as_bytes(std::span(&value, 1)));
    }
  }

  std::vector<int> elements;  // of each tensor; 6 are right
  std::vector<int> visited;

 private:
  std::vector<Info> infos_;
};

class TensorSourceTest : public testing::Test {
 protected:
  std::filesystem::path save() const { return directory_.path() / "save"; }
  std::string refusal(CountingSource source) const {
    return error_of<InternalError>(
        [&] { save_checkpoint({.directory = save()}, example_manifest(1), source); });
  }

 private:
  TemporaryDirectory directory_{"tensor_source"};
};

TEST_F(TensorSourceTest, EveryTensorIsVisitedOnceInOrder) {
  CountingSource source({"b", "a", "optimizer.exp_avg.b", "optimizer.exp_avg.a"});
  save_checkpoint({.directory = save()}, example_manifest(1), source);
  EXPECT_THAT(source.visited, ElementsAre(0, 1, 2, 3));
  const auto reader = CheckpointReader::open(save());
  reader.verify_all();
  EXPECT_TRUE(reader.has_optimizer());
  Arena arena("loaded", 4096);
  const auto values = [&](const std::string& name) {
    const auto target = whole_tensor(name, arena.allocate(DType::kF32, {2, 3}));
    reader.read(target);
    return target.local.span<float>();
  };
  EXPECT_THAT(values("a"), ElementsAre(100, 101, 102, 103, 104, 105));
  EXPECT_THAT(values("optimizer.exp_avg.b"), ElementsAre(200, 201, 202, 203, 204, 205));
}

TEST_F(TensorSourceTest, ABrokenSourceIsNotSaved) {
  EXPECT_THAT(refusal(CountingSource({"a", "optimizer.exp_avg.a", "b"})),
              HasSubstr("b comes after optimizer tensors"));
  EXPECT_THAT(refusal(CountingSource({"a", "a"})), HasSubstr("a comes twice"));
  EXPECT_FALSE(std::filesystem::exists(save()));
  // Together they have the right number of bytes.
  CountingSource shifted({"a", "b"});
  shifted.elements = {7, 5};
  EXPECT_THROW(save_checkpoint({.directory = save()}, example_manifest(1), shifted), InternalError);
  EXPECT_FALSE(CheckpointReader::open_if_any(save()));
}

TEST_F(TensorSourceTest, LocalTensorsAreOrdered) {
  Arena arena("test", 4096);
  const std::vector<GlobalTensor> tensors = {
      whole_tensor("optimizer.exp_avg.a", filled(arena, {2}, 10)),
      whole_tensor("b", filled(arena, {2}, 20)),
      whole_tensor("optimizer.exp_avg.b", filled(arena, {2}, 30)),
      whole_tensor("a", filled(arena, {2}, 40))};
  LocalTensorSource source(tensors);
  std::vector<std::string> names;
  std::string bytes;
  for (int i = 0; i < source.size(); ++i) {
    names.push_back(source.info(i).name);
    EXPECT_EQ(source.info(i).global_shape, Shape{2});
    source.visit(i, [&](std::span<const std::byte> piece) { bytes += as_text(piece); });
  }
  EXPECT_THAT(names, ElementsAre("b", "a", "optimizer.exp_avg.a", "optimizer.exp_avg.b"));
  EXPECT_EQ(bytes, raw<float>({20, 21, 40, 41, 10, 11, 30, 31}));
}

}  // namespace
}  // namespace phalanx
