// Writes replies as bytes, so that what is stored is copied, not parsed.
#ifndef MEMORYD_SERVER_WIRE_WIRE_WRITER_H_
#define MEMORYD_SERVER_WIRE_WIRE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/message.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd {

// Fields in protobuf's encoding.
void AppendInt(std::string& out, int field, std::int64_t value);
void AppendDouble(std::string& out, int field, double value);
void AppendBytes(std::string& out, int field, std::string_view value);

// A stored body is a v1.Message or v1.Content without what the server adds, so what a reply holds
// is the body followed by those fields.
class MessageWriter {
 public:
  // Appends to `out`, which must outlive it.
  explicit MessageWriter(std::string& out) : out_(out) {}

  void Append(int field, const Message& message, std::uint64_t generation,
              v1::MessageStatus status);
  void AppendContent(int field, const Content& content, std::uint64_t generation);

 private:
  std::string& out_;
};

// The most bytes that a reply adds to a body, but for a given id.
inline constexpr std::size_t kAddedBytes = 72;

// About what they take in a reply, rarely less.
std::size_t WireSize(const std::vector<MessagePtr>& messages);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_WIRE_WRITER_H_
