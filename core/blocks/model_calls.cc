#include "core/blocks/model_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_text.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/model_answer.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/time_zone.h"

namespace memoryd {
namespace {

constexpr std::array<std::string_view, 1> kTags = {"message"};
// A cut answer is asked for with so many times its room, and at least so much.
constexpr std::int64_t kMoreRoom = 4;
constexpr std::int64_t kLeastRoom = 2048;
constexpr int kMostTries = 3;

// A job that has asked before asks on: else what it has paid for would be lost.
absl::Status MayAsk(ModelDirectory& models, const ModelCaller& caller) {
  const bool begun =
      !caller.job_id.empty() && caller.usage != nullptr && caller.usage->Total() != Usage();
  return begun ? absl::OkStatus() : models.MayAsk(caller);
}

void Ask(ModelDirectory& models, BlockStats* stats, const ModelName& name,
         const ModelCaller& caller, ChatRequest request, BlockDeadline deadline,
         ChatModel::Done done) {
  if (absl::Status status = MayAsk(models, caller); !status.ok()) return done(std::move(status));
  if (stats != nullptr) Increment(stats->answers);
  const auto model = models.FindChatModel(caller.tenant, name.worker, name.model);
  if (!model.ok()) {
    done(model.status());
    return;
  }
  // Kept until it has answered, whatever becomes of the directory.
  (*model)->Complete(
      caller, std::move(request), deadline,
      [&models, caller, model = *model, done = std::move(done)](absl::StatusOr<ChatReply> reply) {
        if (reply.ok()) CountUsage(models, caller, reply->usage);
        done(std::move(reply));
      });
}

// A question that is put again, with more room, while its answers are cut.
struct Asking : std::enable_shared_from_this<Asking> {
  Asking(ModelDirectory& directory, BlockStats* counts, ModelName model, ModelCaller asks,
         BlockDeadline until, ChatRequest question,
         std::function<void(absl::StatusOr<std::string>)> answered)
      : models(directory),
        stats(counts),
        name(std::move(model)),
        caller(std::move(asks)),
        deadline(until),
        request(std::move(question)),
        done(std::move(answered)) {}

  void Start() {
    ++tries;
    Ask(models, stats, name, caller, request, deadline,
        [self = shared_from_this()](absl::StatusOr<ChatReply> reply) {
          self->Take(std::move(reply));
        });
  }

  void Take(absl::StatusOr<ChatReply> reply) {
    if (!reply.ok()) {
      // A model may refuse more room than it has; what was cut stays cut.
      const bool refused = tries > 1 && (absl::IsFailedPrecondition(reply.status()) ||
                                         absl::IsInvalidArgument(reply.status()));
      return done(refused ? Cut() : reply.status());
    }
    ModelAnswer answer = ReadAnswer(*reply, request.messages.back().parts.front().text);
    if (answer.status != ModelAnswer::Status::kCut) return done(std::move(answer.text));
    if (tries == kMostTries) return done(Cut());
    request.max_tokens = std::max(
        {kLeastRoom, kMoreRoom * request.max_tokens, kMoreRoom * reply->usage.completion_tokens});
    Start();
  }

  absl::Status Cut() const {
    return Error(
        absl::StatusCode::kResourceExhausted, "ANSWER_CUT",
        fmt::format("model {}: it ran out of tokens before its answer ended, with room for "
                    "{} tokens too; nothing of it was stored. Give the model a longer "
                    "context or more output, then call RetryJob",
                    name.model, request.max_tokens));
  }

  ModelDirectory& models;
  BlockStats* const stats;
  const ModelName name;
  const ModelCaller caller;
  const BlockDeadline deadline;
  ChatRequest request;
  const std::function<void(absl::StatusOr<std::string>)> done;
  int tries = 0;
};

}  // namespace

ModelCaller CallerOf(const std::string& block, const FeedRequest& job) {
  return {job.session.key.tenant, job.session.key.session, block, job.job_id, job.usage,
          job.session.trace};
}

void CountUsage(ModelDirectory& models, const ModelCaller& caller, const Usage& usage) {
  models.Answered(caller, usage);
  if (caller.usage != nullptr) caller.usage->Add(usage);
}

void AskChatModel(ModelDirectory& models, BlockStats* stats, const ModelName& name,
                  const std::string& block, const FeedRequest& job, ChatRequest request,
                  ChatModel::Done done) {
  Ask(models, stats, name, CallerOf(block, job), std::move(request), job.deadline, std::move(done));
}

void AskForText(ModelDirectory& models, BlockStats* stats, const ModelName& name,
                const std::string& block, const FeedRequest& job, ChatRequest request,
                std::function<void(absl::StatusOr<std::string>)> done) {
  std::make_shared<Asking>(models, stats, name, CallerOf(block, job), job.deadline,
                           std::move(request), std::move(done))
      ->Start();
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
                                        std::size_t max_bytes, const absl::TimeZone* zone) {
  std::vector<TranscriptPiece> pieces;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const StoredMessage& message = messages[i].parts;
    const std::string words = SpokenWords(message);
    if (PythonStrip(words).empty()) continue;
    std::string line =
        fmt::format("<message number=\"{}\" role=\"{}\"", i + 1, EscapeAttribute(message.role));
    if (!message.name.empty()) line += fmt::format(" name=\"{}\"", EscapeAttribute(message.name));
    const std::int64_t time_us =
        message.create_us.value_or(messages[i].row == nullptr ? 0 : messages[i].row->ingest_us);
    if (zone != nullptr && time_us != 0) {
      line += fmt::format(" time=\"{}\"", TimeText(time_us, *zone));
    }
    line += fmt::format(">{}</message>\n", EscapeTags(Head(words, max_bytes), kTags));
    if (pieces.empty() || pieces.back().text.size() + line.size() > max_bytes) {
      pieces.emplace_back();
    }
    pieces.back().text += line;
    pieces.back().messages.push_back(i);
  }
  return pieces;
}

BlockPrompt::BlockPrompt(std::string text, std::string_view own)
    : text_(std::move(text)),
      is_dated_(text_ == own || text_.find("{dated_messages}") != std::string::npos) {}

std::string BlockPrompt::Fill(
    const FeedRequest& job, std::string_view messages,
    std::vector<std::pair<std::string_view, std::string_view>> values) const {
  const std::string today = DayText(job.now_us, job.session.zone);
  const std::string zone(job.session.zone.name());
  values.insert(values.end(), {{"messages", messages},
                               {"dated_messages", messages},
                               {"today", today},
                               {"time_zone", zone}});
  std::string prompt = FillTemplate(text_, values);
  const bool shows = messages.empty() || text_.find("{messages}") != std::string::npos ||
                     text_.find("{dated_messages}") != std::string::npos;
  if (!shows) prompt = std::string(messages).append("\n").append(prompt);
  return std::string(PythonStrip(prompt));
}

std::size_t TextBytes(std::span<const TranscriptPiece> pieces) {
  std::size_t bytes = 0;
  for (const TranscriptPiece& piece : pieces) bytes += piece.text.size();
  return bytes;
}

}  // namespace memoryd
