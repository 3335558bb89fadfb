// How blocks ask models.
#ifndef MEMORYD_CORE_BLOCKS_MODEL_CALLS_H_
#define MEMORYD_CORE_BLOCKS_MODEL_CALLS_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/embedding_state.h"
#include "core/llm/model.h"

namespace memoryd {

// Whose job of the block asks.
ModelCaller CallerOf(const std::string& block, const FeedRequest& job);

// For a job of the block. The answer is counted in `stats`, which may be null. Errors of the
// directory and of the model are passed on. What an answer took is counted for the caller, and the
// directory told.
void AskChatModel(ModelDirectory& models, BlockStats* stats, const ModelName& name,
                  const std::string& block, const FeedRequest& job, ChatRequest request,
                  ChatModel::Done done);

// As AskChatModel(), for an answer that memory is made of: `done` gets the text that ReadAnswer()
// leaves, "" for nothing. `request` has one message, the prompt. A model that runs out of tokens is
// asked again with more room, twice. After that, or where it takes no more: RESOURCE_EXHAUSTED
// `ANSWER_CUT`, and nothing of the answer.
void AskForText(ModelDirectory& models, BlockStats* stats, const ModelName& name,
                const std::string& block, const FeedRequest& job, ChatRequest request,
                std::function<void(absl::StatusOr<std::string>)> done);

// As AskChatModel(). DATA_LOSS for another number of vectors than there are texts.
void AskEmbedder(ModelDirectory& models, const ModelName& name, const ModelCaller& caller,
                 EmbedPurpose purpose, std::vector<std::string> texts, BlockDeadline deadline,
                 Embedder::Done done);

// Counts for the caller what models took, and tells the directory.
void CountUsage(ModelDirectory& models, const ModelCaller& caller, const Usage& usage);

// What made the vectors of an embedder's answer, of which there is at least one.
EmbeddingSource SourceOf(const ModelName& embedder, const EmbedReply& reply);

// Messages for a model to read in one text, in pieces of about `max_bytes`: a larger message is
// alone in a piece and cut at its end.
//
//   <message number="1" role="user" name="Ann" time="Wednesday, 2023-05-24 10:00">...</message>
//
// The time is the create time, else when the server accepted the message, in `zone`; null: messages
// have no times. // Numbers are those of `messages`, from 1. A message without words is left out.
struct TranscriptPiece {
  std::string text;
  std::vector<std::size_t> messages;  // Indexes.
};
std::vector<TranscriptPiece> Transcript(std::span<const BlockMessage> messages,
                                        std::size_t max_bytes, const absl::TimeZone* zone);

// A prompt for models: our own, or a template that a caller gave.
class BlockPrompt {
 public:
  BlockPrompt() = default;
  // `own` is our prompt; messages of a caller's have times where it holds {dated_messages}.
  BlockPrompt(std::string text, std::string_view own);

  const std::string& text() const { return text_; }
  // Which zone the messages' times are in; null where they have none.
  const absl::TimeZone* ZoneOf(const BlockSession& session) const {
    return is_dated_ ? &session.zone : nullptr;
  }
  // With {messages} or {dated_messages}, {today}, {time_zone} and `values` filled in. The text of
  // the messages stands before a prompt that has no place for it.
  std::string Fill(const FeedRequest& job, std::string_view messages,
                   std::vector<std::pair<std::string_view, std::string_view>> values) const;

 private:
  std::string text_;
  bool is_dated_ = true;
};

std::size_t TextBytes(std::span<const TranscriptPiece> pieces);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_MODEL_CALLS_H_
