#pragma once
// Ends an evaluation early, alike on all ranks. A signal reaches ranks at different moments, but
// all must leave out the same microbatches, and none may hold up a pipeline by asking the others.
// So each rank says at every microbatch whether it was asked to stop, and hears what all ranks said
// some microbatches before.

#include <functional>
#include <vector>

#include "phalanx/comm/communicator.h"

namespace phalanx {

// Lives as long as one evaluation.
class StopAgreement {
 public:
  // How many microbatches pass until all know: ranks of a pipeline are never that far apart.
  static int delay(int pipeline_size) { return 2 * pipeline_size; }

  // `slots` is [delay] i32 memory, unused where the world is one rank. `is_asked` tells whether
  // this rank is asked to stop.
  StopAgreement(Communicator& world, const Tensor& slots, const std::function<bool()>& is_asked);

  // Whether this microbatch and all after it are left out: the same on all ranks.
  bool is_given_up(Context& context, int microbatch);
  // After the last microbatch: whether any was left out, or nothing more should begin. The same on
  // all ranks.
  bool end(Context& context);

 private:
  void say(Context& context, bool stop);
  bool hear(Context& context);

  Communicator& world_;
  Tensor slots_;
  const std::function<bool()>& is_asked_;
  std::vector<Work> under_way_;  // by slot
  int said_ = 0;                 // microbatches
  int heard_ = 0;
  bool stopped_ = false;  // from microbatch said_ on
};

}  // namespace phalanx
