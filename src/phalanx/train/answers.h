#pragma once
// The answers of a model that is trained to the conversations of --answer-prompts: the likeliest
// tokens, by the weights where they are. The first rank gives them; training does not notice.

#include <memory>

#include "phalanx/inference/lent_model.h"
#include "phalanx/rendezvous/rank_watch.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/run_end.h"
#include "phalanx/train/run_log.h"

namespace phalanx {

class Answers {
 public:
  // Takes the memory that is planned for them. All must outlive this.
  Answers(const RunSetup& setup, const StopToken& stop, Rank& rank, RankWatch& watch, RunLog& log);

  // After an iteration that pauses: gives the answers where they are due. A signal that asks to
  // stop comes first: then there are none.
  void after(const RunState& state);

 private:
  AnswersReport answered(const RunState& state);

  const RunSetup& setup_;
  const StopToken& stop_;
  Rank& rank_;
  RankWatch& watch_;
  RunLog& log_;
  std::unique_ptr<LentModel> model_;  // the first rank's, where the run gives answers
};

}  // namespace phalanx
