#include "phalanx/cli/shapes_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ShapesFile, IsReadAsItIsWritten) {
  WantedShapes shapes;
  shapes.products = {{"linear_weight_gradient", 512, 768, 256}};
  shapes.attention = {{"attention_forward", {256, 2, 4, 4, 64}}};
  const std::string text = to_json(shapes);
  EXPECT_EQ(to_json(wanted_shapes_from_json(text, "f")), text);
}

TEST(ShapesFile, OfAnotherKindIsRefused) {
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
