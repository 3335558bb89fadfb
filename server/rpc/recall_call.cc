#include "server/rpc/recall_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/recall/known_texts.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/recall/update_context.h"
#include "core/sessions/session_info.h"
#include "core/writes/incoming.h"
#include "server/rpc/block_reply.h"
#include "server/wire/convert.h"
#include "server/wire/field_checks.h"
#include "server/wire/filter.h"
#include "server/wire/stored_body.h"
#include "server/wire/wire_writer.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxQuery = std::size_t{64} << 10;
constexpr int kMaxResults = 1000;
constexpr int kDefaultResults = 10;
constexpr int kMaxNeighbours = 10;
constexpr std::int64_t kMaxTokenBudget = std::numeric_limits<std::int32_t>::max();
constexpr int kMaxContextMessages = 10'000;

v1::ScoreParts ToProto(const FoundItem& item) {
  v1::ScoreParts parts;
  parts.set_words(item.parts.words);
  parts.set_vector(item.parts.vector);
  parts.set_embedding(item.parts.embedding);
  parts.set_author(item.parts.author);
  parts.set_user(item.parts.user);
  parts.set_length(item.parts.length);
  parts.set_recency(item.parts.recency);
  parts.set_neighbours(item.parts.neighbours);
  if (item.cosine.has_value()) parts.set_cosine(*item.cosine);
  if (item.embedding_cosine.has_value()) parts.set_embedding_cosine(*item.embedding_cosine);
  return parts;
}

v1::BlockItem ToProto(const KnownText& known, bool with_text) {
  v1::BlockItem proto;
  proto.set_block(known.block);
  if (const Fact* const fact = std::get_if<Fact>(&known.item)) {
    Fill(*fact, *proto.mutable_fact());
    if (!with_text) proto.mutable_fact()->clear_text();
  } else if (const Entity* const entity = std::get_if<Entity>(&known.item)) {
    Fill(*entity, *proto.mutable_entity());
    if (!with_text) proto.mutable_entity()->clear_text();
  } else {
    proto.set_text(with_text ? std::get<std::string>(known.item) : std::string());
  }
  return proto;
}

// Of which a passage stands beside it.
template <typename Proto>
MessagePtr WithoutText(const Message& row) {
  MessageDraft bare(row);
  Proto body;
  // What can't be read has no passage.
  body.ParseFromString(bare.body);
  body.clear_text();
  if constexpr (std::is_same_v<Proto, v1::Message>) body.clear_parts();
  bare.body = body.SerializeAsString();
  return MessagePtr(bare);
}

// Appends the items as `field` of a reply. False when the reply grows too large.
v1::MessageStatus StatusIn(const SessionRow& row, const Message& message) {
  return IsActive(row, message.position) ? v1::MESSAGE_STATUS_ACTIVE : v1::MESSAGE_STATUS_ARCHIVED;
}

// What was found, without its text where that stands in the passage.
void AppendWhat(std::string& result, MessageWriter& writer, const FoundItem& item,
                const SessionRow& row) {
  const bool has_text = item.passage.empty();
  if (item.message != nullptr) {
    const MessagePtr message = has_text ? item.message : WithoutText<v1::Message>(*item.message);
    writer.Append(v1::QueryResult::kMessageFieldNumber, *message, row.generation,
                  StatusIn(row, *message));
  } else if (item.known != nullptr) {
    AppendBytes(result, v1::QueryResult::kBlockItemFieldNumber,
                ToProto(*item.known, has_text).SerializeAsString());
  } else {
    const ContentPtr content = has_text ? item.content : WithoutText<v1::Content>(*item.content);
    writer.AppendContent(v1::QueryResult::kContentFieldNumber, *content, row.content_generation);
  }
}

bool AppendResults(std::string& reply, int field, const Found& found, bool with_parts = false) {
  std::string result;
  for (const FoundItem& item : found.items) {
    const SessionRow& row = item.other == nullptr ? found.row : item.other->row;
    result.clear();
    MessageWriter writer(result);
    AppendDouble(result, v1::QueryResult::kScoreFieldNumber, item.score);
    AppendWhat(result, writer, item, row);
    if (!item.passage.empty()) {
      AppendBytes(result, v1::QueryResult::kPassageFieldNumber, item.passage);
    }
    for (const MessagePtr& neighbour : item.neighbours) {
      writer.Append(v1::QueryResult::kNeighboursFieldNumber, *neighbour, row.generation,
                    StatusIn(row, *neighbour));
    }
    if (item.other != nullptr) {
      AppendBytes(result, v1::QueryResult::kSessionIdFieldNumber, item.other->session_id);
    }
    if (with_parts && item.score > 0) {
      AppendBytes(result, v1::QueryResult::kPartsOfScoreFieldNumber,
                  ToProto(item).SerializeAsString());
    }
    if (reply.size() + result.size() > kMaxReplyBytes) return false;
    AppendBytes(reply, field, result);
  }
  return true;
}

bool IsOnlyResults(const v1::Message& message) {
  return message.parts_size() > 0 &&
         std::all_of(message.parts().begin(), message.parts().end(),
                     [](const v1::Part& part) { return part.has_tool_result(); });
}

ContextMessage FromContext(const v1::Message& message) {
  ContextMessage entry;
  entry.role = message.role();
  if (message.has_text()) {
    entry.texts.push_back(message.text());
    entry.only_text = true;
    return entry;
  }
  for (const v1::Part& part : message.parts()) {
    if (part.has_text()) entry.texts.push_back(part.text());
    entry.has_results |= part.has_tool_result();
  }
  entry.only_results = IsOnlyResults(message);
  entry.only_text =
      !entry.texts.empty() && entry.texts.size() == static_cast<std::size_t>(message.parts_size());
  entry.other_words = WordsOf(message);
  return entry;
}

// A message of one text part becomes that text, as it does when it comes from a caller.
void MakeText(v1::Message& message) {
  if (message.parts_size() != 1 || !message.parts(0).has_text()) return;
  std::string text = std::move(*message.mutable_parts(0)->mutable_text());
  message.clear_parts();
  message.set_text(std::move(text));
}

// A part that is left without text goes.
void ReplaceTexts(const std::vector<std::string>& texts, v1::Message& message) {
  if (message.has_text()) {
    message.set_text(texts.front());
    return;
  }
  auto text = texts.begin();
  v1::Message kept;
  for (v1::Part& part : *message.mutable_parts()) {
    if (part.has_text()) {
      const bool emptied = text->empty() && !part.text().empty();
      part.set_text(*text++);
      if (emptied) continue;
    }
    kept.add_parts()->Swap(&part);
  }
  message.mutable_parts()->Swap(kept.mutable_parts());
  MakeText(message);
}

// What becomes one message of the new context.
struct JointMessage {
  struct Piece {
    v1::Message message;
    bool is_human = false;    // A human's, with more than results.
    bool is_memorys = false;  // What memory says.
  };
  std::vector<Piece> pieces;
};

// The first human's role; without one that of the first who says more than results, so that the
// whole is no human's message when it comes again.
std::string JointRole(const std::vector<JointMessage::Piece>& pieces) {
  using Piece = JointMessage::Piece;
  const auto human =
      std::find_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.is_human; });
  if (human != pieces.end()) return human->message.role();
  const auto speaker = std::find_if(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return !IsOnlyResults(piece.message);
  });
  return speaker == pieces.end() ? pieces.front().message.role() : speaker->message.role();
}

// One message of the parts of all, results first. Fields but for the role are those of the first
// that is the caller's.
v1::Message Join(JointMessage joint) {
  std::vector<JointMessage::Piece>& pieces = joint.pieces;
  if (pieces.size() == 1) return std::move(pieces.front().message);
  std::string role = JointRole(pieces);
  v1::Message joined;
  std::vector<v1::Part> results;
  std::vector<v1::Part> others;
  std::int64_t tokens = 0;
  bool has_caller = false;
  bool has_human = false;
  bool caller_speaks = false;
  bool one_name = true;
  for (auto& [message, is_human, is_memorys] : pieces) {
    const std::size_t said = others.size();
    if (!message.text().empty()) others.emplace_back().set_text(message.text());
    for (v1::Part& part : *message.mutable_parts()) {
      (part.has_tool_result() ? results : others).push_back(std::move(part));
    }
    message.clear_text();
    message.clear_parts();
    if (is_memorys) continue;
    caller_speaks = caller_speaks || others.size() > said;
    has_human = has_human || is_human;
    tokens += message.token_count();
    if (has_caller) {
      one_name = one_name && message.name() == joined.name();
    } else {
      joined = std::move(message);
      has_caller = true;
    }
  }
  // So that it is a human's message when it comes again, however little that says.
  if (has_human && !caller_speaks) others.emplace_back().set_text("");
  joined.set_role(std::move(role));
  if (!one_name) joined.clear_name();
  if (tokens > 0) joined.set_token_count(tokens);
  for (std::vector<v1::Part>* const parts : {&results, &others}) {
    for (v1::Part& part : *parts) *joined.add_parts() = std::move(part);
  }
  if (joined.parts_size() == 0) joined.set_text("");
  MakeText(joined);
  return joined;
}

absl::Status CheckCosine(const FieldPath& field, double cosine) {
  // Written so that NaN fails as well.
  if (cosine >= -1 && cosine <= 1) return absl::OkStatus();
  return InvalidField(field, "must be between -1 and 1");
}

}  // namespace

absl::StatusOr<QueryRequest> FromProto(const v1::QueryRequest& asked) {
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(asked.session_id()));
  MEMORYD_RETURN_IF_ERROR(CheckText("query", asked.query(), kMaxQuery));
  if (asked.top_k() < 0) return InvalidField("top_k", "must be at least 0");
  if (asked.neighbours() < 0 || asked.neighbours() > kMaxNeighbours) {
    return InvalidField("neighbours", fmt::format("must be between 0 and {}", kMaxNeighbours));
  }
  MEMORYD_RETURN_IF_ERROR(CheckCosine("score_threshold", asked.score_threshold()));
  MEMORYD_RETURN_IF_ERROR(CheckCosine("vector_threshold", asked.vector_threshold()));
  if (asked.has_token_budget() &&
      (asked.token_budget() < 1 || asked.token_budget() > kMaxTokenBudget)) {
    return InvalidField("token_budget", fmt::format("must be between 1 and {}", kMaxTokenBudget));
  }
  QueryRequest request;
  if (asked.has_score_threshold()) request.score_threshold = asked.score_threshold();
  if (asked.has_vector_threshold()) request.vector_threshold = asked.vector_threshold();
  request.byte_size = asked.ByteSizeLong();
  request.query = asked.query();
  request.top_k = static_cast<std::size_t>(
      asked.top_k() == 0 ? kDefaultResults : std::min(asked.top_k(), kMaxResults));
  request.shape.neighbours = static_cast<std::size_t>(asked.neighbours());
  if (asked.has_token_budget()) request.shape.token_budget = asked.token_budget();
  request.shape.passages = asked.passages();
  request.without_blocks = asked.without_blocks();
  MEMORYD_ASSIGN_OR_RETURN(request.filter, FromProto(asked.filter()));
  return request;
}

absl::StatusOr<std::string> QueryReply(const Found& found, const v1::QueryRequest& request) {
  std::string reply;
  if (!AppendResults(reply, v1::QueryResponse::kResultsFieldNumber, found,
                     request.parts_of_score())) {
    return ReplyTooLarge();
  }
  AppendInt(reply, v1::QueryResponse::kRevisionFieldNumber, found.row.revision);
  if (found.lacks_vectors) {
    AppendBytes(reply, v1::QueryResponse::kNoticesFieldNumber, "NO_WORD_VECTORS");
  }
  if (found.filter_limit) {
    AppendBytes(reply, v1::QueryResponse::kNoticesFieldNumber, "FILTER_LIMIT");
  }
  if (!found.embedder_failure.empty()) {
    AppendBytes(reply, v1::QueryResponse::kNoticesFieldNumber, "NO_EMBEDDING");
    v1::MissingBlock missing;
    missing.set_block(std::string(kRetrievalBlock));
    missing.set_reason(found.embedder_failure);
    AppendBytes(reply, v1::QueryResponse::kMissingBlocksFieldNumber, missing.SerializeAsString());
  }
  if (found.pending_embeddings > 0) {
    AppendBytes(reply, v1::QueryResponse::kNoticesFieldNumber, "EMBEDDINGS_PENDING");
    AppendInt(reply, v1::QueryResponse::kPendingEmbeddingsFieldNumber, found.pending_embeddings);
  }
  if (found.usage != Usage()) {
    AppendBytes(reply, v1::QueryResponse::kUsageFieldNumber,
                ToProto(found.usage).SerializeAsString());
  }
  return reply;
}

absl::StatusOr<UpdateContextRequest> FromProto(v1::UpdateContextRequest& asked) {
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(asked.session_id()));
  if (asked.messages_size() > kMaxContextMessages) {
    return InvalidField("messages", fmt::format("at most {} messages", kMaxContextMessages));
  }
  UpdateContextRequest request;
  request.byte_size = asked.ByteSizeLong();
  request.alternate_roles = asked.alternate_roles();
  request.messages.reserve(static_cast<std::size_t>(asked.messages_size()));
  for (int i = 0; i < asked.messages_size(); ++i) {
    v1::Message& message = *asked.mutable_messages(i);
    IncomingMessage checked;
    MEMORYD_RETURN_IF_ERROR(CheckMessage(FieldPath("messages", i), message, checked));
    request.messages.push_back(FromContext(message));
  }
  return request;
}

absl::StatusOr<std::string> UpdateContextReply(const UpdatedContext& updated,
                                               v1::UpdateContextRequest& request) {
  v1::UpdateContextResponse reply;
  JointMessage joint;
  const auto flush = [&reply, &joint] {
    if (!joint.pieces.empty()) *reply.add_messages() = Join(std::exchange(joint, {}));
  };
  std::size_t next = 0;
  const std::vector<InsertedMessage>& insertions = updated.insertions.messages;
  for (std::size_t i = 0; i <= updated.kept.size(); ++i) {
    bool joins = i < updated.kept.size() && updated.kept[i].joined;
    for (; next < insertions.size() && insertions[next].before == i; ++next) {
      const InsertedMessage& inserted = insertions[next];
      const bool joins_previous = inserted.join == InsertedMessage::Join::kPrevious;
      if (!joins_previous) flush();
      joins = inserted.join == InsertedMessage::Join::kNext;
      v1::Insertion& insertion = *reply.add_insertions();
      insertion.set_index(reply.messages_size());
      insertion.set_joined(inserted.join != InsertedMessage::Join::kNone);
      insertion.mutable_message()->set_role(inserted.role);
      insertion.mutable_message()->set_text(inserted.text);
      joint.pieces.push_back({insertion.message(), /*is_human=*/false, /*is_memorys=*/true});
    }
    if (!joins) flush();
    if (i == updated.kept.size()) break;
    const KeptMessage& kept = updated.kept[i];
    v1::Message message;
    message.Swap(request.mutable_messages(static_cast<int>(kept.index)));
    if (kept.texts.has_value()) ReplaceTexts(*kept.texts, message);
    joint.pieces.push_back({std::move(message), kept.is_human});
  }
  const std::string& hash = updated.insertions.stable_prefix_hash;
  reply.set_stable_prefix_hash(hash);
  reply.set_unchanged(!hash.empty() && hash == request.known_prefix_hash());
  reply.set_contents_left_out(updated.contents_left_out);
  for (const std::string& name : updated.blocks_used) reply.add_blocks_used(name);
  for (const std::string& name : updated.blocks_dropped) reply.add_blocks_dropped(name);
  if (reply.ByteSizeLong() > kMaxReplyBytes) return ReplyTooLarge();
  std::string bytes = reply.SerializeAsString();
  if (!AppendResults(bytes, v1::UpdateContextResponse::kResultsFieldNumber, updated.found)) {
    return ReplyTooLarge();
  }
  return bytes;
}

}  // namespace memoryd
