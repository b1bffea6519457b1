#pragma once
// fp32 main gradients, and accumulators of the roles of shared parameters. They are dense ranges of
// a flat buffer (flat_layout.h), or where gradients are cut too, of this a rank's shard: then those
// of a group of parameters are whole only while a microbatch's passes add to them, in memory that
// whoever plans them lends (place()).

#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/shared_parameters.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

class GradientStore {
 public:
  // The rows that occur in an accumulator of rows are at most `tokens_per_step` of its sequence.
  // The layout must outlive this.
  GradientStore(const StateLayout& states, std::vector<SharedSum> shared, DType dtype,
                const std::vector<std::int64_t>& tokens_per_step, Arena& arena,
                const StateFiles& files = {});
  // Of a table that is the whole model.
  GradientStore(const StateLayout& states, DType dtype, std::int64_t tokens_per_step, Arena& arena);

  nn::Gradients gradients() const { return {gradients_, roles_, begun()}; }
  const Tensor& gradient(ParamId id) const { return gradients_[static_cast<std::size_t>(id)]; }
  DType dtype() const { return dtype_; }
  // All gradients, or of those that are cut this rank's that lie in memory.
  const Tensor& flat() const { return states_->cuts_gradients() ? shard_.memory() : flat_; }
  // InternalError where it lies in a file.
  Tensor gradient(const Segment& segment) const {
    return states_->cuts_gradients() ? shard_.in_memory(segment)
                                     : flat_.slice(0, segment.flat, segment.count);
  }
  // Of a visit of the tiles.
  TileAccess access(bool reads, bool writes) const {
    return {
        .column = states_->cuts_gradients() ? &shard_ : nullptr, .reads = reads, .writes = writes};
  }
  Tensor gradient(const Segment& segment, const Tensor& tile) const {
    return tile ? part_of(tile, *states_, segment) : gradient(segment);
  }
  // What this rank updates of a bucket; of gradients that are cut an empty tensor where it is not
  // one piece of memory.
  Tensor own(std::size_t bucket) const;
  // Of gradients that are cut: what this rank updates of a bucket becomes `sum`, or more by it.
  void set(Context& context, std::size_t bucket, const Tensor& sum);
  void add(Context& context, std::size_t bucket, const Tensor& sum);
  // A bucket's gradients of all ranks' shards; while they are whole.
  Tensor whole(std::size_t bucket) const;
  // How the roles of this rank's shared parameters become one sum.
  const std::vector<SharedSum>& shared() const { return shared_; }

  // Of gradients that are cut: those of a group are in `memory`, of its region's size, from here
  // on.
  void place(int group, const Tensor& memory);

  // Once, before the first step: no slot of accumulators of rows is in use, and what no parameter
  // owns is zero for good.
  void initialise(Context& context) const;
  // Before a step, or where gradients are cut a microbatch: whatever the main gradients hold, the
  // first pass over each overwrites it.
  void begin_update() const;
  // Zeros the main gradients, to which all passes add.
  void clear(Context& context) const;
  // Makes the main gradient the sum of the roles that a run begins with, or adds the run's to the
  // sum of those before, which is there. Before any reduction over data parallelism.
  void join(Context& context, const SharedSum& sum, const SharedSum::Run& run) const;
  // Of a rank that holds all roles: every shared parameter's.
  void join_all(Context& context) const;
  // InternalError where a gradient is not of this update: no pass wrote it.
  void expect_complete() const;

 private:
  const nn::ParamTable& table() const { return states_->table(); }
  std::span<bool> begun() const { return {begun_.get(), gradients_.size() + roles_.size()}; }
  void add_roles(DType dtype, const std::vector<std::int64_t>& tokens_per_step, Arena& arena);
  // The role of a run whose accumulator is the main gradient, or -1.
  int role_in_place(const SharedSum& sum, const SharedSum::Run& run) const;
  // The main gradient of a parameter is this from here on.
  void resolve(ParamId id, const Tensor& gradient);
  void put(Context& context, std::size_t bucket, const Tensor& sum, bool adds);

  const StateLayout* states_;
  DType dtype_;
  Tensor flat_;        // of gradients that are not cut
  StateColumn shard_;  // of those that are
  TileStaging* staging_;
  std::vector<Tensor> gradients_;  // by id
  std::vector<Tensor> whole_;      // by group, of gradients that are cut: while it is placed
  std::vector<SharedSum> shared_;
  std::vector<nn::RoleGradient> roles_;
  std::unique_ptr<bool[]> begun_;  // by id, then by role: whether this update has a sum
};

}  // namespace phalanx
