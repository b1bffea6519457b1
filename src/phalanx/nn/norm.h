#pragma once
// Layer normalisation or root-mean-square normalisation of rows, as the configuration says. The
// output is not saved: backward computes it again (apply). The sums over rows for the norm's own
// parameters are taken in the input pass, while the data is at hand, and added to the main
// gradients in the weight pass.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class Norm {
 public:
  // What kind of rows is normalised.
  struct Rows {
    std::int64_t width = 0;
    GradientReduction reduction = GradientReduction::kNone;
    // Of the statistics: one number for each row.
    std::function<Shape(const BatchShape&)> statistics;
    LastReader statistics_last_reader = LastReader::kWeightGradient;
  };
  // Of the tensors of a pass. Means and biases are layer normalisation's alone.
  struct Statistics {
    Tensor mean, rstd;
  };
  struct Sums {
    Tensor dweight, dbias;
  };

  // Parameters NAME.weight [width], ones (zeros where it is zero-centred), and, of layer
  // normalisation, NAME.bias [width], zeros; saved: the statistics and this microbatch's sums.
  Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& name,
       const TransformerConfig& config, const Rows& rows);
  // Of the residual stream.
  Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& name,
       const TransformerConfig& config);

  // Tensors [..., width]: all dimensions but the last make rows.
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
    forward(pass, y.rows(), x.rows(), statistics(saved));
  }
  void apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
    apply(pass, y.rows(), x.rows(), statistics(saved));
  }
  // dx = gradient + residual (optional).
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                      const Tensor& residual, const Saved& saved) const {
    backward_input(pass, dx.rows(), dy.rows(), x.rows(), residual ? residual.rows() : Tensor{},
                   statistics(saved), sums(saved));
  }
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;

  // The same over matrices [rows, width]: some of the rows, with their part of the statistics.
  Statistics statistics(const Saved& saved) const;
  Sums sums(const Saved& saved) const;
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Statistics& of_rows) const;
  void apply(Pass& pass, const Tensor& y, const Tensor& x, const Statistics& of_rows) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                      const Tensor& residual, const Statistics& of_rows, const Sums& sums) const;

 private:
  bool has_mean() const { return bias_ >= 0; }

  bool zero_centred_;
  double epsilon_;
  ParamId weight_;
  SavedId rstd_, dweight_;
  // -1: root-mean-square normalisation.
  ParamId bias_ = -1;
  SavedId mean_ = -1, dbias_ = -1;
};

}  // namespace phalanx::nn
