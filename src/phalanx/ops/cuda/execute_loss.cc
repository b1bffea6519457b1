#include "phalanx/ops/cuda/cross_entropy.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

template <typename Op>
CrossEntropyCall logits_of(const Op& op) {
  CrossEntropyCall call;
  call.rows = op.logits.shape[0];
  call.columns = op.logits.shape[1];
  call.vocabulary = op.vocabulary;
  call.logits = rows_of(op.logits);
  call.targets = address_as<std::int32_t>(op.targets);
  call.mask = address_as<float>(op.mask);
  return call;
}

template <typename Op>
CrossEntropyCall loss_of(const Op& op) {
  CrossEntropyCall call = logits_of(op);
  call.loss = address_as<float>(op.loss);
  call.dlogits = rows_of(op.dlogits);
  call.seed = address_as<float>(op.seed);
  return call;
}

}  // namespace

void execute(const CudaContext& context, const ops::CrossEntropy& op) {
  cross_entropy(context, loss_of(op));
}

void execute(const CudaContext& context, const ops::CrossEntropyStatistics& op) {
  CrossEntropyCall call = logits_of(op);
  call.first_column = op.first_column;
  cross_entropy_statistics(context, call, address_as<float>(op.statistics));
}

void execute(const CudaContext& context, const ops::VocabularyParallelCrossEntropy& op) {
  CrossEntropyCall call = loss_of(op);
  call.first_column = op.first_column;
  vocabulary_parallel_cross_entropy(context, call, address_as<float>(op.statistics),
                                    op.statistics.shape[0]);
}

void execute(const CudaContext& context, const ops::LabelMask& op) {
  label_mask(context, address_as<float>(op.mask), address_as<std::int32_t>(op.labels),
             op.labels.count());
}

void execute(const CudaContext& context, const ops::LossSeed& op) {
  loss_seed(context, address_as<float>(op.seed), address_as<float>(op.loss_scale),
            address_as<float>(op.mask), op.mask ? op.mask.count() : 0, op.factor);
}

void execute(const CudaContext& context, const ops::LossAccumulate& op) {
  loss_accumulate(context, address_as<double>(op.sum), address_as<double>(op.count),
                  address_as<float>(op.loss), address_as<float>(op.mask), op.loss.count());
}

}  // namespace phalanx::cuda
