#pragma once
// What tests of tiny models have in common: formula weights, the sums that stand for a vector (both
// as tiny_models.py has them), the machines that are compared, and how near they come.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tiny_training.h"

namespace phalanx {

// The hash of a stream, 32 bits.
std::uint32_t formula_hash(std::uint32_t index, std::uint32_t stream);

// Sets every parameter to the formula's, numbered by the byte order of their names. Returns them by
// ParamId.
std::vector<std::vector<double>> set_formula_parameters(TinyTraining& training, double scale);

// The parameters in that order; of a name that several have, the first.
std::vector<ParamId> parameters_by_name(const nn::ParamTable& table);

std::vector<std::string> names_of_parameters(const nn::ParamTable& table);

double norm_of(const std::vector<double>& values);

// `values` are within `bound` of a vector with this norm and product.
void expect_summary(const std::vector<double>& values, const nlohmann::json& expected,
                    double bound);

// How near a machine comes to double precision.
struct GoldenTolerance {
  double loss = 0.0;      // relative
  double gradient = 0.0;  // at step 1, relative to the parameter's gradient or 1e-3 of all
  double later = 0.0;     // of gradients at later steps
  double weight = 0.0;    // relative to the distance from the start
};

// A backend, and what is expected of it.
struct GoldenMachine {
  friend std::ostream& operator<<(std::ostream& out, const GoldenMachine& machine) {
    return out << machine.name;
  }
  std::string name;
  std::unique_ptr<Backend> (*backend)();
  DType dtype;
  nn::AttentionKernel attention;
  GoldenTolerance tolerance;
};
std::vector<GoldenMachine> golden_machines();

// A column of the file, [b][s], as training has it: [s, b].
std::vector<double> sequence_first(const nlohmann::json& rows);
// The stack that all of them have in common with a file's "size"; layers by the name of a number.
nn::TransformerConfig golden_transformer(const nlohmann::json& size, const char* layers,
                                         const nlohmann::json& variant,
                                         const GoldenMachine& machine);
AdamRule golden_adam(const nlohmann::json& document);

// One step with the formula's weights, of which one may be zero instead.
struct FormulaStep {
  FormulaStep(const Model& model, double scale, const GoldenMachine& machine,
              std::int64_t micro_batch, const std::vector<TinyBatch>& batches,
              bool mean_of_means = false, const std::string& zeroed = "");
  double mean(std::size_t loss) const { return losses.at(loss).mean(); }

  std::unique_ptr<Backend> backend;
  TinyTraining training;
  std::vector<TinyTraining::Loss> losses;
};
// Its losses, gradients and their norm against the file's.
void expect_first_step(const FormulaStep& step, const Model& model, const nlohmann::json& expected,
                       const GoldenMachine& machine);

// The document's steps of AdamW: losses, norms, gradients and weights after each. `batch_of` makes
// a microbatch of what the file has.
void expect_steps(const GoldenMachine& machine, const Model& model, const nlohmann::json& document,
                  const nlohmann::json& run, TinyBatch (*batch_of)(const nlohmann::json& columns));

// Every gradient of the training's last step against a list of summaries, by name.
void expect_gradients(const TinyTraining& training, const nlohmann::json& expected,
                      double grad_norm, double tolerance);
// Every parameter against such a list.
void expect_weights(const TinyTraining& training, const nlohmann::json& expected,
                    const std::vector<std::vector<double>>& start, const GoldenMachine& machine);

}  // namespace phalanx
