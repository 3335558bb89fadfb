#include "server/wire/worker_codec.h"

#include <fmt/format.h>
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/workers/worker_call.h"
#include "core/writes/incoming.h"
#include "server/wire/convert.h"
#include "server/wire/field_checks.h"
#include "server/wire/stored_body.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

constexpr int kMaxNames = 256;
constexpr std::size_t kMaxBlockName = 64;
constexpr std::size_t kMaxErrorBytes = 1024;

bool IsBlockNameByte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

absl::Status CheckBlockName(const FieldPath& field, std::string_view name) {
  if (name.empty() || name.size() > kMaxBlockName ||
      !std::all_of(name.begin(), name.end(), &IsBlockNameByte)) {
    return InvalidField(field, "must be 1 to 64 of the characters A-Z a-z 0-9 _ -");
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const FieldPath& field, int count) {
  if (count <= kMaxNames) return absl::OkStatus();
  return InvalidField(field, fmt::format("at most {} names", kMaxNames));
}

absl::StatusOr<std::vector<std::string>> Names(
    std::string_view field, const google::protobuf::RepeatedPtrField<std::string>& names) {
  MEMORYD_RETURN_IF_ERROR(CheckCount(field, names.size()));
  std::set<std::string_view> seen;
  for (int i = 0; i < names.size(); ++i) {
    const FieldPath at(field, i);
    MEMORYD_RETURN_IF_ERROR(CheckId(at, names[i], kMaxIdBytes));
    if (!seen.insert(names[i]).second) return InvalidField(at, "is given twice");
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::Status BadAnswer(std::string_view message) {
  return Error(absl::StatusCode::kDataLoss, "WORKER_ANSWER",
               fmt::format("the worker's answer can't be used: {}", message));
}

absl::Status FromProto(const v1::WorkerError& error) {
  const bool known = error.code() > 0 && error.code() <= 16;
  auto code = known ? static_cast<absl::StatusCode>(error.code()) : absl::StatusCode::kUnknown;
  // The worker's arguments are not the caller's.
  if (code == absl::StatusCode::kInvalidArgument) code = absl::StatusCode::kFailedPrecondition;
  std::string message = error.message();
  if (message.size() > kMaxErrorBytes) {
    std::size_t end = kMaxErrorBytes;
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
    message.resize(end);
  }
  return Error(code, "WORKER_FAILED", message.empty() ? "the worker gave no reason" : message);
}

absl::StatusOr<BlockContent> FromProto(v1::WorkerContent& wire) {
  BlockContent content;
  // Parts are checked as those of a message.
  v1::Message carrier;
  carrier.set_role("system");
  carrier.mutable_parts()->Swap(wire.mutable_parts());
  IncomingMessage ignored;
  MEMORYD_RETURN_IF_ERROR(CheckMessage("content", carrier, ignored));
  if (carrier.has_text()) {
    content.parts.emplace_back().text = std::move(*carrier.mutable_text());
  }
  for (const v1::Part& part : carrier.parts()) {
    content.parts.push_back(ToBlockPart(ToStoredPart(part), part.SerializeAsString()));
  }
  for (int i = 0; i < wire.messages_size(); ++i) {
    v1::Message& message = *wire.mutable_messages(i);
    MEMORYD_RETURN_IF_ERROR(CheckMessage(FieldPath("content.messages", i), message, ignored));
    content.messages.push_back(ToStoredMessage(message));
  }
  return content;
}

void FillMessage(const BlockMessage& message, v1::Message& wire) {
  // The body has fields that the core does not know.
  if (message.row == nullptr || !ParseBody(message.row->body, wire)) {
    FillMessage(message.parts, wire);
  }
  wire.set_message_id(message.id);
  if (message.row == nullptr) return;
  wire.set_position(message.row->position);
  wire.set_token_count(message.row->token_count);
  SetTime(wire.mutable_ingest_time(), message.row->ingest_us);
}

struct FillRequest {
  v1::WorkerCall& wire;

  void operator()(const WorkerPut& put) const {
    v1::BlockPut& to = *wire.mutable_put();
    to.set_state(put.state);
    for (const BlockMessage& message : put.messages) FillMessage(message, *to.add_messages());
    to.set_options_json(put.options_json);
    to.set_attempt(put.attempt);
  }
  void operator()(const WorkerGet& get) const {
    v1::BlockGet& to = *wire.mutable_get();
    to.set_state(get.state);
    for (const BlockMessage& message : get.messages) FillMessage(message, *to.add_messages());
    to.set_options_json(get.options_json);
  }
  void operator()(const WorkerTruncate& truncate) const {
    v1::BlockTruncate& to = *wire.mutable_truncate();
    for (const BlockPart& part : truncate.content.parts) {
      FillPart(part, *to.mutable_content()->add_parts());
    }
    for (const StoredMessage& message : truncate.content.messages) {
      FillMessage(message, *to.mutable_content()->add_messages());
    }
    to.set_token_count(truncate.tokens);
    to.set_options_json(truncate.options_json);
  }
  void operator()(const WorkerComplete& complete) const {
    v1::ModelComplete& to = *wire.mutable_complete();
    to.set_model(complete.model);
    for (const StoredMessage& message : complete.request.messages) {
      FillMessage(message, *to.add_messages());
    }
    to.set_max_token_count(complete.request.max_tokens);
  }
  void operator()(const WorkerEmbed& embed) const {
    v1::ModelEmbed& to = *wire.mutable_embed();
    to.set_embedder(embed.embedder);
    for (const std::string& text : embed.texts) to.add_texts(text);
    to.set_purpose(embed.purpose == EmbedPurpose::kQuery ? v1::EMBED_PURPOSE_QUERY
                                                         : v1::EMBED_PURPOSE_TEXT);
  }
};

// As of what models say over HTTP.
std::int64_t Believed(std::int64_t count) {
  return count < 0 || count > kMaxAnswerUsage ? 0 : count;
}

}  // namespace

absl::StatusOr<WorkerOffer> FromProto(const v1::WorkerHello& hello) {
  WorkerOffer offer;
  MEMORYD_RETURN_IF_ERROR(CheckId("hello.name", hello.name(), kMaxIdBytes));
  offer.name = hello.name();
  MEMORYD_RETURN_IF_ERROR(CheckCount("hello.blocks", hello.blocks_size()));
  std::set<std::string_view> seen;
  for (int i = 0; i < hello.blocks_size(); ++i) {
    const v1::WorkerBlock& block = hello.blocks(i);
    const FieldPath path("hello.blocks", i);
    const FieldPath field = path.Field("name");
    MEMORYD_RETURN_IF_ERROR(CheckBlockName(field, block.name()));
    if (!seen.insert(block.name()).second) return InvalidField(field, "is given twice");
    offer.blocks.push_back({block.name(), block.takes_messages(), block.truncates()});
  }
  MEMORYD_ASSIGN_OR_RETURN(offer.models, Names("hello.models", hello.models()));
  MEMORYD_ASSIGN_OR_RETURN(offer.embedders, Names("hello.embedders", hello.embedders()));
  const int calls = hello.max_concurrent_calls();
  if (calls < 0 || calls > kMaxWorkerCalls) {
    return InvalidField("hello.max_concurrent_calls",
                        fmt::format("must be between 0 and {}", kMaxWorkerCalls));
  }
  offer.max_concurrent_calls = calls == 0 ? kDefaultWorkerCalls : calls;
  return offer;
}

absl::StatusOr<WorkerReply> FromProto(v1::WorkerResult& result) {
  WorkerReply reply;
  reply.usage = {Believed(result.usage().calls()), Believed(result.usage().prompt_token_count()),
                 Believed(result.usage().completion_token_count())};
  switch (result.result_case()) {
    case v1::WorkerResult::kPut: {
      WorkerPutReply put;
      if (result.put().has_state()) put.state = std::move(*result.mutable_put()->mutable_state());
      reply.result = std::move(put);
      return reply;
    }
    case v1::WorkerResult::kContent: {
      absl::StatusOr<BlockContent> content = FromProto(*result.mutable_content());
      if (!content.ok()) return BadAnswer(std::string(content.status().message()));
      reply.result = *std::move(content);
      return reply;
    }
    case v1::WorkerResult::kComplete:
      reply.result =
          WorkerTextReply{std::move(*result.mutable_complete()->mutable_text()),
                          std::move(*result.mutable_complete()->mutable_finish_reason())};
      return reply;
    case v1::WorkerResult::kEmbed: {
      WorkerVectorsReply vectors;
      for (const v1::EmbedVector& vector : result.embed().vectors()) {
        if (vector.values_size() > static_cast<int>(kMaxEmbeddingSize)) {
          return BadAnswer(fmt::format("an embedding has more than {} numbers", kMaxEmbeddingSize));
        }
        vectors.vectors.emplace_back(vector.values().begin(), vector.values().end());
      }
      reply.result = std::move(vectors);
      return reply;
    }
    case v1::WorkerResult::kError:
      return FromProto(result.error());
    case v1::WorkerResult::RESULT_NOT_SET:
      break;
  }
  return BadAnswer("it has no result");
}

std::string EncodeCall(std::int64_t call_id, const WorkerCall& call,
                       std::chrono::steady_clock::time_point now) {
  v1::AttachResponse response;
  v1::WorkerCall& wire = *response.mutable_call();
  wire.set_call_id(call_id);
  // A deadline infinitely far must not overflow.
  const auto left = std::clamp<std::chrono::steady_clock::duration>(
      call.deadline - std::min(now, call.deadline), std::chrono::seconds(0),
      std::chrono::hours(24));
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(left).count();
  wire.mutable_timeout()->set_seconds(micros / kMicrosPerSecond);
  wire.mutable_timeout()->set_nanos(static_cast<std::int32_t>(micros % kMicrosPerSecond * 1000));
  wire.set_session_id(call.session);
  wire.set_block(call.block);
  wire.set_job_id(call.job_id);
  if (call.trace != nullptr) {
    wire.set_traceparent(call.trace->traceparent);
    wire.set_tracestate(call.trace->tracestate);
  }
  std::visit(FillRequest{wire}, call.request);
  return response.SerializeAsString();
}

}  // namespace memoryd
