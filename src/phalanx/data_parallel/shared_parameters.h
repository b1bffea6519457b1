#pragma once
// Parameters that several places of a model use; such a use is a role (ParamRole). Which pipeline
// ranks hold them, and how the gradients of all roles are summed for every holder.
//
// The sum is always ((role 0 + role 1) + role 2) ..., whichever rank has a role. An all-reduce in
// the order of holders adds from the left, so it suffices if the first holder has the first roles
// and every other holder one role. Otherwise the sum is a chain: each holder adds its roles to the
// sum of the previous one, and the last holder sends the sum to all.

#include <span>
#include <string>
#include <vector>

#include "phalanx/nn/param_table.h"

namespace phalanx {

// Consecutive roles of one holder.
struct RoleRun {
  int holder = 0;          // index into holders
  std::vector<int> roles;  // ParamRole::order
};

struct SharedParameter {
  std::string name;
  std::string shared_by = {};     // the name of the holders' group
  std::vector<int> holders = {};  // ranks of the pipeline, in the order of their first roles
  std::vector<RoleRun> runs = {};
  bool is_chain = false;  // an all-reduce is not enough

  // The first holder, the pipeline rank that counts and writes the parameter.
  int counting_holder() const;
};

// The shared parameters of a model in the order of its table. Its stages are the chunks of `whole`;
// stage s is on rank rank_of_stage[s] of the pipeline.
std::vector<SharedParameter> shared_parameters(const nn::ParamTable& whole,
                                               std::span<const int> rank_of_stage);

// The work of a rank for a shared parameter that it holds.
struct SharedSum {
  // Consecutive roles of this rank.
  struct Run {
    std::vector<int> roles;  // numbers in its table
    int number = 0;          // among the runs of all holders
    int previous = -1;       // the holder that sends its sum here; -1: none
    int next = -1;           // the holder that receives the sum; -1: none
  };
  ParamId id = -1;
  int parameter = 0;  // index into the model's shared parameters
  int holders = 1;
  bool is_chain = false;
  int last_holder = 0;  // of a chain: sends the whole sum to all
  std::vector<Run> runs;
};

// One for each of `parameters` that this pipeline rank, with table `table`, holds and trains; in
// their order.
std::vector<SharedSum> shared_sums(const nn::ParamTable& table,
                                   std::span<const SharedParameter> parameters, int pipeline_rank);
// The table is the whole model.
std::vector<SharedSum> shared_sums(const nn::ParamTable& whole);

}  // namespace phalanx
