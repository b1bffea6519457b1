#pragma once
// For tests: texts as gzip and zstd write them.

#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx::testing {

inline std::string gzip_of(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipWrapper = 16;
  PHALANX_CHECK(::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzipWrapper, 8,
                               Z_DEFAULT_STRATEGY) == Z_OK,
                "zlib");
  std::string packed(::deflateBound(&stream, text.size()) + 64, '\0');
  std::string copy(text);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  PHALANX_CHECK(::deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

inline std::string zstd_of(std::string_view text) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ::ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1);
  PHALANX_CHECK(::ZSTD_isError(size) == 0, "zstd");
  packed.resize(size);
  return packed;
}

}  // namespace phalanx::testing
