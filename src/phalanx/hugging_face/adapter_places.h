#pragma once
// Where the low-rank adapters of a model are: ours belong to parts of the fused linears, those of
// Hugging Face's folders to the modules that they are made of.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flags/model_arguments.h"
#include "phalanx/hugging_face/tensor_table.h"

namespace phalanx::hugging_face {

// In names of parameters behind that of the linear: "….linear_qkv.lora.q.A.weight".
inline constexpr std::string_view kAdapterMark = ".lora.";

// Rows [first, first + count) of a linear's weight.
struct LinearRows {
  std::int64_t first = 0, count = 0;
};

// A part of a linear that has an adapter of its own: A is [rank, in], B [rows of the part, rank].
struct LinearPart {
  std::string linear;            // "decoder.layers.0.self_attention.linear_qkv"
  std::string word;              // of --lora-targets: "q"
  std::vector<LinearRows> rows;  // in the linear's weight, ascending; B has them in this order

  std::int64_t row_count() const;
  // The number among the part's rows of a row of the linear; empty if it is not of the part.
  std::optional<std::int64_t> number_of(std::int64_t linear_row) const;
  std::string a_name() const { return linear + std::string(kAdapterMark) + word + ".A.weight"; }
  std::string b_name() const { return linear + std::string(kAdapterMark) + word + ".B.weight"; }
};

// The part of a linear that a word of --lora-targets means in a model. ConfigError if the linear
// has no such part.
LinearPart linear_part(const ModelArguments& model, const std::string& linear,
                       const std::string& word);

// A module of theirs that may have an adapter, and the weight of ours that has its rows.
struct AdapterModule {
  std::string name;    // theirs: "model.layers.0.self_attn.q_proj"
  std::string linear;  // ours
  std::string word;    // of our part that this module becomes
  std::int64_t layer = 0;
  std::int64_t rows = 0, columns = 0;
  bool is_conv1d = false;        // its weight is stored as [in, out]
  std::vector<RowBlock> blocks;  // of its rows among those of our linear

  // The last word of its name, "q_proj".
  std::string last_name() const { return name.substr(name.rfind('.') + 1); }
};

// The linears in the layers of a table, in its order.
std::vector<AdapterModule> adapter_modules(const TensorTable& table);

}  // namespace phalanx::hugging_face
