#include "phalanx/ops/cpu/product_cache.h"

#include <omp.h>

#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {
namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  PHALANX_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "no matrix product of {}",
                name_of(dtype));
  return dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// The tiles of a product share the layout of B whatever their m, so one m speaks for all.
constexpr std::int64_t kLayoutRows = 256;

struct Hash {
  static std::size_t of(std::initializer_list<std::int64_t> values) {
    std::uint64_t hash = 0;
    for (const auto value : values) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
  std::size_t operator()(const BlockProduct& s) const {
    return of({s.m, s.n, s.k, static_cast<int>(s.dtype), s.a_stride, s.b_row_stride,
               s.b_column_stride, s.c_stride, s.accumulate});
  }
  std::size_t operator()(const BlockCopy& s) const {
    return of({s.rows, s.columns, static_cast<int>(s.dtype), s.from_row_stride,
               s.from_column_stride, s.to_row_stride});
  }
};

struct PackKey {
  BlockProduct product;
  std::int64_t row_stride, column_stride;

  friend bool operator==(const PackKey&, const PackKey&) = default;
};
struct PackHash {
  std::size_t operator()(const PackKey& key) const {
    return Hash()(key.product) ^ Hash::of({key.row_stride, key.column_stride});
  }
};

// oneDNN wants pointers to mutable memory also where it only reads.
void* readable(const void* data) { return const_cast<void*>(data); }

class ProductKernel final : public ProductCache::Kernel {
 public:
  ProductKernel(const dnnl::engine& engine, const dnnl::matmul::primitive_desc& description)
      : engine_(engine),
        a_(description.src_desc()),
        b_(description.weights_desc()),
        c_(description.dst_desc()),
        scratch_(description.scratchpad_desc()),
        primitive_(description) {}

  bool run(const void* a, const void* b, void* c, void* scratch) const noexcept override try {
    dnnl::stream stream(engine_);
    primitive_.execute(stream, {{DNNL_ARG_SRC, memory(a_, engine_, readable(a))},
                                {DNNL_ARG_WEIGHTS, memory(b_, engine_, readable(b))},
                                {DNNL_ARG_DST, memory(c_, engine_, c)},
                                {DNNL_ARG_SCRATCHPAD, memory(scratch_, engine_, scratch)}});
    return true;
  } catch (...) {
    return false;
  }

 private:
  dnnl::engine engine_;
  memory::desc a_, b_, c_, scratch_;
  dnnl::matmul primitive_;
};

class ReorderKernel final : public ProductCache::Kernel {
 public:
  ReorderKernel(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to)
      : engine_(engine),
        from_(from),
        to_(to),
        primitive_(dnnl::reorder::primitive_desc(engine, from, engine, to)) {}

  bool run(const void* a, const void* /*b*/, void* c, void* /*scratch*/) const noexcept override
      try {
    dnnl::stream stream(engine_);
    const memory from(from_, engine_, readable(a));
    memory to(to_, engine_, c);
    primitive_.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return true;
  } catch (...) {
    return false;
  }

 private:
  dnnl::engine engine_;
  memory::desc from_, to_;
  dnnl::reorder primitive_;
};

}  // namespace

struct ProductCache::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::unordered_map<BlockProduct, dnnl::matmul::primitive_desc, Hash> descriptions;
  std::unordered_map<BlockProduct, ProductKernel, Hash> products;
  std::unordered_map<PackKey, ReorderKernel, PackHash> packs;
  std::unordered_map<BlockCopy, ReorderKernel, Hash> copies;

  const dnnl::matmul::primitive_desc& describe(const BlockProduct& shape) {
    const auto found = descriptions.find(shape);
    if (found != descriptions.end()) return found->second;
    const OneThreadedLibrary guard;
    const auto type = type_of(shape.dtype);
    const memory::desc a({shape.m, shape.k}, type, memory::dims{shape.a_stride, 1});
    const memory::desc c({shape.m, shape.n}, memory::data_type::f32,
                         memory::dims{shape.c_stride, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    return descriptions
        .emplace(shape, dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, layout_of_b(shape), c),
                                                     attributes, engine))
        .first->second;
  }

  memory::desc layout_of_b(const BlockProduct& shape) {
    const memory::dims extents{shape.k, shape.n};
    const auto type = type_of(shape.dtype);
    if (shape.b_row_stride != 0) {
      return {extents, type, memory::dims{shape.b_row_stride, shape.b_column_stride}};
    }
    if (shape.m == kLayoutRows && !shape.accumulate) {
      return {extents, type, memory::format_tag::any};
    }
    BlockProduct speaker = shape;
    speaker.m = kLayoutRows;
    speaker.accumulate = false;
    return describe(speaker).weights_desc();
  }
};

ProductCache::ProductCache() : state_(std::make_unique<State>()) {}
ProductCache::~ProductCache() = default;

std::int64_t ProductCache::scratch_bytes(const BlockProduct& shape) {
  return static_cast<std::int64_t>(state_->describe(shape).scratchpad_desc().get_size());
}

std::int64_t ProductCache::packed_bytes(const BlockProduct& shape) {
  return static_cast<std::int64_t>(state_->describe(shape).weights_desc().get_size());
}

const ProductCache::Kernel& ProductCache::product(const BlockProduct& shape) {
  const auto found = state_->products.find(shape);
  if (found != state_->products.end()) return found->second;
  const auto& description = state_->describe(shape);
  const OneThreadedLibrary guard;
  return state_->products.try_emplace(shape, state_->engine, description).first->second;
}

const ProductCache::Kernel& ProductCache::pack(const BlockProduct& shape, std::int64_t row_stride,
                                               std::int64_t column_stride) {
  const PackKey key{shape, row_stride, column_stride};
  const auto found = state_->packs.find(key);
  if (found != state_->packs.end()) return found->second;
  const memory::desc from({shape.k, shape.n}, type_of(shape.dtype),
                          memory::dims{row_stride, column_stride});
  const auto& to = state_->describe(shape).weights_desc();
  const OneThreadedLibrary guard;
  return state_->packs.try_emplace(key, state_->engine, from, to).first->second;
}

const ProductCache::Kernel& ProductCache::copy(const BlockCopy& shape) {
  const auto found = state_->copies.find(shape);
  if (found != state_->copies.end()) return found->second;
  const memory::dims extents{shape.rows, shape.columns};
  const auto type = type_of(shape.dtype);
  const memory::desc from(extents, type,
                          memory::dims{shape.from_row_stride, shape.from_column_stride});
  const memory::desc to(extents, type, memory::dims{shape.to_row_stride, 1});
  const OneThreadedLibrary guard;
  return state_->copies.try_emplace(shape, state_->engine, from, to).first->second;
}

OneThreadedLibrary::OneThreadedLibrary() : before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
OneThreadedLibrary::~OneThreadedLibrary() { omp_set_num_threads(before_); }

CpuDevice make_device(int threads, ProductPrecision products) {
  return {threads, products, std::make_shared<ProductCache>()};
}

}  // namespace phalanx::cpu
