#include "core/blocks/message_embedder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_text.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/model_answer.h"
#include "core/blocks/model_calls.h"
#include "core/blocks/reasoning.h"
#include "core/blocks/vector_entry.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"

namespace memoryd {
namespace {

// Of a text: small embedders read little more.

BlockSettings Settings() {
  BlockSettings settings;
  settings.name = kRetrievalBlock;
  return settings;
}

// The messages of a job that are to be embedded, oldest first.
struct Drafts {
  std::vector<std::int64_t> positions;
  std::vector<bool> has_words;
  std::vector<std::string> texts;  // Of those that have words.
};

FeedResult ResultOf(const Drafts& drafts, std::vector<std::vector<float>> vectors) {
  FeedResult result;
  auto next = vectors.begin();
  for (std::size_t i = 0; i < drafts.positions.size(); ++i) {
    VectorEntry entry;
    if (drafts.has_words[i]) entry.vector = std::move(*next++);
    result.entries.push_back(EncodeVectorEntry(entry));
  }
  result.entry_positions = drafts.positions;
  return result;
}

}  // namespace

MessageEmbedder::MessageEmbedder(ModelName embedder, const BlockEnvironment& environment,
                                 FindRows find_rows)
    : Block(Settings()),
      embedder_(std::move(embedder)),
      models_(*environment.models),
      bodies_(*environment.bodies),
      find_rows_(std::move(find_rows)) {}

std::string EmbeddedText(const BodyReader& bodies, const Message& row) {
  // A body that can't be read has no words; it must not hold up the others.
  const MessageText message = bodies.ReadMessage(row.body).value_or(MessageText());
  const std::string spoken =
      IsModelRole(message.role) ? WithoutReasoning(message.text) : message.text;
  return std::string(PythonStrip(Head(PythonStrip(spoken), kEmbeddedTextBytes)));
}

BlockMessage WordsAlone(const BodyReader& bodies, const Message& row) {
  MessageDraft draft;
  draft.position = row.position;
  BlockMessage message;
  message.row = MessagePtr(draft);
  message.parts.parts.emplace_back().text = EmbeddedText(bodies, row);
  return message;
}

void MessageEmbedder::Feed(FeedRequest request, Done<FeedResult> done) const {
  const absl::StatusOr<EmbeddingState> state = EmbeddingState::FromJson(request.state.state);
  if (!state.ok()) return done(state.status());
  const std::uint64_t generation =
      state->next.has_value() ? state->next->generation : request.state.entry_generation;
  auto embedded =
      find_rows_(request.session.key, generation, request.messages.front().row->position,
                 request.messages.back().row->position + 1);
  if (!embedded.ok()) return done(embedded.status());
  std::sort(embedded->begin(), embedded->end());
  Drafts drafts;
  for (const BlockMessage& message : request.messages) {
    const std::int64_t position = message.row->position;
    if (std::binary_search(embedded->begin(), embedded->end(), position)) continue;
    const bool words_alone = message.row->body.empty() && !message.parts.parts.empty();
    std::string text =
        words_alone ? message.parts.parts.front().text : EmbeddedText(bodies_, *message.row);
    drafts.positions.push_back(position);
    drafts.has_words.push_back(!text.empty());
    if (!text.empty()) drafts.texts.push_back(std::move(text));
  }
  if (drafts.texts.empty()) {
    FeedResult result = ResultOf(drafts, {});
    result.state = std::move(request.state.state);
    return done(std::move(result));
  }
  std::vector<std::string> texts = std::move(drafts.texts);
  AskEmbedder(models_, embedder_, CallerOf(name(), request), EmbedPurpose::kText, std::move(texts),
              request.deadline,
              [drafts = std::move(drafts), now = *state, name = embedder_,
               done = std::move(done)](absl::StatusOr<EmbedReply> reply) mutable {
                if (!reply.ok()) return done(reply.status());
                const auto counts = now.Answered(SourceOf(name, *reply));
                if (!counts.ok()) return done(counts.status());
                FeedResult result;
                // Else it begins anew, with those that may have been embedded otherwise.
                if (*counts) result = ResultOf(drafts, std::move(reply->vectors));
                result.state = now.ToJson();
                done(std::move(result));
              });
}

void MessageEmbedder::Render(RenderRequest /*request*/, Done<BlockContent> done) const {
  done(BlockContent());
}

void EmbedQuery(ModelDirectory& models, const ModelName& embedder, const SessionKey& session,
                std::string_view query, std::shared_ptr<UsageCount> usage, TracePtr trace,
                BlockDeadline deadline, std::function<void(absl::StatusOr<EmbeddedQuery>)> done) {
  const ModelCaller caller{session.tenant,   session.session, std::string(kRetrievalBlock), "",
                           std::move(usage), std::move(trace)};
  AskEmbedder(models, embedder, caller, EmbedPurpose::kQuery,
              {std::string(Head(query, kEmbeddedTextBytes))}, deadline,
              [embedder, done = std::move(done)](absl::StatusOr<EmbedReply> reply) {
                if (!reply.ok()) return done(reply.status());
                EmbeddedQuery embedded{SourceOf(embedder, *reply), {}};
                embedded.vector = std::move(reply->vectors.front());
                done(std::move(embedded));
              });
}

}  // namespace memoryd
