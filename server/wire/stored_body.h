// Reads stored bodies for the core.
#ifndef MEMORYD_SERVER_WIRE_STORED_BODY_H_
#define MEMORYD_SERVER_WIRE_STORED_BODY_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"
#include "google/protobuf/message_lite.h"
#include "memoryd/v1/memory.pb.h"

namespace memoryd {

// Bodies are serialized memoryd.v1.Message and memoryd.v1.Content.
class StoredBodyReader final : public BodyReader {
 public:
  absl::StatusOr<MessageText> ReadMessage(std::string_view body) const override;
  absl::StatusOr<MessageHead> ReadHead(std::string_view body) const override;
  absl::StatusOr<StoredMessage> ReadParts(std::string_view body) const override;
  absl::StatusOr<StoredPart> ReadPart(std::string_view part) const override;
  absl::StatusOr<ContentValue> ReadContent(std::string_view body) const override;
};

// False for what is not the body of such a message.
bool ParseBody(std::string_view body, google::protobuf::MessageLite& wire);

// What the core knows of a message, and of a part.
StoredMessage ToStoredMessage(const v1::Message& wire);
StoredPart ToStoredPart(const v1::Part& wire);
// What a block says, as a part. `wire` is empty.
void FillPart(const BlockPart& part, v1::Part& wire);
// And back, as far as the core knows it. `wire` is empty.
void FillMessage(const StoredMessage& message, v1::Message& wire);

// The words of a message: text, the names, arguments and answers of tools, quotations, titles and
// JSON, a line for each part. Not the model's reasoning.
std::string WordsOf(const v1::Message& message);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_STORED_BODY_H_
