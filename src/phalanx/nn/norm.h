#pragma once
// Layer normalisation or root-mean-square normalisation of rows, as configured. The output is not
// saved: backward recomputes it (apply). The input pass computes the norm's own gradients, because
// the data is at hand, and the weight pass adds them to the main gradients.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class Norm {
 public:
  // The rows that are normalised.
  struct Rows {
    std::int64_t width = 0;
    AxisSet summed_over = kRowAxes;
    // The shape of the statistics: one number for each row.
    std::function<Shape(const BatchShape&)> statistics;
    LastReader statistics_last_reader = LastReader::kWeightGradient;
  };
  // Tensors of a pass. Only layer normalisation has means and biases.
  struct Statistics {
    Tensor mean, rstd;
  };
  struct Sums {
    Tensor dweight, dbias;
  };

  // Parameters NAME.weight [width], ones (zeros if zero-centred), and for layer normalisation
  // NAME.bias [width], zeros. Saved: the statistics and this microbatch's sums, which the input
  // pass computes for a frozen norm too.
  Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& name,
       const TransformerConfig& config, const Rows& rows);
  // For rows of the residual stream.
  Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& name,
       const TransformerConfig& config);

  // Tensors are [..., width]: all dimensions but the last are rows.
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

  // The same for matrices [rows, width]: some of the rows, with their part of the statistics.
  Statistics statistics(const Saved& saved) const;
  Sums sums(const Saved& saved) const;
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Statistics& of_rows) const;
  void apply(Pass& pass, const Tensor& y, const Tensor& x, const Statistics& of_rows) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                      const Tensor& residual, const Statistics& of_rows, const Sums& sums) const;

  bool trains() const { return trains_weight_ || trains_bias_; }

 private:
  bool has_mean() const { return bias_ >= 0; }

  bool zero_centred_;
  double epsilon_;
  bool trains_weight_ = true;
  bool trains_bias_ = false;
  ParamId weight_;
  SavedId rstd_, dweight_;
  // -1: root-mean-square normalisation.
  ParamId bias_ = -1;
  SavedId mean_ = -1, dbias_ = -1;
};

}  // namespace phalanx::nn
