// Takes resets of streams that never began out of what a peer sends.
#ifndef MEMORYD_SERVER_HTTP2_IDLE_RESET_FILTER_H_
#define MEMORYD_SERVER_HTTP2_IDLE_RESET_FILTER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memoryd {

// gRPC's clients in C++ and Python send a RST_STREAM for a call that is cancelled before its
// HEADERS have left. RFC 9113, section 6.4, makes that an error of the connection, and nghttp2 ends
// it, with all its other calls. gRPC's servers take no notice; neither do ours.
class IdleResetFilter {
 public:
  // Hands all other bytes on, in order, as `pass(std::string_view) -> bool`; ends with false when
  // that returns false. Keeps at most 12 bytes for the next call.
  template <typename Pass>
  bool Feed(std::string_view bytes, Pass pass) {
    std::size_t begin = 0;  // Of what is not handed on yet.
    std::size_t at = 0;
    while (at < bytes.size()) {
      if (skip_ > 0) {
        const std::size_t part = std::min(skip_, bytes.size() - at);
        skip_ -= part;
        at += part;
        continue;
      }
      // A frame begins here, or has begun in kept_.
      if (kept_size_ == 0 && bytes.size() - at >= kResetBytes) {
        const std::string_view head = bytes.substr(at, kResetBytes);
        if (!IsIdleReset(head)) {
          skip_ = kHeadBytes + LengthOf(head);
          continue;
        }
        if (!pass(bytes.substr(begin, at - begin))) return false;
        ++dropped_;
        at += kResetBytes;
        begin = at;
        continue;
      }
      if (kept_size_ == 0 && !pass(bytes.substr(begin, at - begin))) return false;
      kept_[kept_size_++] = bytes[at++];
      begin = at;
      const std::string_view kept(kept_.data(), kept_size_);
      const std::size_t needed = NeededFor(kept);
      if (kept_size_ < needed) continue;
      kept_size_ = 0;
      if (needed == kResetBytes && IsIdleReset(kept)) {
        ++dropped_;
        continue;
      }
      IsIdleReset(kept);  // Notes the stream of a HEADERS frame.
      skip_ = kHeadBytes + LengthOf(kept) - kept.size();
      if (!pass(kept)) return false;
    }
    return begin == bytes.size() || pass(bytes.substr(begin));
  }

  std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t kPrefaceBytes = 24;
  static constexpr std::size_t kHeadBytes = 9;
  static constexpr std::size_t kResetBytes = kHeadBytes + 4;
  static constexpr unsigned char kHeaders = 1;
  static constexpr unsigned char kReset = 3;

  static std::size_t Number(std::string_view bytes, std::size_t begin, std::size_t count) {
    std::size_t number = 0;
    for (std::size_t i = begin; i < begin + count; ++i) {
      number = number << 8U | static_cast<unsigned char>(bytes[i]);
    }
    return number;
  }
  static std::size_t LengthOf(std::string_view head) { return Number(head, 0, 3); }
  static unsigned char TypeOf(std::string_view head) { return static_cast<unsigned char>(head[3]); }
  static bool IsReset(std::string_view head) {
    return TypeOf(head) == kReset && LengthOf(head) == 4;
  }

  // How many bytes tell whether the frame that begins with `kept` is an idle reset.
  static std::size_t NeededFor(std::string_view kept) {
    return kept.size() >= kHeadBytes && IsReset(kept) ? kResetBytes : kHeadBytes;
  }

  bool IsIdleReset(std::string_view head) {
    constexpr std::size_t kStreamBits = 0x7FFFFFFF;
    const std::size_t stream = Number(head, 5, 4) & kStreamBits;
    if (TypeOf(head) == kHeaders) last_stream_ = std::max(last_stream_, stream);
    return IsReset(head) && stream > last_stream_;
  }

  // Of the preface, then of the frame under way.
  std::size_t skip_ = kPrefaceBytes;
  std::array<char, kResetBytes> kept_ = {};
  std::size_t kept_size_ = 0;
  std::size_t last_stream_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_IDLE_RESET_FILTER_H_
