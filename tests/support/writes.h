// Writes as the server makes them, without the wire.
#ifndef MEMORYD_TESTS_SUPPORT_WRITES_H_
#define MEMORYD_TESTS_SUPPORT_WRITES_H_

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/writes/write.h"

namespace memoryd {

struct Line {
  std::string role;
  std::string text;
  std::string message_id = {};
};

struct Note {
  std::string text;
  std::string content_id = {};
};

inline Role RoleOf(std::string_view role) {
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "system") return Role::kSystem;
  if (role == "developer") return Role::kDeveloper;
  if (role == "tool") return Role::kTool;
  return Role::kOther;
}

// A reply that a test can read.
inline std::string ReadableReply(const WriteResult& result) {
  std::vector<std::int64_t> positions;
  for (const MessagePtr& message : result.messages) positions.push_back(message->position);
  std::string reply = fmt::format("revision {} positions {} archived {} removed {}+{}",
                                  result.revision, fmt::join(positions, ","), result.archived_count,
                                  result.removed_active, result.removed_archived);
  if (result.contents.empty() && result.removed_contents == 0) return reply;
  positions.clear();
  for (const ContentPtr& content : result.contents) positions.push_back(content->position);
  return reply +
         fmt::format(" contents {} removed {}", fmt::join(positions, ","), result.removed_contents);
}

// Settings that count words, so that no vocabulary is needed: under `default` a message of n words
// has n + 4 tokens, under `llama-index` n.
inline SessionSettings WordSettings(Profile profile = Profile::kDefault) {
  SessionSettings settings;
  settings.profile = profile;
  settings.tokenizer = "whitespace";
  return settings;
}

// What the command of a write brings, which can bring something.
inline IncomingItems& ItemsOf(WriteRequest& request) {
  IncomingItems* items = nullptr;
  std::visit(
      [&items](auto& command) {
        if constexpr (requires { command.items; }) items = &command.items;
      },
      request.command);
  return *items;
}

// The settings that the command of a write asks for, which can ask for some.
inline std::optional<SessionSettings>& SettingsOf(WriteRequest& request) {
  RequestedConfig* config = nullptr;
  std::visit(
      [&config](auto& command) {
        if constexpr (requires { command.config; }) config = &command.config;
      },
      request.command);
  return config->settings;
}

// What the job of a write that ends one has found out.
inline JobOutcome& OutcomeOf(WriteRequest& request) {
  return std::get<commands::EndJob>(request.command).outcome;
}

// A write with an hour to live. The body of a message is its text.
inline WriteRequest NewWrite(WriteCommand command, const SessionKey& key,
                             std::vector<Line> lines = {}) {
  const auto owned = std::make_shared<const std::vector<Line>>(std::move(lines));
  WriteRequest request;
  request.command = std::move(command);
  request.key = key;
  request.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  request.encode_reply = &ReadableReply;
  if (owned->empty()) return request;
  IncomingItems& items = ItemsOf(request);
  items.keep_alive = owned;
  for (const Line& line : *owned) {
    IncomingMessage incoming;
    incoming.message.role = RoleOf(line.role);
    incoming.message.SetMessageId(line.message_id);
    incoming.message.body = line.text;
    incoming.role = line.role;
    incoming.parts.push_back({CountedPart::Kind::kText, line.text, {}, {}});
    items.messages.push_back(std::move(incoming));
    request.byte_size += line.text.size();
  }
  return request;
}

// The write with contents besides, each a text that is its own body.
inline WriteRequest WithContents(WriteRequest request, std::vector<Note> notes) {
  if (notes.empty()) return request;
  const auto owned = std::make_shared<const std::vector<Note>>(std::move(notes));
  IncomingItems& items = ItemsOf(request);
  for (const Note& note : *owned) {
    IncomingContent incoming;
    incoming.content.SetMessageId(note.content_id);
    incoming.content.body = note.text;
    incoming.value = {CountedPart::Kind::kText, note.text, {}, {}};
    items.contents.push_back(std::move(incoming));
    request.byte_size += note.text.size();
  }
  items.keep_alive = std::make_shared<
      std::pair<std::shared_ptr<const void>, std::shared_ptr<const std::vector<Note>>>>(
      std::move(items.keep_alive), owned);
  return request;
}

// The write with a time of its own for each item; 0: none.
inline WriteRequest WithTimes(WriteRequest request, std::int64_t expire_us) {
  if (expire_us == 0) return request;
  IncomingItems& items = ItemsOf(request);
  for (IncomingMessage& incoming : items.messages) {
    incoming.message.ids.value().expire_us = expire_us;
  }
  for (IncomingContent& incoming : items.contents) {
    incoming.content.ids.value().expire_us = expire_us;
  }
  return request;
}

// A Put that creates the session with WordSettings() where there is none.
inline WriteRequest NewPut(const SessionKey& key, std::vector<Line> lines) {
  WriteRequest request = NewWrite(commands::Put(), key, std::move(lines));
  SettingsOf(request) = WordSettings();
  return request;
}

inline WriteRequest WithRequestId(WriteRequest request, std::string request_id,
                                  char fingerprint = 'f') {
  request.request_id = std::move(request_id);
  request.fingerprint = std::string(32, fingerprint);
  return request;
}

inline WriteRequest WithRevision(WriteRequest request, std::int64_t expected_revision) {
  request.expected_revision = expected_revision;
  return request;
}

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_WRITES_H_
