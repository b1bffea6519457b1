#pragma once
// What callers hold between two calls: a tokenizer, a checkpoint, a dataset.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/library/answer.h"

namespace phalanx {

// UsageError if the caller's handle, or the place for a result, is null.
inline void expect_handle(const void* handle, std::string_view name) {
  if (handle == nullptr) throw UsageError("{} is NULL", name);
}

// Fills a new handle by `open`, which returns the answer's text. *place is null where that fails.
template <typename Handle>
phalanx_answer* open_handle(Handle** place, std::string_view name,
                            const std::function<std::string(Handle& opened)>& open) noexcept {
  if (place != nullptr) *place = nullptr;
  return answer_apart([&] {
    expect_handle(place, std::string("the place for ") + std::string(name));
    auto opened = std::make_unique<Handle>();
    std::string text = open(*opened);
    *place = opened.release();
    return text;
  });
}

}  // namespace phalanx
