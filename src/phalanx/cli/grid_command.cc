#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/grid_report.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/planner/context_rows.h"

namespace phalanx {

namespace {

struct RowsDrawing {
  std::string file;
  std::int64_t sequence = 0;
  std::string cut = "sequence";
  std::vector<std::int64_t> documents;
};

void draw_rows(const RowsDrawing& drawing, std::int64_t ranks) {
  const ContextSample sample = {
      .cut = {static_cast<int>(ranks), drawing.cut == "documents" ? ContextCut::Kind::kDocuments
                                                                  : ContextCut::Kind::kSequence},
      .sequence = drawing.sequence,
      .documents = drawing.documents};
  write_file_durably(drawing.file, to_svg(context_rows(sample), sample));
}

}  // namespace

int run_grid(CommandIo& io, const Arguments& arguments) {
  ParallelSizes sizes;
  RowsDrawing drawing;
  bool data_outermost = false;
  bool json = false;
  std::string order(kDefaultOrder);
  FlagSet flags("phalanx grid", "Which rank sits where, and all groups of ranks.");
  flags.add({.name = "--world-size", .help = "Ranks of the job", .required = true}, &sizes.world);
  flags.add({.name = "--tensor-model-parallel-size", .help = "Ranks that share a layer"},
            &sizes.tensor);
  flags.add({.name = "--pipeline-model-parallel-size", .help = "Stages of a pipeline"},
            &sizes.pipeline);
  flags.add({.name = "--context-parallel-size", .help = "Ranks that share a sequence"},
            &sizes.context);
  flags.add({.name = "--expert-model-parallel-size", .help = "Ranks that share the experts"},
            &sizes.expert);
  flags.add({.name = "--expert-tensor-parallel-size",
             .help = "Ranks that share an expert (0: the tensor-parallel size)"},
            &sizes.expert_tensor);
  flags.add({.name = "--pipeline-model-parallel-split-rank",
             .help = "The stage at which the decoder begins (0: no decoder, or see below)"},
            &sizes.split_rank);
  flags.add({.name = "--encoder-pipeline-model-parallel-size",
             .help = "Stages of an encoder with ranks of its own; the sizes above are then the "
                     "decoder's"},
            &sizes.encoder_pipeline);
  flags.add({.name = "--encoder-tensor-model-parallel-size",
             .help = "Ranks that share a layer of it (0: the tensor-parallel size)"},
            &sizes.encoder_tensor);
  flags.add({.name = "--use-tp-pp-dp-mapping",
             .help = "Rank order tp-cp-ep-pp-dp: pipelines inside data parallelism",
             .excludes = "--rank-order"},
            &data_outermost);
  flags.add({.name = "--rank-order",
             .help = "The axes tp, cp, ep, dp and pp, the fastest first",
             .value_name = "AXES"},
            &order);
  flags.add(
      {.name = "--draw-rows",
       .help = "A picture of a sample - whose its rows are, and which of them see each other - "
               "is written to this file",
       .value_name = "FILE",
       .needs = "--seq-length"},
      &drawing.file);
  flags.add({.name = "--seq-length", .help = "Rows of the sample", .needs = "--draw-rows"},
            &drawing.sequence);
  flags.add({.name = "--context-parallel-cut",
             .help = "How ranks share the rows: the whole sequence, or each document",
             .choices = "sequence documents",
             .needs = "--draw-rows"},
            &drawing.cut);
  flags.add({.name = "--documents",
             .help = "The lengths of the documents of the sample; not given: it is one",
             .value_name = "N ...",
             .needs = "--draw-rows"},
            &drawing.documents);
  flags.add({.name = "--json", .help = "One JSON document on standard output"}, &json);
  flags.parse(arguments);
  if (data_outermost) order = kDataOutermostOrder;
  const ParallelGrids grids = parallel_grids(sizes, order);
  if (!drawing.file.empty()) draw_rows(drawing, sizes.context);
  io.put(json ? to_json(grids) : to_text(grids));
  return 0;
}

}  // namespace phalanx
