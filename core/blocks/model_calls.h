// How blocks ask models.
#ifndef MEMORYD_CORE_BLOCKS_MODEL_CALLS_H_
#define MEMORYD_CORE_BLOCKS_MODEL_CALLS_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/embedding_state.h"
#include "core/models/model.h"

namespace memoryd {

// A model by name, and the worker that serves it; empty: the server itself.
struct ModelName {
  std::string worker;
  std::string model;
};

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
//   <message number="1" role="user" name="Ann">...</message>
//
// Numbers are those of `messages`, from 1. A message without words is left out.
struct TranscriptPiece {
  std::string text;
  std::vector<std::size_t> messages;  // Indexes.
};
std::vector<TranscriptPiece> Transcript(std::span<const BlockMessage> messages,
                                        std::size_t max_bytes);
std::size_t TextBytes(std::span<const TranscriptPiece> pieces);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_MODEL_CALLS_H_
