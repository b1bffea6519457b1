#include "phalanx/saving/run_checkpoint.h"

#include <cstring>
#include <vector>

#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

class RunCheckpointTest : public RunTest {
 protected:
  // Whether an element of a parameter, counted within it, is in the global tensor.
  static bool is_global(const ParamSpec& spec, std::int64_t element) {
    const std::int64_t row = element / matrix_columns(spec.local_shape);
    return std::ranges::any_of(spec.boxes, [row](const ParamBox& box) {
      return row >= box.local_row && row < box.local_row + box.rows;
    });
  }
  static void poison(const Tensor& tensor) {
    std::memset(tensor.data(), 0xff, static_cast<std::size_t>(tensor.bytes()));
  }
  // How many elements of a part of a parameter, from `begin` on, are padding; all must be zero.
  static int expect_zero_padding(const ParamSpec& spec, const Tensor& part, std::int64_t begin) {
    const std::vector<std::byte> zero(static_cast<std::size_t>(size_of(part.dtype)));
    const auto* bytes = static_cast<const std::byte*>(part.data());
    int found = 0;
    for (std::int64_t i = 0; i < part.count(); ++i) {
      if (is_global(spec, begin + i)) continue;
      ++found;
      EXPECT_EQ(std::memcmp(bytes + i * size_of(part.dtype), zero.data(), zero.size()), 0)
          << spec.name << ", element " << begin + i;
    }
    return found;
  }
};

// Independent of what was in memory before.
TEST_F(RunCheckpointTest, ALoadLeavesTheVocabularysPaddingZero) {
  for (const bool bf16 : {false, true}) {
    const std::string save = bf16 ? "bf16" : "fp32";
    TrainConfig c = with_flags(config(save), "--micro-batch-size 1");
    c.model.bf16 = bf16;
    c.run.eval_iters = 0;
    train(c);
    c.run.load = c.run.save;
    for (const Layout& layout :
         {Layout{}, Layout{.tensor = 2, .sequence = true}, Layout{.data = 2, .sharded = true},
          Layout{.pipeline = 2}, Layout{.data = 2, .zero = 3}}) {
      for (const bool with_optimizer : {true, false}) {
        c.run.no_load_optim = !with_optimizer;
        const RunSetup setup(with_layout(c, layout));
        run_ranks(setup.config, *setup.model, [&](Rank& rank) {
          const ParameterStore& parameters = rank.parameters();
          poison(parameters.flat());
          for (const Segment& segment : parameters.states().segments()) {
            poison(parameters.main(segment));
            poison(rank.optimizer().state("exp_avg", segment));
            poison(rank.optimizer().state("exp_avg_sq", segment));
          }
          load_run(setup.config, *setup.checkpoint, rank);
          int weights = 0;
          for (ParamId id = 0; id < rank.table().size(); ++id) {
            if (!parameters.weight(id)) continue;
            weights += expect_zero_padding(rank.table()[id], parameters.weight(id), 0);
          }
          for (const Segment& segment : parameters.states().segments()) {
            if (parameters.weight(segment.id)) continue;
            weights += expect_zero_padding(rank.table()[segment.id], parameters.weight(segment),
                                           segment.begin);
          }
          // 49 ids of 64; the second of two ranks has all of the padding.
          const bool has_padding = rank.ranks().coordinates.tensor == layout.tensor - 1;
          if (layout.zero < 3) {
            EXPECT_EQ(weights, has_padding ? 15 * 32 : 0);
          }
          for (const Segment& segment : parameters.states().segments()) {
            const ParamSpec& spec = rank.table()[segment.id];
            for (const Tensor& part :
                 {parameters.main(segment), rank.optimizer().state("exp_avg", segment),
                  rank.optimizer().state("exp_avg_sq", segment)}) {
              expect_zero_padding(spec, part, segment.begin);
            }
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace phalanx
