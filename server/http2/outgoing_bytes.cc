#include "server/http2/outgoing_bytes.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd {
namespace {

// A buffer that is larger is given back when all has left.
constexpr std::size_t kMostKept = 256 << 10;

iovec PartOf(std::string_view bytes) {
  // What is only read is not const in POSIX.
  return {const_cast<char*>(bytes.data()), bytes.size()};
}

}  // namespace

void OutgoingBytes::Refer(std::shared_ptr<const void> owner, std::string_view bytes) {
  if (bytes.empty()) return;
  referred_.push_back({copied_.size(), std::move(owner), bytes});
  referred_bytes_ += bytes.size();
}

void OutgoingBytes::CopyReferred() {
  if (referred_bytes_ == 0) return;
  std::string all;
  all.reserve(size());
  std::size_t begin = copied_begin_;
  for (std::size_t i = referred_begin_; i < referred_.size(); ++i) {
    all.append(copied_, begin, referred_[i].after - begin);
    all.append(referred_[i].bytes);
    begin = referred_[i].after;
  }
  all.append(copied_, begin);
  Clear();
  copied_ = std::move(all);
}

void OutgoingBytes::Clear() {
  if (copied_.capacity() > kMostKept) {
    copied_ = {};
  } else {
    copied_.clear();
  }
  copied_begin_ = 0;
  referred_.clear();
  referred_begin_ = referred_bytes_ = 0;
}

std::size_t OutgoingBytes::Gather(std::span<iovec> parts) const {
  std::size_t used = 0;
  const auto add = [&](std::string_view bytes) {
    if (!bytes.empty() && used < parts.size()) parts[used++] = PartOf(bytes);
  };
  std::size_t begin = copied_begin_;
  for (std::size_t i = referred_begin_; i < referred_.size() && used < parts.size(); ++i) {
    add(std::string_view(copied_).substr(begin, referred_[i].after - begin));
    add(referred_[i].bytes);
    begin = referred_[i].after;
  }
  add(std::string_view(copied_).substr(begin));
  return used;
}

void OutgoingBytes::Remove(std::size_t bytes) {
  while (referred_begin_ < referred_.size()) {
    Referred& next = referred_[referred_begin_];
    const std::size_t copied = std::min(bytes, next.after - copied_begin_);
    copied_begin_ += copied;
    bytes -= copied;
    const std::size_t referred = std::min(bytes, next.bytes.size());
    next.bytes.remove_prefix(referred);
    referred_bytes_ -= referred;
    bytes -= referred;
    if (!next.bytes.empty()) return;
    next.owner.reset();
    ++referred_begin_;
  }
  copied_begin_ += bytes;
  if (empty()) Clear();
}

}  // namespace memoryd
