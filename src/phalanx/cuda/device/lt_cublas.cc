// lt.h on cuBLASLt, which is opened when the first product is asked for: it is half a gigabyte, and
// a program that only looks at a device needs it not.

// Where there is no toolkit this file is empty.
#if defined(PHALANX_CUDA_TOOLKIT)

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/cuda/lt.h"
#include "phalanx/cuda/lt_workspace.h"

namespace phalanx::cuda {
namespace {

struct Library {
  void* handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmulDescCreate) description_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) description_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) description_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (function == nullptr) throw UnavailableError("cuBLASLt has no {}", name);
  }

  Library() {
    // PHALANX_CUBLASLT names the file where the loader does not find it.
    const char* named = std::getenv("PHALANX_CUBLASLT");
    const std::string names[] = {
        named == nullptr ? std::string() : std::string(named),
        "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR),
        "/usr/local/cuda/lib64/libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
    for (const std::string& name : names) {
      if (!name.empty() && handle == nullptr) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == nullptr) {
      throw UnavailableError(
          "libcublasLt.so.{} is not found: install cuBLAS of CUDA {}, or name the file in "
          "PHALANX_CUBLASLT",
          CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR);
    }
    find(create, "cublasLtCreate");
    find(destroy, "cublasLtDestroy");
    find(version, "cublasLtGetVersion");
    find(description_create, "cublasLtMatmulDescCreate");
    find(description_destroy, "cublasLtMatmulDescDestroy");
    find(description_set, "cublasLtMatmulDescSetAttribute");
    find(layout_create, "cublasLtMatrixLayoutCreate");
    find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    find(preference_create, "cublasLtMatmulPreferenceCreate");
    find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(matmul, "cublasLtMatmul");
  }
};

const Library& library() {
  static const Library library;
  return library;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw SystemError("cuBLASLt: {} failed with status {}", what, static_cast<int>(status));
}

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      throw InternalError("products have no operands of {}", name_of(type));
  }
}

// The descriptors of a product.
struct Description {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t d = nullptr;

  Description() = default;
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() {
    if (operation != nullptr) library().description_destroy(operation);
    for (cublasLtMatrixLayout_t layout : {a, b, d}) {
      if (layout != nullptr) library().layout_destroy(layout);
    }
  }

  void make(const LtProduct& product) {
    const Library& lt = library();
    const bool f32 = product.type_ab == DType::kF32;
    check(lt.description_create(
              &operation, f32 && product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
              CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const cublasOperation_t of_a = product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_b = product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, of_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of_b);
    if (product.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(product.type_d));
    }
    const auto layout = [&](cublasLtMatrixLayout_t& to, DType type, bool transposed,
                            std::int64_t rows, std::int64_t columns, std::int64_t ld) {
      check(lt.layout_create(&to, data_type(type),
                             static_cast<std::uint64_t>(transposed ? columns : rows),
                             static_cast<std::uint64_t>(transposed ? rows : columns), ld),
            "cublasLtMatrixLayoutCreate");
    };
    layout(a, product.type_ab, product.transpose_a, product.m, product.k, product.lda);
    layout(b, product.type_ab, product.transpose_b, product.k, product.n, product.ldb);
    layout(d, product.type_d, false, product.m, product.n, product.ldd);
  }

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t which, const Value& value) const {
    check(library().description_set(operation, which, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }
};

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DType, DType,
                       std::int64_t, std::int64_t, std::int64_t, bool, bool, bool>;
Key key_of(const LtProduct& p) {
  return {p.m,   p.n,   p.k,   p.transpose_a, p.transpose_b, p.type_ab, p.type_d,
          p.lda, p.ldb, p.ldd, p.accumulate,  p.bias,        p.tf32};
}

}  // namespace

class Lt::Body {
 public:
  explicit Body(int device) : device_(device), bytes_(lt_workspace_bytes(facts(device).major)) {
    check(library().create(&handle_), "cublasLtCreate");
  }
  ~Body() { library().destroy(handle_); }

  const Description& describe(const LtProduct& product) {
    auto& description = descriptions_[key_of(product)];
    if (!description) {
      auto made = std::make_unique<Description>();
      made->make(product);
      description = std::move(made);
    }
    return *description;
  }

  int device_;
  std::int64_t bytes_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Description>> descriptions_;
  std::map<Key, LtAlgorithm> chosen_;
};

Lt::Lt(int device) : body_(std::make_unique<Body>(device)) {}
Lt::~Lt() = default;

std::int64_t Lt::version() const { return static_cast<std::int64_t>(library().version()); }
std::int64_t Lt::workspace_bytes() const { return body_->bytes_; }

LtAlgorithm Lt::choose(const LtProduct& product) {
  // The library takes as long as a small product to answer.
  const auto [known, is_new] = body_->chosen_.try_emplace(key_of(product));
  if (!is_new) return known->second;
  const Library& lt = library();
  const Description& description = body_->describe(product);
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    check(lt.preference_set(preference, which, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto workspace = static_cast<std::uint64_t>(body_->bytes_);
  const std::uint32_t alignment = 16;
  // Not in place, which adds by atomics in any order.
  const std::uint32_t schemes =
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  const cublasStatus_t status =
      lt.heuristic(body_->handle_, description.operation, description.a, description.b,
                   description.d, description.d, preference, 1, &result, &count);
  lt.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    body_->chosen_.erase(known);
    throw SystemError("cuBLASLt has no algorithm for a product of {} x {} x {} (status {})",
                      product.m, product.n, product.k, static_cast<int>(status));
  }
  LtAlgorithm& algorithm = known->second;
  static_assert(sizeof(algorithm.words) == sizeof(result.algo.data));
  std::memcpy(algorithm.words.data(), result.algo.data, sizeof(algorithm.words));
  return algorithm;
}

void Lt::multiply(Queue queue, const LtProduct& product, const LtAlgorithm& algorithm,
                  const LtOperands& operands, std::byte* workspace) {
  const Description& description = body_->describe(product);
  if (product.bias) description.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  cublasLtMatmulAlgo_t chosen{};
  std::memcpy(chosen.data, algorithm.words.data(), sizeof(chosen.data));
  const float alpha = 1.0F;
  const float beta = product.accumulate ? 1.0F : 0.0F;
  check(library().matmul(body_->handle_, description.operation, &alpha, operands.a, description.a,
                         operands.b, description.b, &beta, operands.d, description.d, operands.d,
                         description.d, &chosen, workspace, static_cast<std::size_t>(body_->bytes_),
                         reinterpret_cast<cudaStream_t>(queue.id)),  // NOLINT
        "cublasLtMatmul");
}

}  // namespace phalanx::cuda

#endif  // defined(PHALANX_CUDA_TOOLKIT)
