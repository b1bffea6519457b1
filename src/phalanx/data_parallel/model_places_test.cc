#include "phalanx/data_parallel/model_places.h"

#include <gtest/gtest.h>

#include <numeric>

#include "phalanx/data_parallel/flat_layout.h"
#include "phalanx/data_parallel/stages_test_support.h"

namespace phalanx {
namespace {

TEST(ModelPlaces, OfTheWholeModelAreItsOwn) {
  for (const nn::ParamTable& table :
       {uneven_table(DType::kF32), stage_part(whole_model(), 0).table}) {
    const ModelPlaces places = whole_model_places(table);
    std::vector<ParamId> numbers(table.specs().size());
    std::iota(numbers.begin(), numbers.end(), 0);
    EXPECT_EQ(places.global, numbers);
    EXPECT_EQ(places.parameters, table.size());
    EXPECT_EQ(places.offsets, flat_layout(table).offsets);
    const ModelPlaces by_name = model_places(table, table);
    EXPECT_EQ(by_name.global, places.global);
    EXPECT_EQ(by_name.parameters, places.parameters);
    EXPECT_EQ(by_name.offsets, places.offsets);
  }
}

// Every parameter of the model is on one rank, at its own place; the copy of the word table has the
// table's place.
TEST(ModelPlaces, AreFoundByName) {
  const nn::ParamTable whole = stage_part(whole_model(), 0).table;
  const FlatLayout layout = flat_layout(whole);
  for (const StageCut& cut : all_cuts()) {
    SCOPED_TRACE(cut.name);
    std::vector<int> seen(whole.specs().size(), 0);
    for (int rank = 0; rank < cut.size(); ++rank) {
      const StagePart part = stage_part(cut, rank);
      const ModelPlaces places = places_of(part, cut, rank);
      EXPECT_EQ(places.parameters, whole.size());
      for (ParamId id = 0; id < part.table.size(); ++id) {
        const auto global = static_cast<std::size_t>(places.global[static_cast<std::size_t>(id)]);
        EXPECT_EQ(part.table[id].name, whole.specs()[global].name);
        EXPECT_EQ(places.offsets[static_cast<std::size_t>(id)], layout.offsets[global]);
        if (!is_uncounted(places, id)) ++seen[global];
      }
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  }
}

TEST(ModelPlaces, RefuseParametersOfAnotherModel) {
  nn::ParamTable part;
  part.add(whole_parameter("part", {3}, DType::kF64, {}));
  nn::ParamTable larger;
  larger.add(whole_parameter("part", {4}, DType::kF64, {}));
  EXPECT_THROW(model_places(part, uneven_table(DType::kF64)), InternalError);
  EXPECT_THROW(model_places(part, larger), InternalError);
}

}  // namespace
}  // namespace phalanx
