#pragma once
// `phalanx score` of a classifier: how good it is on labelled rows.

#include "phalanx/cli/model_flags.h"

namespace phalanx {

struct RowScoreOptions {
  bool lines = false;  // also print each row
  bool json = false;
};

// Reads rows from standard input, in the columns of the table that the classifier was trained on,
// and prints accuracy, F1 and loss. Returns the exit status.
int score_rows(CommandIo& io, const TrainedModel& trained, const RowScoreOptions& options);

}  // namespace phalanx
