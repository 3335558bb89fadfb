#include "core/lifecycle/session_import.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/units.h"
#include "core/writes/commands/staged.h"
#include "core/writes/draft/message_ledger.h"
#include "core/writes/draft/requested_config.h"
#include "core/writes/incoming.h"
#include "core/writes/staged_write.h"
#include "core/writes/token_counting.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

// Of each write.
constexpr std::chrono::seconds kWriteTime(30);
// Leaves room for what is put behind it.
constexpr std::int64_t kLastPosition = std::numeric_limits<std::int64_t>::max() / 2;

std::int64_t ConfigBytes(const SessionRow& row) {
  return static_cast<std::int64_t>(row.config.size());
}

absl::Status CheckPosition(std::string_view kind, std::size_t index, std::int64_t position,
                           std::int64_t next) {
  if (position >= next && position <= kLastPosition) return absl::OkStatus();
  return InvalidField(fmt::format("{}[{}].position", kind, index),
                      fmt::format("must be {} to {}: they rise", next, kLastPosition));
}

}  // namespace

SessionImport::SessionImport(Options options, ImportRequest request,
                             std::shared_ptr<const SessionConfig> config)
    : options_(std::move(options)),
      request_(std::move(request)),
      staged_(std::make_shared<StagedSession>()) {
  staged_->settings = *request_.settings;
  staged_->config = std::move(config);
  SessionRow& row = staged_->row;
  row.create_us = request_.create_us;
  row.generation = options_.random->Next();
  while (row.content_generation == 0) row.content_generation = options_.random->Next();
  // Known from the beginning, and part of what is stored.
  row.config = staged_->settings.ToJson();
  staged_->usage = {1, 0, ConfigBytes(row)};
  staged_->id_field = "begin.session_id";
}

std::chrono::steady_clock::time_point SessionImport::Deadline() const {
  return std::chrono::steady_clock::now() + kWriteTime;
}

void SessionImport::Begin(Done done) {
  SubmitStaged(*options_.writes, request_.key, commands::BeginStaged{staged_}, Deadline(),
               std::move(done));
}

void SessionImport::Add(ImportedItems items, Done done) {
  auto piece = std::make_shared<Piece>();
  piece->items.messages = std::move(items.messages);
  piece->items.contents = std::move(items.contents);
  piece->archived = std::move(items.archived);
  piece->items.keep_alive = std::move(items.keep_alive);
  if (absl::Status status = CheckRoles(*staged_->config, piece->items.messages); !status.ok()) {
    done(std::move(status));
    return;
  }
  auto task = std::make_shared<TokenCounting::Task>();
  task->tenant = request_.key.tenant;
  task->rules = staged_->config->counting;
  task->items = &piece->items;
  task->done = [self = shared_from_this(), piece,
                done = std::move(done)](absl::StatusOr<TokenCounts> counts) {
    std::shared_ptr<const StagedRows> rows;
    absl::Status status = counts.status();
    try {
      if (status.ok()) {
        auto taken = self->Take(*piece, *counts);
        status = taken.status();
        if (status.ok()) rows = std::make_shared<const StagedRows>(*std::move(taken));
      }
    } catch (...) {
      // Whoever waits must not wait for ever.
      status = CaughtException();
    }
    if (status.ok()) {
      self->Write(std::move(rows), 0, 0, done);
    } else {
      done(std::move(status));
    }
  };
  options_.counting->Start(std::move(task));
}

absl::StatusOr<StagedRows> SessionImport::Take(Piece& piece, const TokenCounts& tokens) {
  SessionRow& row = staged_->row;
  IncomingItems& items = piece.items;
  StagedRows rows;
  const auto note_time = [&row](const Message& item) {
    row.has_timed_items |= item.ids->expire_us > 0;
  };
  for (std::size_t i = 0; i < items.messages.size(); ++i) {
    items.messages[i].message.token_count = tokens.messages[i];
    const MessagePtr message =
        WithRoleOfBody(MessagePtr(items.messages[i].message), staged_->config->user_roles);
    MEMORYD_RETURN_IF_ERROR(Place(*message, piece.archived[i], i));
    note_time(*message);
    rows.messages.push_back(message);
  }
  for (std::size_t i = 0; i < items.contents.size(); ++i) {
    items.contents[i].content.token_count = tokens.contents[i];
    ContentPtr content(items.contents[i].content);
    MEMORYD_RETURN_IF_ERROR(CheckPosition("contents", i, content->position, row.next_content));
    row.next_content = content->position + 1;
    note_time(*content);
    ++row.content_count;
    row.content_bytes += static_cast<std::int64_t>(content->body.size());
    rows.contents.push_back(std::move(content));
  }
  staged_->usage = {1, message_count_ + row.content_count,
                    row.message_bytes + row.content_bytes + ConfigBytes(row)};
  return rows;
}

absl::Status SessionImport::Place(const Message& message, bool archived, std::size_t index) {
  SessionRow& row = staged_->row;
  MEMORYD_RETURN_IF_ERROR(CheckPosition("messages", index, message.position, row.next_position));
  if (message_count_ == 0) row.floor = message.position;
  const bool has_openings = staged_->config->counting.profile != Profile::kLlamaIndex;
  const FieldPath path("messages", static_cast<std::int64_t>(index));
  const FieldPath status = path.Field("status");
  if (archived) {
    if (active_behind_) return InvalidField(status, "archived, behind an active message");
    if (leading_.size() > kMaxPinned) {
      return InvalidField(status,
                          fmt::format("archived, behind more than {} active messages", kMaxPinned));
    }
    if (has_openings && BeginsTurn(message)) row.opening = message.position;
    last_archived_ = message.position;
    ++row.archived_count;
  } else {
    if (last_archived_ > 0) {
      // Its turn is over.
      if (!active_behind_ && BeginsTurn(message)) row.opening = 0;
      active_behind_ = true;
    } else if (leading_.size() <= kMaxPinned) {
      // As they are pinned when they are put.
      const bool follows = leading_.empty() || leading_.back() + 1 == message.position;
      if (follows && pinnable_ == leading_.size() && pinnable_ < kMaxPinned &&
          IsPinnable(*staged_->config, message)) {
        ++pinnable_;
      }
      leading_.push_back(message.position);
    }
    ++row.active_count;
    row.active_tokens += message.token_count;
  }
  row.message_bytes += static_cast<std::int64_t>(message.body.size());
  row.next_position = message.position + 1;
  ++message_count_;
  return absl::OkStatus();
}

void SessionImport::Write(std::shared_ptr<const StagedRows> rows, std::size_t message,
                          std::size_t content, Done done) {
  StagedRows piece;
  const auto take = [&piece](const std::vector<MessagePtr>& from, std::size_t& next,
                             std::vector<MessagePtr>& into) {
    for (; next < from.size(); ++next) {
      const std::size_t size = from[next]->body.size();
      const auto count = static_cast<std::int64_t>(piece.messages.size() + piece.contents.size());
      const bool full =
          count >= kPieceRows || static_cast<std::int64_t>(piece.bytes + size) > kPieceBytes;
      if (full && count > 0) break;
      piece.bytes += size;
      into.push_back(from[next]);
    }
  };
  take(rows->messages, message, piece.messages);
  take(rows->contents, content, piece.contents);
  if (piece.empty()) {
    done(absl::OkStatus());
    return;
  }
  SubmitStaged(*options_.writes, request_.key, commands::AddStaged{staged_, std::move(piece)},
               Deadline(),
               [self = shared_from_this(), rows = std::move(rows), message, content,
                done = std::move(done)](absl::Status status) {
                 if (status.ok()) {
                   self->Write(rows, message, content, done);
                 } else {
                   done(std::move(status));
                 }
               });
}

void SessionImport::Publish(std::int64_t message_count, std::int64_t content_count,
                            std::function<void(absl::StatusOr<std::string>)> done) {
  SessionRow& row = staged_->row;
  if (message_count != message_count_ || content_count != row.content_count) {
    done(InvalidField("end", fmt::format("there were {} messages and {} contents", message_count_,
                                         row.content_count)));
    return;
  }
  leading_.resize(last_archived_ > 0 ? leading_.size() : pinnable_);
  row.pinned = leading_;
  if (message_count_ == 0) row.floor = row.next_position;
  row.watermark = row.floor;
  if (!row.pinned.empty()) row.watermark = row.pinned.back() + 1;
  if (last_archived_ > 0) row.watermark = last_archived_ + 1;
  if (row.content_count == 0) row.content_generation = 0;
  WriteRequest publish;
  publish.command = commands::PublishStaged{staged_};
  publish.key = request_.key;
  publish.deadline = Deadline();
  publish.encode_reply = request_.encode_reply;
  options_.writes->Submit(std::move(publish),
                          [done = std::move(done)](absl::StatusOr<WriteReply> published) {
                            if (published.ok()) {
                              done(std::move(published->encoded));
                            } else {
                              done(published.status());
                            }
                          });
}

void SessionImport::Drop() {
  SubmitStaged(*options_.writes, request_.key, commands::DropStaged{staged_}, Deadline(),
               [self = shared_from_this()](const absl::Status& /*status*/) {});
}

}  // namespace memoryd
