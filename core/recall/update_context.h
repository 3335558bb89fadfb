// A caller's context with what memory has to say: pure functions.
//
// Profile `default` says it in two places at most and later recognises it by its tags alone, since
// frameworks drop metadata and may join messages. So the update of an updated context is that
// context.
#ifndef MEMORYD_CORE_RECALL_UPDATE_CONTEXT_H_
#define MEMORYD_CORE_RECALL_UPDATE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/model/body_reader.h"
#include "core/model/session_config.h"

namespace memoryd {

// A message of the caller's context. The views point into memory of the caller's.
struct ContextMessage {
  std::string_view role;
  std::vector<std::string_view> texts;  // The one text, or the text parts in order.
  bool only_text = false;               // There is text, and nothing else.
  // All its words, as MessageText::text has them, where that is not the one text.
  std::string other_words = {};
  bool has_results = false;   // Answers calls.
  bool only_results = false;  // And says nothing else.

  std::string_view words() const {
    return only_text && texts.size() == 1 ? texts.front() : std::string_view(other_words);
  }
};

// By what a context is put in order.
struct ContextRules {
  InsertMethod method = InsertMethod::kSystem;
  // Behind the system messages those of the human side and the others alternate: neighbours of one
  // side are joined. The human side's are those of human roles, of the role `tool`, and those that
  // answer calls.
  bool alternate_roles = false;
  // Whether blocks or contents have something to say.
  bool has_memory = false;
  std::vector<std::string> user_roles = {};   // SessionConfig::user_roles.
  absl::TimeZone zone = absl::UTCTimeZone();  // In which dates are written.
};

// A message that stays.
struct KeptMessage {
  std::size_t index = 0;  // In the caller's context.
  // Its texts without what memory had put in, "" for one that was nothing else; absent when there
  // was nothing of it.
  std::optional<std::vector<std::string>> texts = std::nullopt;
  bool is_human = false;  // A human's, with more than results.
  bool joined = false;    // With the one before it.
};

// All words of a message that stays, `kept`, without what memory had put in.
std::string WordsOf(const ContextMessage& message, const KeptMessage& kept);

// The newest human's message, with what it is joined with: what is recalled is recalled for it.
struct Question {
  std::string text;         // Empty: nothing is asked.
  std::size_t humans = 0;   // The human's messages up to it, itself included.
  std::string before = {};  // The words of the message ahead of it; empty without one.
};

// A context without what memory put in before, in the order that it will have.
struct BareContext {
  // System and developer messages first.
  std::vector<KeptMessage> kept;
  std::size_t prefix_index = 0;  // How many they are.
  // Among the kept: where the newest human's message, with what it is joined with, begins and ends;
  // both kept.size() when there is none.
  std::size_t question_begin = 0;
  std::size_t question_end = 0;
  std::string question_role;
  Question question;
};

// Moves system and developer messages to the front and cuts what memory put in out of them. Of
// human's messages, and where roles alternate of all of the human side, it cuts `<memoryd_recall>`,
// and `<memoryd_memory>` with InsertMethod::kUser or where it is a whole text. A system or human's
// message left empty goes. Where roles alternate, results ahead of any other message go, and
// without memory ahead of it all that stands before the first human's message, if there is one.
BareContext RemoveMemory(std::span<const ContextMessage> messages, const ContextRules& rules);

// A message to put in, ahead of the kept message `before`.
struct InsertedMessage {
  enum class Join { kNone, kNext, kPrevious };

  std::size_t before = 0;
  std::string role;
  std::string text;
  Join join = Join::kNone;  // With which of its neighbours it becomes one message.
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
// the order given. Without a question nothing is recalled. `rules` are those of RemoveMemory().
MemoryInsertions InsertMemory(const BareContext& context, const ContextRules& rules,
                              std::span<const StableBlock> blocks,
                              std::span<const ContentValue> contents,
                              std::span<const RecalledMessage> recalled);

// What autogen_core 0.7.5's ListMemory.update_context adds at the end of a context; the contents
// are not empty. An image, whose Python text is an address in memory, becomes `<Image>`.
// DATA_LOSS for JSON that can't be read.
absl::StatusOr<std::string> ListMemoryText(std::span<const ContentValue> contents);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_UPDATE_CONTEXT_H_
