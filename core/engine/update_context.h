// A caller's context with what memory has to say: pure functions.
//
// Profile `default` puts in at most two messages and later recognises them by their tags alone,
// since frameworks drop metadata and may join messages. So the update of an updated context is
// that context.
#ifndef MEMORYD_CORE_ENGINE_UPDATE_CONTEXT_H_
#define MEMORYD_CORE_ENGINE_UPDATE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"

namespace memoryd {

// A message of the caller's context. The views point into memory of the caller's.
struct ContextMessage {
  std::string_view role;
  std::vector<std::string_view> texts;  // The one text, or the text parts in order.
  bool only_text = false;               // There is text, and nothing else.
  // All its words, as MessageText::text has them, where that is not the one text.
  std::string other_words;

  std::string_view words() const {
    return only_text && texts.size() == 1 ? texts.front() : std::string_view(other_words);
  }
};

// A message that stays.
struct KeptMessage {
  std::size_t index = 0;  // In the caller's context.
  // Its texts without what memory had put in, "" for one that was nothing else; absent when there
  // was nothing of it.
  std::optional<std::vector<std::string>> texts;
};

// A context without what memory put in before.
struct BareContext {
  std::vector<KeptMessage> kept;
  // Among the kept: behind the leading system and developer messages, and the last user message;
  // kept.size() when there is none.
  std::size_t prefix_index = 0;
  std::size_t last_user = 0;
  // The texts of that user message.
  std::string question;
};

// Cuts what memory put in out of system and developer messages, and with InsertMethod::kUser out of
// user messages too. A message left empty goes, a user's with either method.
BareContext RemoveMemory(std::span<const ContextMessage> messages, InsertMethod method);

// A message to put in, ahead of the kept message `before`.
struct InsertedMessage {
  std::size_t before = 0;
  std::string role;
  std::string text;
};

struct RecalledMessage {
  MessageText message;
  std::int64_t time_us = 0;
};

// What a block says that changes only when it is configured or fed.
struct StableBlock {
  std::string name;
  std::string text;
};

// What profile `default` puts in.
struct MemoryInsertions {
  std::vector<InsertedMessage> messages;  // By `before`.
  // 32 hexadecimal digits of the prefix's SHA-256; empty without a prefix.
  std::string stable_prefix_hash;
};

// The blocks and then the contents as stable prefix, the recalled messages as volatile tail; all in
// the order given.
MemoryInsertions InsertMemory(const BareContext& context, InsertMethod method,
                              std::span<const StableBlock> blocks,
                              std::span<const ContentValue> contents,
                              std::span<const RecalledMessage> recalled);

// What autogen_core 0.7.5's ListMemory.update_context adds at the end of a context; the contents
// are not empty. An image, whose Python text is an address in memory, becomes `<Image>`.
// DATA_LOSS for JSON that can't be read.
absl::StatusOr<std::string> ListMemoryText(std::span<const ContentValue> contents);

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_UPDATE_CONTEXT_H_
