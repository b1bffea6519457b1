#include "phalanx/clock/wanted_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

OpCost product(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.name = name, .product = {.m = m, .n = n, .k = k, .batch = 1}};
}

TEST(WantedShapes, AreLayersOfEveryPassAndEachOnce) {
  WantedShapes shapes;
  for (int i = 0; i < 2; ++i) {
    shapes.add(product("linear_forward", 512, 768, 256));
    shapes.add(product("linear_input_gradient", 512, 256, 768));
    shapes.add(product("linear_weight_gradient", 768, 256, 512));
  }
  ASSERT_THAT(shapes.products, SizeIs(3));
  for (const WantedProduct& layer : shapes.products) {
    EXPECT_EQ(layer.rows, 512);
    EXPECT_EQ(layer.n, 768);
    EXPECT_EQ(layer.k, 256);
  }
}

TEST(WantedShapes, AreThoseThatAreMeasured) {
  WantedShapes shapes;
  OpCost experts = product("linear_forward", 512, 768, 256);
  experts.product.m_groups = 4;
  shapes.add(experts);
  shapes.add({.name = "copy"});
  OpCost attention{.name = "attention_backward", .attention = {2, 4, 256, 256, 64, 0.5}};
  shapes.add(attention);
  shapes.add(attention);
  attention.attention.keys = 512;
  shapes.add(attention);
  EXPECT_THAT(shapes.products, SizeIs(0));
  ASSERT_THAT(shapes.attention, SizeIs(1));
  EXPECT_EQ(shapes.attention.front().size, (ops::AttentionSize{256, 2, 4, 4, 64}));
}

TEST(WantedShapes, AreReadAsTheyAreWritten) {
  WantedShapes shapes;
  shapes.add(product("linear_weight_gradient", 768, 256, 512));
  shapes.add({.name = "attention_forward", .attention = {2, 4, 256, 256, 64, 0.5}});
  const std::string text = to_json(shapes);
  EXPECT_EQ(to_json(wanted_shapes_from_json(text, "f")), text);
}

TEST(WantedShapes, OfAnotherFileAreRefused) {
  const auto error = [](const char* text) {
    return error_of<DataError>([&] { wanted_shapes_from_json(text, "shapes.json"); });
  };
  EXPECT_THAT(error("{"), HasSubstr("shapes.json: it is no JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("no list products"));
  EXPECT_THAT(error(R"({"products": []})"), HasSubstr("no list attention"));
  EXPECT_THAT(error(R"({"products": [{"op": "copy"}], "attention": []})"),
              AllOf(HasSubstr("copy"), HasSubstr("--write-shapes")));
  EXPECT_THAT(error(R"({"products": [{"op": "linear_forward", "rows": 0}], "attention": []})"),
              HasSubstr("rows of"));
  EXPECT_THAT(error(R"({"products": [7], "attention": []})"), HasSubstr("7"));
}

}  // namespace
}  // namespace phalanx
