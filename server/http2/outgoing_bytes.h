// The bytes that a connection has to send.
#ifndef MEMORYD_SERVER_HTTP2_OUTGOING_BYTES_H_
#define MEMORYD_SERVER_HTTP2_OUTGOING_BYTES_H_

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd {

// Small parts are copied, large ones stay where they are. All leave in the order in which they
// came.
class OutgoingBytes {
 public:
  void Copy(std::string_view bytes) { copied_.append(bytes); }
  // `owner` keeps the bytes, and is released when they have left.
  void Refer(std::shared_ptr<const void> owner, std::string_view bytes);
  // Copies what it refers to and has not left, and releases the owners.
  void CopyReferred();
  void Clear();

  bool empty() const { return size() == 0; }
  std::size_t size() const { return copied_.size() - copied_begin_ + referred_bytes_; }
  // The first of the bytes, in as many of the parts as are needed: how many those are.
  std::size_t Gather(std::span<iovec> parts) const;
  // The first `bytes` have left.
  void Remove(std::size_t bytes);

 private:
  struct Referred {
    std::size_t after;  // So much of copied_ comes before it.
    std::shared_ptr<const void> owner;
    std::string_view bytes;
  };

  std::string copied_;
  std::size_t copied_begin_ = 0;  // So much of it has left.
  std::vector<Referred> referred_;
  std::size_t referred_begin_ = 0;  // So many of them have left.
  std::size_t referred_bytes_ = 0;  // Of those that have not.
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_OUTGOING_BYTES_H_
