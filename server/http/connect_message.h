// Messages as the Connect protocol carries them: envelopes, gzip, JSON.
#ifndef MEMORYD_SERVER_HTTP_CONNECT_MESSAGE_H_
#define MEMORYD_SERVER_HTTP_CONNECT_MESSAGE_H_

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"

namespace memoryd {

// How one call writes its messages.
struct ConnectFormat {
  bool is_json = false;
  bool is_stream = false;
  // Whether the request is compressed; in a stream, those of its messages whose envelopes say so.
  bool is_gzipped = false;
  // Whether the caller reads replies that are compressed.
  bool takes_gzip = false;
};

// nullopt for a content type that is none of Connect's.
std::optional<ConnectFormat> FormatOf(std::string_view content_type);

// The body of a request -> the bytes of its message. `hold`, of kRequests, grows by what is made
// beside the body, or is empty. RESOURCE_EXHAUSTED `REQUEST_TOO_LARGE` above `most` bytes,
// `MEMORY_SHORT`; INVALID_ARGUMENT.
absl::StatusOr<std::string> DecodeRequest(std::string body, const ConnectFormat& format,
                                          const google::protobuf::Descriptor& type,
                                          std::size_t most, MemoryBudget::Hold& hold);

struct EncodedReply {
  std::string bytes;  // Without an envelope.
  bool is_gzipped = false;
};

// The bytes of a reply -> what the caller reads.
absl::StatusOr<EncodedReply> EncodeReply(std::string message, const ConnectFormat& format,
                                         const google::protobuf::Descriptor& type);

// The flags of an envelope. Its kPrefixBytes are the flags and the size of the message that
// follows.
inline constexpr unsigned char kGzippedFlag = 1;
inline constexpr unsigned char kEndFlag = 2;
std::string Enveloped(unsigned char flags, std::string_view message);

absl::Status RequestTooLarge(std::size_t most);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_CONNECT_MESSAGE_H_
