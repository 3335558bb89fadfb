// Reads the bodies that tests store without the wire.
#ifndef MEMORYD_TESTS_SUPPORT_PLAIN_BODY_READER_H_
#define MEMORYD_TESTS_SUPPORT_PLAIN_BODY_READER_H_

#include <string>
#include <string_view>

#include "core/model/body_reader.h"

namespace memoryd {

// A body is its text, of role `user`; the one body `unreadable` can't be read.
class PlainBodyReader final : public BodyReader {
 public:
  absl::StatusOr<MessageText> ReadMessage(std::string_view body) const override {
    if (body == "unreadable") return absl::DataLossError("the body can't be read back");
    MessageText message;
    message.role = "user";
    message.text = std::string(body);
    return message;
  }
  absl::StatusOr<MessageHead> ReadHead(std::string_view body) const override {
    if (body == "unreadable") return absl::DataLossError("the body can't be read back");
    MessageHead head;
    head.role = "user";
    return head;
  }
  absl::StatusOr<StoredMessage> ReadParts(std::string_view body) const override {
    if (body == "unreadable") return absl::DataLossError("the body can't be read back");
    StoredMessage message;
    message.role = "user";
    message.parts.emplace_back().text = std::string(body);
    return message;
  }
  absl::StatusOr<StoredPart> ReadPart(std::string_view part) const override {
    StoredPart text;
    text.text = std::string(part);
    return text;
  }
  absl::StatusOr<ContentValue> ReadContent(std::string_view body) const override {
    if (body == "unreadable") return absl::DataLossError("the body can't be read back");
    return ContentValue{ContentValue::Kind::kText, "text/plain", std::string(body), {}};
  }
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_PLAIN_BODY_READER_H_
