// What the core needs to know of a stored body, which is opaque to it otherwise.
#ifndef MEMORYD_CORE_MODEL_BODY_READER_H_
#define MEMORYD_CORE_MODEL_BODY_READER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace memoryd {

struct MessageText {
  std::string role;
  std::string name;  // The speaker's.
  std::string thread_id;
  std::optional<std::int64_t> create_us;  // Microseconds since the epoch, by the caller.
  std::string text;  // All its words: text, tool arguments and answers, quotations.
  // The session that handed it on; empty for none.
  std::string source_session_id = {};
};

// What filters look at in a message.
struct MessageHead {
  std::string role;
  std::string name;
  std::string thread_id;
  std::optional<std::int64_t> create_us;  // Microseconds since the epoch, by the caller.
  std::string metadata_json;              // Empty for none.
  std::string source_session_id;          // As in MessageText.
  std::string source_message_id;          // The message's id there.
  std::string writer;
  bool untrusted = false;
};

struct ContentValue {
  enum class Kind { kText, kJson, kBytes, kImage };
  Kind kind = Kind::kText;
  std::string mime_type;
  std::string value;               // Text, JSON or bytes as stored; empty for an image.
  std::string metadata_json = {};  // Empty for none.
  std::string writer = {};
  bool untrusted = false;
};

// One part of a stored message.
struct StoredPart {
  enum class Kind {
    kText,
    kImage,
    kAudio,
    kVideo,
    kDocument,
    kToolCall,
    kToolResult,
    kThinking,
    kCitation,
    kJson,
    kOpaque
  };
  Kind kind = Kind::kText;
  std::string text;       // Of text, thinking, a tool's answer, a citation, JSON.
  std::string tool_name;  // Of a tool's call or answer.
  std::string call_id;
  std::string arguments_json;
  // Of media.
  std::string data;
  std::string url;
  std::string mime_type;
  std::optional<std::int64_t> token_count;  // What the caller said of media.
  std::string opaque_type;                  // The framework's name for it.
  // A serialized memoryd.v1.Part, with what the core does not know; empty for text, and for parts
  // that were not stored.
  std::string body;
};

// A stored message, whole.
struct StoredMessage {
  std::string role;  // As sent.
  std::string name;
  std::string metadata_json;
  bool untrusted = false;  // See memoryd.v1.Message.untrusted.
  // Microseconds since the epoch, by the caller.
  std::optional<std::int64_t> create_us = {};
  std::string source_session_id;  // As in MessageText.
  std::vector<StoredPart> parts;  // A message's `text` is one text part.
};

// Whether a part of a message is the id of a call or an answer alone: an adapter's, whose words
// stand beside it in the form of its framework. An empty answer has nothing beside it.
inline bool IsIdAlone(const StoredMessage& message, const StoredPart& part) {
  const auto is_of_tool = [](const StoredPart& other) {
    return other.kind == StoredPart::Kind::kToolCall || other.kind == StoredPart::Kind::kToolResult;
  };
  return is_of_tool(part) && part.tool_name.empty() && part.text.empty() &&
         part.arguments_json.empty() && !std::ranges::all_of(message.parts, is_of_tool);
}

// Immutable; any thread.
class BodyReader {
 public:
  virtual ~BodyReader() = default;

  // DATA_LOSS for a body that can't be read.
  virtual absl::StatusOr<MessageText> ReadMessage(std::string_view body) const = 0;
  virtual absl::StatusOr<MessageHead> ReadHead(std::string_view body) const = 0;
  virtual absl::StatusOr<StoredMessage> ReadParts(std::string_view body) const = 0;
  // A part that a block's configuration holds, see BlockSettings::content.
  virtual absl::StatusOr<StoredPart> ReadPart(std::string_view part) const = 0;
  virtual absl::StatusOr<ContentValue> ReadContent(std::string_view body) const = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_BODY_READER_H_
