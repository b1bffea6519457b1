#pragma once
// A rank of a world that is not there: its programs run on the planning backend, and its messages
// go to nobody.

#include <memory>

#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/model/model.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

class PlanningRank {
 public:
  // Rank `number` of the world of `config`. Nothing of the model's size is allocated. `shared`,
  // where given: what ranks of the world have in common. All must outlive this.
  PlanningRank(const TrainConfig& config, const Model& model, const StepPrograms& programs,
               int number, const DeviceChoice& kernels, Rank::Shared* shared = nullptr);

  Rank& rank() { return rank_; }
  const RankCommunicators& communicators() const { return communicators_; }
  // Of the groups that the rank is in.
  const GroupSizes& group_sizes() const { return *sizes_; }

 private:
  std::shared_ptr<GroupSizes> sizes_ = std::make_shared<GroupSizes>();
  std::unique_ptr<Communicator> world_;
  RankCommunicators communicators_;
  RankArenas arenas_ = RankArenas::planning();
  std::unique_ptr<Backend> backend_;
  Rank rank_;
};

}  // namespace phalanx
