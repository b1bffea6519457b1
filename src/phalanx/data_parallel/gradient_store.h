#pragma once
// fp32 main gradients, and accumulators for the roles of shared parameters. Main gradients are
// dense ranges of a flat buffer (flat_layout.h). If gradients are cut, only the rank's shard is
// kept. A group's whole gradients then exist only while passes of a microbatch add to them, in
// saved memory given to place_group().

#include <memory>
#include <span>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/shared_parameters.h"
#include "phalanx/nn/pass.h"

namespace phalanx {

class GradientStore {
 public:
  // A row accumulator has room for the `tokens_per_step` of its sequence. The layout must outlive
  // this.
  GradientStore(const StateLayout& states, std::vector<SharedSum> shared, DType dtype,
                const std::vector<std::int64_t>& tokens_per_step, Arena& arena,
                const StateFiles& files = {});
  // The table is the whole model.
  GradientStore(const StateLayout& states, DType dtype, std::int64_t tokens_per_step, Arena& arena);

  nn::Gradients gradients() { return {gradients_, roles_, begun()}; }
  // An empty tensor for a parameter that is not trained.
  const Tensor& gradient(ParamId id) const { return gradients_[static_cast<std::size_t>(id)]; }
  DType dtype() const { return dtype_; }
  // All gradients; if they are cut, the part of this rank's shard that is in memory.
  const Tensor& flat() const { return states_->cuts_gradients() ? shard_.memory() : flat_; }
  // InternalError where it lies in a file.
  Tensor gradient(const Segment& segment) const {
    return states_->cuts_gradients() ? shard_.in_memory(segment)
                                     : flat_.slice(0, segment.flat, segment.count);
  }
  // For visit_tiles().
  TileAccess access(bool reads, bool writes) const {
    return {
        .column = states_->cuts_gradients() ? &shard_ : nullptr, .reads = reads, .writes = writes};
  }
  Tensor gradient(const Segment& segment, const Tensor& tile) const {
    return tile ? part_of(tile, *states_, segment) : gradient(segment);
  }
  // The part of a bucket that this rank updates. Empty if gradients are cut and some of it is in a
  // file.
  Tensor own(std::size_t bucket) const;
  // If gradients are cut: sets this rank's part of a bucket to `sum`, or adds `sum` to it.
  void set(Context& context, std::size_t bucket, const Tensor& sum);
  void add(Context& context, std::size_t bucket, const Tensor& sum);
  // The whole bucket's gradients, while they exist.
  Tensor whole(std::size_t bucket) const;
  // How the roles of this rank's shared parameters are summed.
  const std::vector<SharedSum>& shared() const { return shared_; }

  // If gradients are cut: the memory of a group's whole gradients from now on.
  void place_group(int group, const Tensor& memory);

  // Before the first step: empties row accumulators and zeros the padding for good.
  void initialise(Context& context);
  // Before a step, or before a microbatch if gradients are cut. The first pass over each main
  // gradient overwrites it.
  void begin_update();
  // Zeros the main gradients, so that all passes add to them.
  void clear(Context& context);
  // Sums the roles of a run into the main gradient, before any reduction over data-parallel ranks.
  // A run that continues a chain adds them to the previous holder's sum.
  void join(Context& context, const SharedSum& sum, const SharedSum::Run& run);
  // Joins every shared parameter, on a rank that holds all roles.
  void join_all(Context& context);
  // InternalError if no pass of this update wrote a gradient.
  void expect_complete() const;

 private:
  const nn::ParamTable& table() const { return states_->table(); }
  std::span<bool> begun() { return {begun_.get(), gradients_.size() + roles_.size()}; }
  void add_roles(DType dtype, const std::vector<std::int64_t>& tokens_per_step, Arena& arena);
  // The role of a run that accumulates in the main gradient, or -1.
  int role_in_place(const SharedSum& sum, const SharedSum::Run& run) const;
  // Sets the tensor of a parameter's main gradient.
  void set_gradient(ParamId id, const Tensor& gradient);
  void set_or_add(Context& context, std::size_t bucket, const Tensor& sum, bool adds);

  const StateLayout* states_;
  DType dtype_;
  Tensor flat_;        // if gradients are not cut
  StateColumn shard_;  // if gradients are cut
  TileStaging* staging_;
  std::vector<Tensor> gradients_;  // by id
  std::vector<Tensor> whole_;      // by group: the memory of place_group()
  std::vector<SharedSum> shared_;
  std::vector<nn::RoleGradient> roles_;
  std::unique_ptr<bool[]> begun_;  // by id, then by role: a pass of this update wrote it
};

}  // namespace phalanx
