#pragma once
// Parameters that several places of a model use (ParamRole) over the ranks of a pipeline: who holds
// them, and how the sums of their roles become one sum on every holder.
//
// The sum is ((role 0 + role 1) + role 2) ..., whoever has the roles. A holder that is first has
// the sum of the roles in front; where each of the others has one role, an all-reduce in the order
// of the holders makes the rest, for it adds from the left. Else the sum goes from holder to
// holder, each adding its roles in order, and the last one sends it to all.

#include <span>
#include <string>
#include <vector>

#include "phalanx/nn/param_table.h"

namespace phalanx {

// Roles that follow each other on one holder.
struct RoleRun {
  int holder = 0;          // index into holders
  std::vector<int> roles;  // by their order among all of the model
};

struct SharedParameter {
  std::string name;
  std::string shared_by = {};     // what the group of the holders is called
  std::vector<int> holders = {};  // ranks of the pipeline, by their first role
  std::vector<RoleRun> runs = {};
  // One all-reduce is not enough.
  bool is_chain = false;

  // The one that counts and writes the parameter: the first of the pipeline.
  int counting_holder() const;
};

// Of a model whose stages are the chunks of `whole`, stage s on rank rank_of_stage[s] of a
// pipeline. In the order of the table.
std::vector<SharedParameter> shared_parameters(const nn::ParamTable& whole,
                                               std::span<const int> rank_of_stage);

// What a rank does for a shared parameter that it holds.
struct SharedSum {
  // Consecutive roles of this rank, as numbers of its table.
  struct Run {
    std::vector<int> roles;
    int number = 0;     // among the runs of all holders
    int previous = -1;  // holder that the sum so far comes from; -1: it begins here
    int next = -1;      // and goes to; -1: it ends here
  };
  ParamId id = -1;
  int parameter = 0;  // index into the model's shared parameters
  int holders = 1;
  bool is_chain = false;
  int last_holder = 0;  // of a chain: who sends the whole sum to all
  std::vector<Run> runs;
};

// Of those of `parameters` that this rank of the pipeline holds, whose table is `table`; in their
// order.
std::vector<SharedSum> shared_sums(const nn::ParamTable& table,
                                   std::span<const SharedParameter> parameters, int pipeline_rank);
// Of a table that is the whole model.
std::vector<SharedSum> shared_sums(const nn::ParamTable& whole);

}  // namespace phalanx
