#include "server/http/gzip.h"

#include <zconf.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

// zlib's largest window, and 16 for gzip's head and checksum in place of zlib's own.
constexpr int kGzip = MAX_WBITS + 16;
constexpr std::size_t kPiece = 64 << 10;
// Replies are compressed on threads that others wait for: the fastest level.
constexpr int kLevel = Z_BEST_SPEED;
constexpr int kMemory = 8;  // zlib's default.

Bytef* Input(std::string_view bytes) {
  // zlib reads it alone.
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

uInt Size(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

absl::Status Malformed() {
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
               "the request says that it is compressed by gzip, and is not");
}

}  // namespace

absl::StatusOr<std::string> Gunzip(std::string_view compressed, std::size_t most,
                                   absl::FunctionRef<absl::Status(std::size_t)> grow) {
  z_stream stream = {};
  if (inflateInit2(&stream, kGzip) != Z_OK) throw std::bad_alloc();
  const absl::Cleanup end = [&stream] { inflateEnd(&stream); };
  std::string bytes;
  while (true) {
    const std::size_t before = bytes.size();
    // A byte more than allowed tells that there is more.
    const std::size_t piece = std::min(kPiece, most - before + 1);
    MEMORYD_RETURN_IF_ERROR(grow(piece));
    bytes.resize(before + piece);
    stream.next_in = Input(compressed);
    stream.avail_in = Size(compressed.size());
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + before);
    stream.avail_out = Size(piece);
    const int result = inflate(&stream, Z_NO_FLUSH);
    compressed.remove_prefix(Size(compressed.size()) - stream.avail_in);
    bytes.erase(bytes.size() - stream.avail_out);
    if (bytes.size() > most) return absl::OutOfRangeError("more bytes than allowed");
    if (result == Z_STREAM_END) break;
    // With room left it wanted more.
    if (result != Z_OK || stream.avail_out > 0) return Malformed();
  }
  if (!compressed.empty()) return Malformed();
  return bytes;
}

std::string Gzip(std::string_view bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  const absl::Cleanup end = [&stream] { deflateEnd(&stream); };
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = Input(bytes);
  stream.avail_in = Size(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = Size(compressed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::length_error("deflate");
  compressed.erase(compressed.size() - stream.avail_out);
  return compressed;
}

}  // namespace memoryd
