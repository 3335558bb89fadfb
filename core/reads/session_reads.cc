#include "core/reads/session_reads.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/usage_state.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/reads/block_view.h"
#include "core/reads/page.h"
#include "core/reads/session_state.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/sessions/session_reader.h"
#include "core/storage/store.h"
#include "core/writes/message_lookup.h"

namespace memoryd {
namespace {

// The block kRetrievalBlock, which stands in no configuration.
absl::StatusOr<BlockView> ViewOfEmbeddings(CachedSession& session) {
  BlockView view;
  KnownEmbeddings known;
  {
    MutexLock lock(session.mutex);
    if (!session.session.exists()) return SessionNotFound();
    const SessionConfig& config = *session.session.config;
    if (!config.EmbedsMessages()) return BlockNotFound();
    const SessionRow& row = session.session.row;
    view.settings.name = kRetrievalBlock;
    view.revision = row.revision;
    known.first_position = row.pinned.empty() ? row.floor : std::min(row.floor, row.pinned.front());
    known.next_position = row.next_position;
    const auto found = session.session.blocks.find(view.settings.name);
    if (found != session.session.blocks.end()) view.state = found->second;
    known.state.source.embedder = config.ranking.embedder;
    known.state.source.worker = config.ranking.embedder_worker;
  }
  if (view.state != nullptr) {
    MEMORYD_ASSIGN_OR_RETURN(EmbeddingState state, EmbeddingState::FromJson(view.state->state));
    if (state.source.embedder.empty()) {
      state.source.embedder = std::move(known.state.source.embedder);
      state.source.worker = std::move(known.state.source.worker);
    }
    known.state = std::move(state);
  }
  view.knowledge.of_kind = std::move(known);
  return view;
}

// Whether a session of this row has every message that it had when the row was `before`.
bool HasSameMessages(const SessionRow& row, const SessionRow& before) {
  return row.generation == before.generation &&
         row.content_generation == before.content_generation && row.floor == before.floor &&
         row.watermark == before.watermark && row.edit_revision == before.edit_revision;
}

}  // namespace

void SessionReads::GetSession(const SessionKey& key, CallEnd end, Done<SessionInfo> done) {
  const auto read = options_.calls->Begin<SessionInfo>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(key);
  options_.reader->WithCurrent(session, read, [this, session, read] {
    SessionInfo info;
    {
      MutexLock lock(session->mutex);
      info = {session->session.row, session->session.config};
      const auto stored = session->session.blocks.find(std::string(kUsageBlock));
      if (stored != session->session.blocks.end()) info.usage = DecodeUsage(stored->second->state);
      info.usage += options_.usage->Of(session->key);
    }
    read->Finish(std::move(info));
  });
}

void SessionReads::GetState(const SessionKey& key, CallEnd end, Done<SessionState> done) {
  const auto read =
      options_.calls->Begin<SessionState>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(key);
  // What blocks know may be large: not on the one thread that confirms revisions.
  options_.reader->RunCurrent(session, read, [read, session] {
    SessionRow row;
    std::vector<std::shared_ptr<const BlockState>> blocks;
    {
      MutexLock lock(session->mutex);
      row = session->session.row;
      for (const auto& [name, state] : session->session.blocks) blocks.push_back(state);
    }
    read->Finish(StateOf(row, blocks));
  });
}

void SessionReads::ListSessions(SessionListRequest request, CallEnd end, Done<SessionList> done) {
  const auto read =
      options_.calls->Begin<SessionList>(request.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  const std::string tenant = request.tenant;
  options_.calls->Run(tenant, read,
                      [this, read, request = std::move(request)] { read->Finish(List(request)); });
}

absl::StatusOr<SessionList> SessionReads::List(const SessionListRequest& request) {
  const SessionListLimits limits{.max_sessions = request.max_sessions, .prefix = request.id_prefix};
  Store& store = *options_.store;
  auto listed =
      request.latest_first
          ? store.ListLatest(request.tenant, request.subject, request.after, limits)
      : request.subject.empty()
          ? store.ListSessions(request.tenant, request.after.session, limits)
          : store.ListSubject(request.tenant, request.subject, request.after.session, limits,
                              /*tombstones=*/false);
  if (!listed.ok()) return listed.status();
  SessionList list;
  list.more = listed->more;
  for (ListedSession& entry : listed->sessions) {
    MEMORYD_ASSIGN_OR_RETURN(Session session, Session::FromStore({std::move(entry.row), {}, {}}));
    list.sessions.emplace_back(std::move(entry.session),
                               SessionInfo{std::move(session.row), std::move(session.config)});
  }
  return list;
}

void SessionReads::GetContent(const SessionKey& key, std::string content_id, CallEnd end,
                              Done<ContentView> done) {
  const auto read = options_.calls->Begin<ContentView>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(key);
  options_.reader->RunCurrent(session, read, [this, read, session, id = std::move(content_id)] {
    SessionInfo info = InfoOf(*session);
    auto content = FindContent(*options_.store, session->key, info, id);
    if (content.ok() && (*content)->IsExpired(options_.clock->NowUs())) content = ContentNotFound();
    if (content.ok()) {
      read->Finish(ContentView{*std::move(content), std::move(info.row)});
    } else {
      read->Finish(content.status());
    }
  });
}

// ---- blocks ----

void SessionReads::GetBlock(const SessionKey& key, std::string block, CallEnd end,
                            Done<BlockView> done) {
  const auto read = options_.calls->Begin<BlockView>(key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(key);
  // A large state takes long to read: not on the one thread that confirms revisions.
  options_.reader->RunCurrent(session, read, [this, read, session, block = std::move(block)] {
    read->Finish(ViewBlock(*session, block));
  });
}

absl::StatusOr<BlockView> SessionReads::ViewBlock(CachedSession& session,
                                                  const std::string& block) const {
  if (block == kRetrievalBlock) return ViewOfEmbeddings(session);
  MEMORYD_ASSIGN_OR_RETURN(BlockAt at, options_.blocks->Find(session, block));
  MEMORYD_ASSIGN_OR_RETURN(auto known,
                           at.block->Known(at.state == nullptr ? BlockState() : *at.state));
  return BlockView{std::move(at.settings), at.revision, std::move(at.state), std::move(known)};
}

void SessionReads::ListBlockEntries(EntryPageRequest request, CallEnd end, Done<EntryPage> done) {
  const auto read =
      options_.calls->Begin<EntryPage>(request.key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(request.key);
  request.now_us = options_.clock->NowUs();
  ReadEntries(read, session, std::move(request), /*before=*/std::nullopt);
}

void SessionReads::ReadEntries(const std::shared_ptr<ReadCall<EntryPage>>& read,
                               const std::shared_ptr<CachedSession>& session,
                               EntryPageRequest request, std::optional<std::uint64_t> before) {
  options_.reader->RunCurrent(session, read, [this, session, read, request, before] {
    const auto at = options_.blocks->Find(*session, request.block);
    if (!at.ok()) {
      read->Finish(at.status());
      return;
    }
    if (!at->block->has_entries()) {
      read->Finish(Error(absl::StatusCode::kFailedPrecondition, "BLOCK_HAS_NO_ENTRIES",
                         "block: only blocks of kind vector have entries"));
      return;
    }
    EntryPageRequest asked = request;
    asked.ttl_us = at->block->ttl_us();
    auto page = memoryd::ReadEntries(*options_.store,
                                     at->state == nullptr ? BlockState() : *at->state, asked);
    // Was the block cleared between the look at its state and the read? Then the next look tells.
    const std::uint64_t generation = at->state == nullptr ? 0 : at->state->entry_generation;
    if (page.ok() && page->has_gap && before != generation) {
      ReadEntries(read, session, request, generation);
    } else {
      read->Finish(std::move(page));
    }
  });
}

// ---- pages ----

void SessionReads::ReadPage(PageRequest request, CallEnd end, Done<Page> done) {
  const auto read =
      options_.calls->Begin<Page>(request.key.tenant, std::move(end), std::move(done));
  if (read == nullptr) return;
  std::shared_ptr<CachedSession> session = options_.reader->Acquire(request.key);
  request.now_us = options_.clock->NowUs();
  ReadRows(read, session, std::move(request), /*before=*/nullptr);
}

void SessionReads::ReadRows(const std::shared_ptr<ReadCall<Page>>& read,
                            const std::shared_ptr<CachedSession>& session, PageRequest request,
                            std::shared_ptr<Page> before) {
  options_.reader->RunCurrent(session, read, [this, session, read, request, before] {
    const SessionInfo info = InfoOf(*session);
    options_.touches->NoteRead(session->key, info.row, *info.config);
    // Was the session reset between the look at its row and the read? Then the second look tells;
    // else messages were missing before.
    const bool stands = before != nullptr && HasSameMessages(info.row, before->row);
    // A commit whose reply is on its way took rows out before it is seen here.
    if (stands && !read->finished() && IsBehindStore(session->key, info.row)) {
      ReadRows(read, session, request, before);
      return;
    }
    // It would be held together with the one that takes its place.
    if (!stands && before != nullptr) *before = Page();
    absl::StatusOr<Page> page = stands ? std::move(*before)
                                       : memoryd::ReadPage(*options_.store, *options_.bodies,
                                                           *options_.memory, info, request);
    // Each look that finds another row may have met a commit of its own.
    if (page.ok() && page->has_gap && !stands) {
      ReadRows(read, session, request, std::make_shared<Page>(*std::move(page)));
    } else if (page.ok() && request.include_total) {
      CountTotal(read, std::make_shared<Page>(*std::move(page)),
                 std::make_shared<PageTotal>(info, request));
    } else {
      read->Finish(std::move(page));
    }
  });
}

bool SessionReads::IsBehindStore(const SessionKey& key, const SessionRow& row) const {
  // Of a session that others write too the revision has been asked for.
  if (options_.reader->shared()) return false;
  const auto stored = options_.store->Revisions({&key, 1});
  if (!stored.ok()) return false;
  const std::optional<SessionVersion>& version = stored->front();
  return !version.has_value() || version->generation != row.generation ||
         version->revision > row.revision;
}

void SessionReads::CountTotal(const std::shared_ptr<ReadCall<Page>>& read,
                              const std::shared_ptr<Page>& page,
                              const std::shared_ptr<PageTotal>& total) {
  const auto done = total->Step(*options_.store, *options_.bodies, *options_.memory);
  if (!done.ok()) {
    read->Finish(done.status());
  } else if (*done) {
    page->total_count = total->count();
    read->Finish(std::move(*page));
  } else if (!read->HasEnded()) {
    // Behind whoever waits for a reader.
    options_.calls->Run(total->tenant(), read,
                        [this, read, page, total] { CountTotal(read, page, total); });
  }
}

}  // namespace memoryd
