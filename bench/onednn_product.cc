#include "onednn_product.h"

#include <omp.h>

#include <cstdio>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::bench {
namespace {

using dnnl::memory;

dnnl::cpu_isa isa_of(cpu::Target target) {
  switch (target) {
    case cpu::Target::kScalar:
      return dnnl::cpu_isa::sse41;
    case cpu::Target::kAvx2:
      return dnnl::cpu_isa::avx2;
    case cpu::Target::kAvx512:
      return dnnl::cpu_isa::avx512_core_vnni;
    case cpu::Target::kAvx512Bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case cpu::Target::kAmx:
      return dnnl::cpu_isa::all;
  }
  return dnnl::cpu_isa::all;
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// A dense matrix, or one that lies transposed.
memory::desc matrix(std::int64_t rows, std::int64_t columns, memory::data_type type,
                    bool transposed = false) {
  return {{rows, columns}, type, transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

// Numbers that cost what any numbers cost.
void fill(const memory& tensor) {
  const std::size_t bytes = tensor.get_desc().get_size();
  constexpr std::size_t kPeriod = 251;
  const auto value = [](std::size_t i) {
    return 0.01F * (static_cast<float>(i % kPeriod) - 125.0F);
  };
  if (tensor.get_desc().data.data_type == dnnl_f32) {
    auto* const values = static_cast<float*>(tensor.get_data_handle());
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = value(i);
  } else {
    auto* const values = static_cast<bfloat16*>(tensor.get_data_handle());
    for (std::size_t i = 0; i < bytes / sizeof(bfloat16); ++i) values[i] = to_bfloat16(value(i));
  }
}

}  // namespace

std::optional<LinearProduct> linear_product(const std::string& op, const std::string& description) {
  LinearProduct product;
  long long rows = 0, n = 0, k = 0;
  if (std::sscanf(description.c_str(), "%lldx%lldx%lld", &rows, &n, &k) != 3) return {};
  product.rows = rows;
  product.n = n;
  product.k = k;
  if (op == "linear_forward") return product;
  product.pass = LinearPass::kInputGradient;
  if (op == "linear_input_gradient") return product;
  product.pass = LinearPass::kWeightGradient;
  if (op == "linear_weight_gradient") return product;
  return {};
}

struct OnednnProduct::State {
  State(const memory::desc& a, const memory::desc& b, const memory::desc& c,
        const dnnl::primitive_attr& attributes, int team)
      : a_(a, engine_),
        b_(b, engine_),
        c_(c, engine_),
        matmul_(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine_)),
        threads_(team) {
    fill(a_);
    fill(b_);
    fill(c_);
  }

  // oneDNN takes OpenMP's team.
  void run() {
    omp_set_num_threads(threads_);
    matmul_.execute(stream_, {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory a_, b_, c_;
  dnnl::matmul matmul_;
  int threads_;
};

OnednnProduct::OnednnProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
OnednnProduct::~OnednnProduct() = default;

std::unique_ptr<OnednnProduct> OnednnProduct::make(const LinearProduct& product, DType dtype,
                                                   int threads) {
  // Heard before the first product alone.
  dnnl::set_max_cpu_isa(isa_of(cpu::active_target()));
  omp_set_num_threads(threads);
  const auto [pass, rows, n, k] = product;
  const auto type = type_of(dtype);
  constexpr auto kF32 = memory::data_type::f32;
  dnnl::primitive_attr attributes;
  memory::desc a, b, c;
  switch (pass) {
    case LinearPass::kForward:
      a = matrix(rows, k, type);
      b = matrix(k, n, type, /*transposed=*/true);
      c = matrix(rows, n, type);
      break;
    case LinearPass::kInputGradient:
      a = matrix(rows, n, type);
      b = matrix(n, k, type);
      c = matrix(rows, k, type);
      break;
    case LinearPass::kWeightGradient: {
      a = matrix(n, rows, type, /*transposed=*/true);
      b = matrix(rows, k, type);
      c = matrix(n, k, kF32);
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
      break;
    }
  }
  try {
    return std::unique_ptr<OnednnProduct>(
        new OnednnProduct(std::make_unique<State>(a, b, c, attributes, threads)));
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return nullptr;
  }
}

void OnednnProduct::run() { state_->run(); }

}  // namespace phalanx::bench
