// Reads of what is stored of a session, as it is: its row, contents, pages of messages, blocks.
#ifndef MEMORYD_CORE_READS_SESSION_READS_H_
#define MEMORYD_CORE_READS_SESSION_READS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/model/body_reader.h"
#include "core/model/session.h"
#include "core/reads/block_view.h"
#include "core/reads/page.h"
#include "core/reads/session_state.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_info.h"
#include "core/sessions/session_reader.h"
#include "core/sessions/session_touches.h"
#include "core/sessions/session_usage.h"
#include "core/storage/store.h"

namespace memoryd {

// Which sessions of a tenant to list.
struct SessionListRequest {
  std::string tenant;
  std::string subject = {};    // Empty: all.
  std::string id_prefix = {};  // Of their ids; empty: all.
  // By their last change, the latest first, and not by their ids. Of a subject alone.
  bool latest_first = false;
  // The last one of the page before; without `latest_first` its id alone.
  LatestPlace after = {};
  std::int64_t max_sessions = 0;
};

struct SessionList {
  std::vector<std::pair<std::string, SessionInfo>> sessions;  // In the order asked for.
  bool more = false;                                          // There are further ones.
};

// A content, and the session's row that it was found by.
struct ContentView {
  ContentPtr content;
  SessionRow row;
};

// Any thread may call; nothing waits.
class SessionReads {
 public:
  // What is pointed to outlives it.
  struct Options {
    Store* store = nullptr;
    const BodyReader* bodies = nullptr;
    MemoryBudget* memory = nullptr;
    Calls* calls = nullptr;
    SessionReader* reader = nullptr;
    SessionTouches* touches = nullptr;
    const SessionBlocks* blocks = nullptr;
    SessionUsage* usage = nullptr;
    const WallClock* clock = nullptr;
  };
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  explicit SessionReads(const Options& options) : options_(options) {}

  void GetSession(const SessionKey& key, CallEnd end, Done<SessionInfo> done);
  // Of a session that is not there the state says so.
  void GetState(const SessionKey& key, CallEnd end, Done<SessionState> done);
  // The stored version of each session, nullopt for one that is not there. Blocks.
  absl::StatusOr<std::vector<std::optional<SessionVersion>>> Versions(
      std::span<const SessionKey> keys) const {
    return options_.store->Revisions(keys);
  }
  // Whether other servers write to the store too.
  bool shared() const { return options_.reader->shared(); }
  // As many sessions behind `after` as some 1 MiB of configurations allow, and at least one.
  void ListSessions(SessionListRequest request, CallEnd end, Done<SessionList> done);
  // NOT_FOUND `SESSION_NOT_FOUND` or `CONTENT_NOT_FOUND`.
  void GetContent(const SessionKey& key, std::string content_id, CallEnd end,
                  Done<ContentView> done);
  void ReadPage(PageRequest request, CallEnd end, Done<Page> done);
  // NOT_FOUND `SESSION_NOT_FOUND` or `BLOCK_NOT_FOUND`. kRetrievalBlock is a block of every session
  // that has an embedder.
  void GetBlock(const SessionKey& key, std::string block, CallEnd end, Done<BlockView> done);
  // As GetBlock(). FAILED_PRECONDITION `BLOCK_HAS_NO_ENTRIES`; ABORTED `SESSION_REPLACED`.
  void ListBlockEntries(EntryPageRequest request, CallEnd end, Done<EntryPage> done);

 private:
  absl::StatusOr<SessionList> List(const SessionListRequest& request);
  absl::StatusOr<BlockView> ViewBlock(CachedSession& session, const std::string& block) const;
  // `before`: the generation of the entries when a gap showed; none at first.
  void ReadEntries(const std::shared_ptr<ReadCall<EntryPage>>& read,
                   const std::shared_ptr<CachedSession>& session, EntryPageRequest request,
                   std::optional<std::uint64_t> before);
  // `before`: what was read until a gap showed; null at first.
  void ReadRows(const std::shared_ptr<ReadCall<Page>>& read,
                const std::shared_ptr<CachedSession>& session, PageRequest request,
                std::shared_ptr<Page> before);
  // Whether the store has a later version of a session that only this server writes. Blocks.
  bool IsBehindStore(const SessionKey& key, const SessionRow& row) const;
  // Brings the page's total step by step, and finishes the read.
  void CountTotal(const std::shared_ptr<ReadCall<Page>>& read, const std::shared_ptr<Page>& page,
                  const std::shared_ptr<PageTotal>& total);

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_SESSION_READS_H_
