// Reading sessions and messages: the reads of store.h over one connection.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_READ_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_READ_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {

absl::StatusOr<std::optional<LoadedSession>> LoadSession(Database& db, const SessionKey& key,
                                                         std::int64_t max_active_bytes);

absl::StatusOr<std::vector<MessagePtr>> ReadRange(Database& db, const SessionKey& key,
                                                  std::uint64_t generation, PositionRange range,
                                                  std::int64_t max_messages,
                                                  std::int64_t max_bytes);

absl::StatusOr<std::vector<MessagePtr>> ReadNewest(Database& db, const SessionKey& key,
                                                   std::uint64_t generation, PositionRange range,
                                                   std::int64_t max_messages,
                                                   std::int64_t max_bytes);

absl::StatusOr<std::vector<MessagePtr>> ReadPositions(Database& db, const SessionKey& key,
                                                      std::uint64_t generation,
                                                      std::span<const std::int64_t> positions,
                                                      std::int64_t max_bytes);
absl::StatusOr<std::vector<std::int64_t>> FindPositions(Database& db, const SessionKey& key,
                                                        std::uint64_t generation,
                                                        std::span<const std::string> message_ids);
absl::StatusOr<std::vector<RowSize>> ReadSizes(Database& db, const SessionKey& key,
                                               std::uint64_t generation, PositionRange range,
                                               std::int64_t max_rows);
absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
    Database& db, std::span<const SessionKey> keys);

absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
    Database& db, const SessionKey& key, std::span<const std::string> request_ids);

absl::StatusOr<SessionPage> ListSessions(Database& db, std::string_view tenant,
                                         std::string_view after, const SessionListLimits& limits);

absl::StatusOr<SessionPage> ListSubject(Database& db, std::string_view tenant,
                                        std::string_view subject, std::string_view after,
                                        const SessionListLimits& limits, bool tombstones);

absl::StatusOr<SessionPage> ListLatest(Database& db, std::string_view tenant,
                                       std::string_view subject, const LatestPlace& after,
                                       const SessionListLimits& limits);

absl::StatusOr<std::vector<DueSession>> ListDueSessions(Database& db, std::int64_t now_us,
                                                        std::int64_t max_sessions);

absl::StatusOr<std::int64_t> CountRequests(Database& db, const SessionKey& key);

absl::StatusOr<TenantUsage> ReadUsage(Database& db, std::string_view tenant);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_READ_H_
