#include "phalanx/ops/cases/case.h"

namespace phalanx::ops {

CaseTable make_case_table() {
  CaseTable table;
  add_linear_cases(table);
  add_grouped_linear_cases(table);
  add_grouped_activation_cases(table);
  add_permute_cases(table);
  add_norm_cases(table);
  add_activation_cases(table);
  add_dropout_cases(table);
  add_embedding_cases(table);
  add_attention_cases(table);
  add_relative_bias_cases(table);
  add_rotary_cases(table);
  add_cross_entropy_cases(table);
  add_optimizer_cases(table);
  add_reduce_cases(table);
  add_elementwise_cases(table);
  add_random_cases(table);
  add_router_cases(table);
  add_balance_cases(table);
  return table;
}

}  // namespace phalanx::ops
