// ImportSession: a session written as it was elsewhere, piece by piece.
#ifndef MEMORYD_CORE_LIFECYCLE_SESSION_IMPORT_H_
#define MEMORYD_CORE_LIFECYCLE_SESSION_IMPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/random_source.h"
#include "core/writes/staged_write.h"
#include "core/writes/token_counting.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

struct ImportRequest {
  SessionKey key;
  // None: those of the template of that name, or without a name of the tenant's own.
  std::optional<SessionSettings> settings;
  std::string template_name;   // Beside `settings` no more than a name; empty: none.
  std::int64_t create_us = 0;  // 0: now.
  std::string (*encode_reply)(const WriteResult& result) = nullptr;
};

// With position, id and ingest time.
struct ImportedItems {
  std::vector<IncomingMessage> messages;
  std::vector<bool> archived;  // Of `messages`.
  std::vector<IncomingContent> contents;
  // What the views in them point into.
  std::shared_ptr<const void> keep_alive;
};

// One import on its way (docs/adr/0027). Any thread, but one call at a time: the next one after the
// one before has called back. `done` runs once, on any thread. After an error only Drop() is left.
class SessionImport : public std::enable_shared_from_this<SessionImport> {
 public:
  using Done = std::function<void(absl::Status)>;

  // What is pointed to outlives it.
  struct Options {
    TokenCounting* counting = nullptr;
    WriteQueue* writes = nullptr;
    RandomSource* random = nullptr;
  };

  // `config` is that of the request's settings, which are there.
  SessionImport(Options options, ImportRequest request,
                std::shared_ptr<const SessionConfig> config);

  // ALREADY_EXISTS `SESSION_EXISTS`.
  void Begin(Done done);
  // INVALID_ARGUMENT names the field; the errors of a write.
  void Add(ImportedItems items, Done done);
  // Calls back with the reply. INVALID_ARGUMENT when there were not as many.
  void Publish(std::int64_t message_count, std::int64_t content_count,
               std::function<void(absl::StatusOr<std::string>)> done);
  // Gives up what is staged. What could not be dropped goes when a session of this id is made, or
  // with its tombstone.
  void Drop();

 private:
  // What Add() takes, as it is counted.
  struct Piece {
    IncomingItems items;
    std::vector<bool> archived;
  };
  // Into rows as they are stored.
  absl::StatusOr<StagedRows> Take(Piece& piece, const TokenCounts& tokens);
  absl::Status Place(const Message& message, bool archived, std::size_t index);
  // Writes rows from these places on.
  void Write(std::shared_ptr<const StagedRows> rows, std::size_t message, std::size_t content,
             Done done);
  std::chrono::steady_clock::time_point Deadline() const;

  const Options options_;
  const ImportRequest request_;
  const std::shared_ptr<StagedSession> staged_;
  std::int64_t message_count_ = 0;
  // Positions of active messages ahead of all archived ones: at first as many as may be pinned, and
  // how many of them would be if nothing was archived.
  std::vector<std::int64_t> leading_;
  std::size_t pinnable_ = 0;
  std::int64_t last_archived_ = 0;  // 0: none.
  bool active_behind_ = false;      // An active message came behind an archived one.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_SESSION_IMPORT_H_
