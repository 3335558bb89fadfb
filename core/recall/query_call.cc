#include "core/recall/query_call.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/message_embedder.h"
#include "core/calls/call_end.h"
#include "core/calls/calls.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/ranking_options.h"
#include "core/model/session.h"
#include "core/model/usage_count.h"
#include "core/reads/block_context.h"
#include "core/recall/known_texts.h"
#include "core/recall/recall.h"
#include "core/recall/search_call.h"
#include "core/recall/searched_session.h"
#include "core/recall/session_search.h"
#include "core/sessions/session_info.h"
#include "core/sessions/session_reader.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {
namespace {

// For the write that notes what answers for a session's embedder.
constexpr std::chrono::seconds kNoteTime(30);

// Has the session's embeddings made anew, where another model answers than made them.
void NoteEmbedder(WriteQueue& writes, const SessionKey& key, const EmbeddingState& state,
                  const EmbeddingSource& embedder) {
  if (state.next.has_value()) return;
  WriteRequest write;
  write.key = key;
  write.command = commands::NoteEmbedder{embedder};
  write.deadline = std::chrono::steady_clock::now() + kNoteTime;
  // If this fails the next Query notes it.
  writes.Submit(std::move(write), [](const absl::StatusOr<WriteReply>&) {});
}

// Brings up the index of a session that is searched with another.
class PrepareCall final : public SearchCall {
 public:
  PrepareCall(const SearchEnvironment* environment, std::shared_ptr<ReadCall<PreparedSession>> read,
              PrepareRequest request)
      : SearchCall(environment, read, request.key),
        read_(std::move(read)),
        request_(std::move(request)) {}

 private:
  bool NeedsIndex(const SessionInfo& info) const override {
    return Recall::NeedsIndex(info, request_);
  }
  // It is only searched with the one that was asked.
  bool NotesRead() const override { return false; }
  void Next(const SessionInfo& info, const BlockState* /*embeddings*/) override {
    auto answer = [&]() -> absl::StatusOr<PreparedSession> {
      std::shared_ptr<const KnownTexts> texts;
      if (index() != nullptr && request_.AsksBlocks()) {
        MEMORYD_ASSIGN_OR_RETURN(texts, KnownTextsOfBlocks());
      }
      return Recall::Answer(info, index(), request_, std::move(texts));
    }();
    if (answer.ok()) {
      read_->Finish(std::move(answer));
    } else {
      Fail(answer.status());
    }
  }

  const std::shared_ptr<ReadCall<PreparedSession>> read_;
  const PrepareRequest request_;
};

class QueryCall final : public SearchCall {
 public:
  QueryCall(const SearchEnvironment* environment, std::shared_ptr<ReadCall<Found>> read,
            QueryRequest request)
      : SearchCall(environment, read, request.key),
        read_(std::move(read)),
        request_(std::move(request)) {}

 private:
  // The other sessions of one search as they become ready.
  struct Preparation {
    Mutex mutex;
    std::vector<PreparedSession> ready MEMORYD_GUARDED_BY(mutex);
    std::size_t left MEMORYD_GUARDED_BY(mutex) = 0;
  };

  bool NeedsIndex(const SessionInfo& info) const override {
    return Recall::NeedsIndex(info, request_);
  }

  void Next(const SessionInfo& info, const BlockState* embeddings) override {
    const std::vector<std::string> others = Recall::OtherSessions(info, request_);
    if (!others.empty()) {
      PrepareOthers(others);
    } else if (index() == nullptr || !AskEmbedder(info, embeddings)) {
      Conclude(Answer(info));
    }
  }

  std::shared_ptr<QueryCall> self() {
    return std::static_pointer_cast<QueryCall>(shared_from_this());
  }

  void Conclude(absl::StatusOr<Found> answer) {
    if (answer.ok()) {
      read_->Finish(std::move(answer));
    } else {
      Fail(answer.status());
    }
  }

  absl::StatusOr<Found> Answer(const SessionInfo& info) {
    std::shared_ptr<const KnownTexts> texts;
    if (index() != nullptr && request_.AsksBlocks()) {
      MEMORYD_ASSIGN_OR_RETURN(texts, KnownTextsOfBlocks());
    }
    MEMORYD_ASSIGN_OR_RETURN(Found found,
                             environment().recall->Answer(info, index(), request_, accept_missing(),
                                                          embedding_, texts.get()));
    found.embedder_failure = embedder_failure_;
    if (usage_ != nullptr) found.usage = usage_->Total();
    return found;
  }

  // True when the session's embedder is asked what the query means: the call goes on when it has
  // answered.
  bool AskEmbedder(const SessionInfo& info, const BlockState* embeddings);
  void EmbedderAnswered(const EmbeddingState& state, absl::StatusOr<EmbeddedQuery> said);

  // Brings up the indexes of the sessions that are searched with the one that was asked.
  void PrepareOthers(const std::vector<std::string>& others);
  absl::StatusOr<Found> AnswerWithOthers(const std::vector<PreparedSession>& others);

  const std::shared_ptr<ReadCall<Found>> read_;
  const QueryRequest request_;
  // Of a session that has an embedder: what that said, and for which embeddings it was asked; 0: it
  // was not.
  std::uint64_t embedded_for_ = 0;
  QueryEmbedding embedding_;
  std::string embedder_failure_;
  std::shared_ptr<UsageCount> usage_;  // Of the embedder.
};

bool QueryCall::AskEmbedder(const SessionInfo& info, const BlockState* embeddings) {
  const RankingOptions& ranking = info.config->ranking;
  if (!info.config->EmbedsMessages() || ranking.embedder_weight == 0 || embeddings == nullptr ||
      embeddings->entry_generation == 0 || embedded_for_ == embeddings->entry_generation) {
    return false;
  }
  absl::StatusOr<EmbeddingState> state = EmbeddingState::FromJson(embeddings->state);
  // Before the first embedding there is nothing to compare the query's with.
  if (state.ok() && state->source.size == 0) return false;
  // Others may have come to serve since it was asked.
  embedded_for_ = embeddings->entry_generation;
  embedding_ = {};
  embedder_failure_.clear();
  if (!state.ok()) {
    embedder_failure_ = MissingReason(state.status());
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  const auto deadline =
      std::min(now + environment().block_timeout, now + (read_->deadline() - now) / 2);
  // Apart from names, which say little of what is meant.
  const std::string query = environment().recall->search().EmbedderQuery(index(), request_.query);
  if (query.empty()) return false;
  // That which has made what serves, while the session's makes others.
  ModelName embedder{state->source.worker, state->source.embedder};
  if (embedder.model.empty()) embedder = {ranking.embedder_worker, ranking.embedder};
  usage_ = std::make_shared<UsageCount>();
  EmbedQuery(*environment().models, embedder, request_.key, query, usage_, request_.trace, deadline,
             [call = self(), state = *std::move(state)](absl::StatusOr<EmbeddedQuery> said) {
               call->EmbedderAnswered(state, std::move(said));
             });
  return true;
}

void QueryCall::EmbedderAnswered(const EmbeddingState& state, absl::StatusOr<EmbeddedQuery> said) {
  absl::Status status = said.status();
  if (said.ok()) {
    status = state.source.Accepts(said->source);
    if (!status.ok()) NoteEmbedder(*environment().writes, request_.key, state, said->source);
  }
  if (status.ok()) {
    embedding_ = {std::move(said->vector), embedded_for_};
  } else {
    embedder_failure_ = MissingReason(status);
  }
  QueueStep();
}

void QueryCall::PrepareOthers(const std::vector<std::string>& others) {
  auto preparation = std::make_shared<Preparation>();
  {
    MutexLock lock(preparation->mutex);
    preparation->ready.resize(others.size());
    preparation->left = others.size();
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    PrepareRequest request;
    request.key = {request_.key.tenant, others[i]};
    request.with_blocks = request_.AsksBlocks();
    const auto prepared = [call = self(), preparation, i](absl::StatusOr<PreparedSession> other) {
      if (!other.ok()) {
        call->read_->Finish(other.status());
        return;
      }
      auto ready = std::make_shared<std::vector<PreparedSession>>();
      {
        MutexLock lock(preparation->mutex);
        preparation->ready[i] = *std::move(other);
        if (--preparation->left > 0) return;
        ready->swap(preparation->ready);
      }
      call->Queue([call = call.get(), ready] { call->Conclude(call->AnswerWithOthers(*ready)); });
    };
    const auto part = environment().calls->Begin<PreparedSession>(request.key.tenant,
                                                                  read_->end_of_part(), prepared);
    if (part == nullptr) continue;
    std::make_shared<PrepareCall>(&environment(), part, std::move(request))->Begin();
  }
}

absl::StatusOr<Found> QueryCall::AnswerWithOthers(const std::vector<PreparedSession>& others) {
  PreparedSession asked{request_.key, InfoOf(*session()), index()};
  if (request_.AsksBlocks()) {
    MEMORYD_ASSIGN_OR_RETURN(asked.texts, KnownTextsOfBlocks());
  }
  return environment().recall->AnswerWithOthers(std::move(asked), request_, accept_missing(),
                                                others);
}

}  // namespace

void StartQuery(const SearchEnvironment* environment, QueryRequest request, CallEnd end,
                std::function<void(absl::StatusOr<Found>)> done) {
  auto read = environment->calls->Begin<Found>(request.key.tenant, std::move(end), std::move(done),
                                               static_cast<std::int64_t>(request.byte_size));
  if (read == nullptr) return;
  request.shape.now_us = environment->clock->NowUs();
  std::make_shared<QueryCall>(environment, std::move(read), std::move(request))->Begin();
}

}  // namespace memoryd
