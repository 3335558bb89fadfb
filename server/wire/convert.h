// Messages and contents of the wire -> what the engine takes. After this, bad input can't exist.
#ifndef MEMORYD_SERVER_WIRE_CONVERT_H_
#define MEMORYD_SERVER_WIRE_CONVERT_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/field_path.h"
#include "core/lifecycle/session_import.h"
#include "core/writes/write.h"
#include "memoryd/v1/memory.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd {

// Of messages, and of contents.
inline constexpr int kMaxMessagesPerRequest = 1000;
// Of a message, and of the content of a block.
inline constexpr int kMaxParts = 1000;

// What messages or contents take from the request to the commit, beside the parsed request and
// their texts: measured, of small ones.
inline constexpr std::int64_t DecodedBytes(std::size_t count) {
  return 768 * static_cast<std::int64_t>(count);
}

// Checks a part of a message or of a block.
absl::Status CheckPart(const FieldPath& field, const v1::Part& part);

// Checks the message at `field`, FieldPath() when its fields are the request's own, and tells what
// is known of it but for its body. One text part becomes `text`. The views in `incoming` point into
// `message`.
absl::Status CheckMessage(const FieldPath& field, v1::Message& message, IncomingMessage& incoming);

// What is stored with everything that a caller writes.
struct Provenance {
  std::string_view writer;  // "" for nobody known.
  bool untrusted = false;   // Whatever the caller says.
  // Of a message that another session handed on: that one, and its id there.
  std::string_view source_session_id = {};
  std::string_view source_message_id = {};
};

// Checks a message whose fields are the request's own and brings it into its stored form, in place;
// what `from` says is in the stored form alone. The views in the result point into it.
absl::StatusOr<IncomingMessage> FromProto(v1::Message& message, const Provenance& from = {});

// Checks every message and brings it into its stored form as well. The views in the result point
// into `messages`.
absl::StatusOr<std::vector<IncomingMessage>> FromProto(
    google::protobuf::RepeatedPtrField<v1::Message>& messages, const Provenance& from = {});

// The same for a content whose fields are the request's own, and for contents.
absl::StatusOr<IncomingContent> FromProto(v1::Content& content, const Provenance& from = {});
absl::StatusOr<std::vector<IncomingContent>> FromProto(
    google::protobuf::RepeatedPtrField<v1::Content>& contents, const Provenance& from = {});

// The same for what was stored elsewhere, with id, place, writer and times of there.
absl::StatusOr<ImportedItems> FromProto(v1::ImportItems& items);

v1::Usage ToProto(const Usage& usage);

ResetScope FromProto(v1::ResetScope scope);

// SHA-256 of the method and the request, which must be in its checked form, without request_id and
// without what only says how long to wait. 32 bytes.
std::string Fingerprint(std::string_view method, const google::protobuf::Message& request);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_CONVERT_H_
