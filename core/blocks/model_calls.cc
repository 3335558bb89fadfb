#include "core/blocks/model_calls.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/blocks/block_text.h"

namespace memoryd {
namespace {

constexpr std::array<std::string_view, 1> kTags = {"message"};

// A job that has asked before asks on: else what it has paid for would be lost.
absl::Status MayAsk(ModelDirectory& models, const ModelCaller& caller) {
  const bool begun =
      !caller.job_id.empty() && caller.usage != nullptr && caller.usage->Total() != Usage();
  return begun ? absl::OkStatus() : models.MayAsk(caller);
}

}  // namespace

void CountUsage(ModelDirectory& models, const ModelCaller& caller, const Usage& usage) {
  models.Answered(caller, usage);
  if (caller.usage != nullptr) caller.usage->Add(usage);
}

void AskChatModel(ModelDirectory& models, BlockStats* stats, const ModelName& name,
                  const std::string& block, const FeedRequest& job, ChatRequest request,
                  ChatModel::Done done) {
  const ModelCaller caller{
      job.session.key.tenant, job.session.key.session, block, job.job_id, job.usage,
      job.session.trace};
  if (absl::Status status = MayAsk(models, caller); !status.ok()) return done(std::move(status));
  if (stats != nullptr) Increment(stats->answers);
  const auto model = models.FindChatModel(caller.tenant, name.worker, name.model);
  if (!model.ok()) {
    done(model.status());
    return;
  }
  // Kept until it has answered, whatever becomes of the directory.
  (*model)->Complete(
      caller, std::move(request), job.deadline,
      [&models, caller, model = *model, done = std::move(done)](absl::StatusOr<ChatReply> reply) {
        if (reply.ok()) CountUsage(models, caller, reply->usage);
        done(std::move(reply));
      });
}

void AskEmbedder(ModelDirectory& models, const ModelName& name, const ModelCaller& caller,
                 EmbedPurpose purpose, std::vector<std::string> texts, BlockDeadline deadline,
                 Embedder::Done done) {
  if (absl::Status status = MayAsk(models, caller); !status.ok()) return done(std::move(status));
  const auto embedder = models.FindEmbedder(caller.tenant, name.worker, name.model);
  if (!embedder.ok()) {
    done(embedder.status());
    return;
  }
  const std::size_t count = texts.size();
  (*embedder)->Embed(caller, purpose, std::move(texts), deadline,
                     [&models, caller, embedder = *embedder, count,
                      done = std::move(done)](absl::StatusOr<EmbedReply> reply) {
                       if (reply.ok()) CountUsage(models, caller, reply->usage);
                       if (reply.ok() && reply->vectors.size() != count) {
                         reply = absl::DataLossError("an embedder's answer has too few vectors");
                       }
                       done(std::move(reply));
                     });
}

EmbeddingSource SourceOf(const ModelName& embedder, const EmbedReply& reply) {
  return {embedder.model, embedder.worker, reply.model, reply.vectors.front().size()};
}

std::vector<TranscriptPiece> Transcript(std::span<const BlockMessage> messages,
                                        std::size_t max_bytes) {
  std::vector<TranscriptPiece> pieces;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const StoredMessage& message = messages[i].parts;
    const std::string words = MessageWords(message);
    if (PythonStrip(words).empty()) continue;
    std::string line =
        fmt::format("<message number=\"{}\" role=\"{}\"", i + 1, EscapeAttribute(message.role));
    if (!message.name.empty()) line += fmt::format(" name=\"{}\"", EscapeAttribute(message.name));
    line += fmt::format(">{}</message>\n", EscapeTags(Head(words, max_bytes), kTags));
    if (pieces.empty() || pieces.back().text.size() + line.size() > max_bytes) {
      pieces.emplace_back();
    }
    pieces.back().text += line;
    pieces.back().messages.push_back(i);
  }
  return pieces;
}

std::size_t TextBytes(std::span<const TranscriptPiece> pieces) {
  std::size_t bytes = 0;
  for (const TranscriptPiece& piece : pieces) bytes += piece.text.size();
  return bytes;
}

}  // namespace memoryd
