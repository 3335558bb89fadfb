// Messages as the HTTP port carries them: alone, in Connect's envelopes or as lines; gzip, JSON.
#ifndef MEMORYD_SERVER_HTTP_CONNECT_MESSAGE_H_
#define MEMORYD_SERVER_HTTP_CONNECT_MESSAGE_H_

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"

namespace memoryd {

// How the messages of one direction stand in its body.
enum class Framing : std::uint8_t {
  kAlone,      // One message is the body.
  kEnvelopes,  // Connect's, of streams.
  kLines,      // A message of JSON on each line, of streams.
};

// How one call writes its messages.
struct ConnectFormat {
  bool is_json = false;
  Framing request = Framing::kAlone;
  Framing reply = Framing::kAlone;
  // Whether the request is compressed; of envelopes, those that say so.
  bool is_gzipped = false;
  // Whether the caller reads replies that are compressed.
  bool takes_gzip = false;
};

inline constexpr std::string_view kLinesType = "application/x-ndjson";

// What the content type of a request says, of its replies too; nullopt for one that is not taken.
std::optional<ConnectFormat> FormatOf(std::string_view content_type);

// The body of a request, or a line of it -> the bytes of its message. `hold`, of kRequests, grows
// by what is made beside the body, or is empty. RESOURCE_EXHAUSTED `REQUEST_TOO_LARGE` above `most`
// bytes, `MEMORY_SHORT`; INVALID_ARGUMENT.
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
