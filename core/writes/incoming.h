// What a write brings, as it arrived.
#ifndef MEMORYD_CORE_WRITES_INCOMING_H_
#define MEMORYD_CORE_WRITES_INCOMING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/message.h"
#include "core/model/session_config.h"

namespace memoryd {

// One part of a message as far as its tokens go.
struct CountedPart {
  enum class Kind {
    kText,
    kImage,
    kAudio,
    kVideo,
    kDocument,
    kToolCall,
    kToolResult,
    kThinking,
    kOther
  };
  Kind kind = Kind::kOther;
  std::string_view text;         // The text; a tool's name.
  std::string_view second_text;  // A tool's arguments or answer; a citation's other texts.
  std::optional<std::int64_t> token_count;  // Given by the caller for media.
};

// A message as it arrived. The views point into memory that its IncomingItems keep alive.
struct IncomingMessage {
  MessageDraft message;   // Without position, token count and ingest time.
  std::string_view role;  // As sent.
  std::vector<CountedPart> parts;
  std::string_view metadata_json;
  std::optional<std::int64_t> token_count;  // What the caller said.
};

// A content as it arrived. The view points into memory that its IncomingItems keep alive.
struct IncomingContent {
  ContentDraft content;  // Without position, token count and ingest time.
  CountedPart value;
};

// The messages and contents that a write brings.
struct IncomingItems {
  std::vector<IncomingMessage> messages;
  std::vector<IncomingContent> contents;
  // What their views point into. Null where that outlives the write by itself.
  std::shared_ptr<const void> keep_alive;

  std::size_t count() const { return messages.size() + contents.size(); }
};

// In the order of the request.
struct TokenCounts {
  std::vector<std::int64_t> messages;
  std::vector<std::int64_t> contents;
};

// How far the counting of items has come.
struct CountProgress {
  TokenCounts counts;  // Of the messages and contents that are done.
  // Of the next message: the steps that are done, see TokenRules, and their tokens.
  std::size_t steps = 0;
  std::int64_t tokens = 0;
};

// How a caller wants a session to remember.
struct RequestedConfig {
  std::optional<SessionSettings> settings;
  // The template that the caller names; empty: none. Then `settings` have no field but `subject`
  // and `time_zone`.
  std::string template_name;

  bool empty() const { return !settings.has_value() && template_name.empty(); }
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_INCOMING_H_
