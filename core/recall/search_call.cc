#include "core/recall/search_call.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/memory_text.h"
#include "core/calls/calls.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/recall/known_texts.h"
#include "core/recall/session_search.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_info.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// How often a search begins anew because the session was cut meanwhile.
constexpr int kSearchTries = 3;

}  // namespace

SearchCall::SearchCall(const SearchEnvironment* environment, std::shared_ptr<PendingRead> read,
                       const SessionKey& key)
    : environment_(*environment),
      read_(std::move(read)),
      session_(environment_.reader->Acquire(key)),
      tries_left_(kSearchTries) {}

void SearchCall::Begin() {
  environment_.reader->WithCurrent(session_, read_,
                                   [self = shared_from_this()] { self->QueueStep(); });
}

void SearchCall::QueueStep() {
  Queue([this] { Step(); });
}

void SearchCall::Queue(std::function<void()> work) {
  environment_.queue->Push(session_, [self = shared_from_this(), work = std::move(work)] {
    self->environment_.calls->Guarded(self->read_, [&] {
      if (!self->read_->HasEnded()) work();
    });
  });
}

void SearchCall::Fail(const absl::Status& status) {
  if (absl::IsAborted(status) && tries_left_ > 0) {
    --tries_left_;
    Begin();
  } else {
    read_->Fail(status);
  }
}

void SearchCall::Step() {
  SessionInfo info;
  std::shared_ptr<const BlockState> embeddings;
  {
    CachedSession& cached = *session_;
    MutexLock lock(cached.mutex);
    info = {cached.session.row, cached.session.config};
    const auto found = cached.session.blocks.find(std::string(kRetrievalBlock));
    if (found != cached.session.blocks.end()) embeddings = found->second;
  }
  if (NotesRead()) environment_.touches->NoteRead(session_->key, info.row, *info.config);
  if (NeedsIndex(info)) {
    SessionSearch& search = environment_.recall->search();
    if (index_ == nullptr) index_ = search.Open(session_->key);
    const auto ready =
        search.CatchUp(index_, info.row, info.config->ranking, accept_missing(), embeddings.get());
    if (!ready.ok()) {
      Fail(ready.status());
      return;
    }
    if (!*ready) {
      QueueStep();
      return;
    }
  }
  Next(info, embeddings.get());
}

absl::StatusOr<std::shared_ptr<const KnownTexts>> SearchCall::KnownTextsOfBlocks() const {
  std::shared_ptr<const SessionConfig> config;
  std::map<std::string, std::shared_ptr<const BlockState>> states;
  {
    MutexLock lock(session_->mutex);
    config = session_->session.config;
    if (config->blocks.empty()) return nullptr;
    states = session_->session.blocks;
  }
  BlockStates blocks{{session_->key, config->counting.profile}, nullptr, {}};
  MEMORYD_ASSIGN_OR_RETURN(blocks.blocks, environment_.blocks->Of(*session_, config));
  for (const std::shared_ptr<const Block>& block : *blocks.blocks) {
    const auto state = states.find(block->name());
    blocks.states.push_back(state == states.end() ? nullptr : state->second);
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           environment_.token_rules->CounterOf(config->counting));
  std::shared_ptr<const KnownTexts> texts = environment_.recall->search().TextsOf(
      index_, std::move(blocks), counter == nullptr ? ByteTokenCounter() : *counter,
      config->ranking);
  return texts->empty() ? nullptr : texts;
}

}  // namespace memoryd
