#include "memoryd/fake_sessions.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "memoryd/error_info.h"

namespace memoryd::client {
namespace {

absl::Status Refusal(absl::StatusCode code, const std::string& message, std::string reason,
                     std::string field = "") {
  return WithErrorInfo(absl::Status(code, message),
                       {.reason = std::move(reason), .field = std::move(field)});
}

absl::Status Bad(const std::string& field, const char* what) {
  return Refusal(absl::StatusCode::kInvalidArgument, absl::StrCat(field, ": ", what),
                 "INVALID_ARGUMENT", field);
}

absl::Status NoSession() {
  return Refusal(absl::StatusCode::kNotFound, "there is no such session", "SESSION_NOT_FOUND");
}

template <typename Request>
absl::Status CheckSessionId(const Request& request) {
  return request.session_id().empty() ? Bad("session_id", "is required") : absl::OkStatus();
}

template <typename Request>
absl::Status CheckItems(const Request& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  for (int i = 0; i < request.messages_size(); ++i) {
    if (request.messages(i).role().empty()) {
      return Bad(absl::StrCat("messages[", i, "].role"), "is required");
    }
  }
  for (int i = 0; i < request.contents_size(); ++i) {
    if (request.contents(i).mime_type().empty()) {
      return Bad(absl::StrCat("contents[", i, "].mime_type"), "is required");
    }
  }
  return absl::OkStatus();
}

template <typename Request>
absl::Status CheckRevision(const Request& request, std::int64_t revision) {
  if (!request.has_expected_revision() || request.expected_revision() == revision) {
    return absl::OkStatus();
  }
  return WithErrorInfo(
      absl::AbortedError("the session is at another revision"),
      {.reason = "REVISION_MISMATCH", .details = {{"current_revision", absl::StrCat(revision)}}});
}

// Where a page begins and ends among `count` items.
struct Page {
  std::size_t begin = 0;
  std::size_t end = 0;
};

template <typename Request>
absl::StatusOr<Page> PageOf(const Request& request, std::size_t count) {
  constexpr std::size_t kUsual = 100;
  constexpr std::size_t kMost = 1000;
  Page page;
  if (request.page_size() < 0) return Bad("page_size", "is negative");
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &page.begin)) {
    return Bad("page_token", "is none of this server's");
  }
  const auto size = static_cast<std::size_t>(request.page_size());
  page.begin = std::min(page.begin, count);
  page.end = std::min(count, page.begin + (size == 0 ? kUsual : std::min(size, kMost)));
  return page;
}

// How many messages and contents there were when the first page, newest first, was read.
struct Ends {
  std::size_t messages = 0;
  std::size_t contents = 0;
};

// Takes them out of a token of the order, so that a position is left; an empty one leaves them.
bool TakeEnds(std::string& token, Ends& ends) {
  if (token.empty()) return true;
  const std::vector<std::string> parts = absl::StrSplit(token, '/');
  Ends before;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &before.messages) ||
      !absl::SimpleAtoi(parts[1], &before.contents)) {
    return false;
  }
  token = parts[2];
  // A Reset may have removed some.
  ends = {std::min(before.messages, ends.messages), std::min(before.contents, ends.contents)};
  return true;
}

std::string TextOf(const v1::Message& message) {
  std::string text = message.text();
  for (const v1::Part& part : message.parts()) absl::StrAppend(&text, "\n", part.text());
  return text;
}

bool HoldsAll(const std::string& text, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(),
                     [text](const std::string& word) { return absl::StrContains(text, word); });
}

}  // namespace

FakeSessions::Session* FakeSessions::Found(const std::string& session_id) {
  const auto found = sessions_.find(session_id);
  return found == sessions_.end() ? nullptr : &found->second;
}

FakeSessions::Session& FakeSessions::Made(const std::string& session_id) {
  const auto [made, is_new] = sessions_.try_emplace(session_id);
  if (is_new) made->second.generation = ++generations_;
  return made->second;
}

v1::Session FakeSessions::Described(const std::string& session_id, const Session& session) const {
  v1::Session described;
  described.set_session_id(session_id);
  described.set_generation(session.generation);
  described.set_revision(session.revision);
  *described.mutable_config() = session.config;
  described.set_active_count(static_cast<std::int64_t>(session.messages.size()));
  described.set_content_count(static_cast<std::int64_t>(session.contents.size()));
  return described;
}

template <typename Request>
absl::StatusOr<FakeSessions::Place> FakeSessions::PlaceOf(const Request& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  if (request.message_id().empty()) return Bad("message_id", "is required");
  Session* const session = Found(request.session_id());
  if (session == nullptr) return NoSession();
  if (absl::Status status = CheckRevision(request, session->revision); !status.ok()) return status;
  const auto message = std::find_if(
      session->messages.begin(), session->messages.end(),
      [&](const v1::Message& known) { return known.message_id() == request.message_id(); });
  if (message == session->messages.end()) {
    return Refusal(absl::StatusCode::kNotFound, "message_id: there is no such message",
                   "MESSAGE_NOT_FOUND", "message_id");
  }
  return Place{.session = session, .message = message};
}

template <typename Request>
absl::StatusOr<FakeSessions::ContentPlace> FakeSessions::ContentPlaceOf(const Request& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  if (request.content_id().empty()) return Bad("content_id", "is required");
  Session* const session = Found(request.session_id());
  if (session == nullptr) return NoSession();
  if constexpr (requires { request.expected_revision(); }) {
    absl::Status status = CheckRevision(request, session->revision);
    if (!status.ok()) return status;
  }
  const auto content = std::find_if(
      session->contents.begin(), session->contents.end(),
      [&](const v1::Content& known) { return known.content_id() == request.content_id(); });
  if (content == session->contents.end()) {
    return Refusal(absl::StatusCode::kNotFound, "content_id: there is no such content",
                   "CONTENT_NOT_FOUND", "content_id");
  }
  return ContentPlace{.session = session, .content = content};
}

template <typename Request, typename Response>
void FakeSessions::Append(const Request& request, Session& session, Response& reply) {
  for (const v1::Message& message : request.messages()) {
    v1::Message& stored = session.messages.emplace_back(message);
    stored.set_position(session.next_position++);
    stored.set_status(v1::MESSAGE_STATUS_ACTIVE);
    if (stored.message_id().empty()) {
      stored.set_message_id(absl::StrCat("m", session.generation, "-", stored.position()));
    }
    reply.add_message_ids(stored.message_id());
    reply.add_positions(stored.position());
  }
  for (const v1::Content& content : request.contents()) {
    v1::Content& stored = session.contents.emplace_back(content);
    stored.set_position(session.next_content_position++);
    if (stored.content_id().empty()) {
      stored.set_content_id(absl::StrCat("c", session.generation, "-", stored.position()));
    }
    reply.add_content_ids(stored.content_id());
  }
  reply.set_revision(++session.revision);
  reply.set_generation(session.generation);
}

absl::StatusOr<v1::PutResponse> FakeSessions::Put(const v1::PutRequest& request) {
  if (absl::Status status = CheckItems(request); !status.ok()) return status;
  const Session* const found = Found(request.session_id());
  const std::int64_t revision = found == nullptr ? 0 : found->revision;
  if (absl::Status status = CheckRevision(request, revision); !status.ok()) return status;
  Session& session = Made(request.session_id());
  if (found == nullptr) session.config = request.config();
  v1::PutResponse reply;
  Append(request, session, reply);
  return reply;
}

absl::StatusOr<v1::GetResponse> FakeSessions::Get(const v1::GetRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  v1::GetResponse reply;
  const Session* const session = Found(request.session_id());
  if (session == nullptr) return reply;
  for (const v1::Message& message : session->messages) *reply.add_messages() = message;
  reply.set_revision(session->revision);
  return reply;
}

absl::StatusOr<v1::GetAllResponse> FakeSessions::GetAll(const v1::GetAllRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  static const Session kNone;
  const Session* const found = Found(request.session_id());
  const Session& session = found == nullptr ? kNone : *found;
  const bool archived = request.status() == v1::MESSAGE_STATUS_ARCHIVED;
  const bool newest_first = request.order() == v1::MESSAGE_ORDER_NEWEST_FIRST;
  Ends ends{archived ? 0 : session.messages.size(),
            request.include_contents() ? session.contents.size() : 0};
  v1::GetAllRequest asked = request;
  if (newest_first && !TakeEnds(*asked.mutable_page_token(), ends)) {
    return Bad("page_token", "is none of this order");
  }
  const std::size_t all = ends.messages + ends.contents;
  const absl::StatusOr<Page> page = PageOf(asked, all);
  if (!page.ok()) return page.status();
  v1::GetAllResponse reply;
  for (std::size_t i = page->begin; i < page->end; ++i) {
    if (i < ends.messages) {
      *reply.add_messages() = session.messages[newest_first ? ends.messages - 1 - i : i];
    } else {
      *reply.add_contents() = session.contents[newest_first ? all - 1 - i : i - ends.messages];
    }
  }
  if (page->end < all) {
    reply.set_next_page_token(newest_first
                                  ? absl::StrCat(ends.messages, "/", ends.contents, "/", page->end)
                                  : absl::StrCat(page->end));
  }
  return reply;
}

absl::StatusOr<v1::SetResponse> FakeSessions::Set(const v1::SetRequest& request) {
  if (absl::Status status = CheckItems(request); !status.ok()) return status;
  const Session* const found = Found(request.session_id());
  const std::int64_t revision = found == nullptr ? 0 : found->revision;
  if (absl::Status status = CheckRevision(request, revision); !status.ok()) return status;
  Session& session = Made(request.session_id());
  v1::SetResponse reply;
  reply.set_removed_count(static_cast<std::int64_t>(session.messages.size()));
  reply.set_removed_content_count(static_cast<std::int64_t>(session.contents.size()));
  session.messages.clear();
  session.contents.clear();
  session.generation = ++generations_;
  Append(request, session, reply);
  return reply;
}

absl::StatusOr<v1::ResetResponse> FakeSessions::Reset(const v1::ResetRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  v1::ResetResponse reply;
  Session* const session = Found(request.session_id());
  if (absl::Status status = CheckRevision(request, session == nullptr ? 0 : session->revision);
      !status.ok()) {
    return status;
  }
  if (session == nullptr) return reply;
  const bool contents = request.scope() == v1::RESET_SCOPE_UNSPECIFIED ||
                        request.scope() == v1::RESET_SCOPE_EVERYTHING;
  if (request.scope() != v1::RESET_SCOPE_ARCHIVED) {
    reply.set_active_count(static_cast<std::int64_t>(session->messages.size()));
    session->messages.clear();
  }
  if (contents) {
    reply.set_content_count(static_cast<std::int64_t>(session->contents.size()));
    session->contents.clear();
  }
  if (contents || request.scope() == v1::RESET_SCOPE_MESSAGES) {
    session->generation = ++generations_;
  }
  reply.set_revision(++session->revision);
  reply.set_generation(session->generation);
  return reply;
}

absl::StatusOr<v1::UpdateMessageResponse> FakeSessions::UpdateMessage(
    const v1::UpdateMessageRequest& request) {
  const absl::StatusOr<Place> place = PlaceOf(request);
  if (!place.ok()) return place.status();
  v1::Message& message = *place->message;
  if (request.has_text() || request.parts_size() > 0) {
    message.clear_text();
    *message.mutable_parts() = request.parts();
    if (request.has_text()) message.set_text(request.text());
  }
  if (request.has_metadata_json()) message.set_metadata_json(request.metadata_json());
  if (request.has_name()) message.set_name(request.name());
  v1::UpdateMessageResponse reply;
  reply.set_position(message.position());
  reply.set_revision(++place->session->revision);
  return reply;
}

absl::StatusOr<v1::DeleteMessageResponse> FakeSessions::DeleteMessage(
    const v1::DeleteMessageRequest& request) {
  const absl::StatusOr<Place> place = PlaceOf(request);
  if (!place.ok()) return place.status();
  v1::DeleteMessageResponse reply;
  reply.add_message_ids(request.message_id());
  reply.set_active_count(1);
  reply.set_revision(++place->session->revision);
  place->session->messages.erase(place->message);
  return reply;
}

absl::StatusOr<v1::GetContentResponse> FakeSessions::GetContent(
    const v1::GetContentRequest& request) {
  const absl::StatusOr<ContentPlace> place = ContentPlaceOf(request);
  if (!place.ok()) return place.status();
  v1::GetContentResponse reply;
  *reply.mutable_content() = *place->content;
  reply.set_revision(place->session->revision);
  return reply;
}

absl::StatusOr<v1::UpdateContentResponse> FakeSessions::UpdateContent(
    const v1::UpdateContentRequest& request) {
  const absl::StatusOr<ContentPlace> place = ContentPlaceOf(request);
  if (!place.ok()) return place.status();
  v1::Content& content = *place->content;
  if (request.has_mime_type()) content.set_mime_type(request.mime_type());
  if (request.has_metadata_json()) content.set_metadata_json(request.metadata_json());
  if (request.has_text()) content.set_text(request.text());
  if (request.has_bytes_value()) content.set_bytes_value(request.bytes_value());
  if (request.has_json()) content.set_json(request.json());
  if (request.has_image()) *content.mutable_image() = request.image();
  v1::UpdateContentResponse reply;
  reply.set_position(content.position());
  reply.set_revision(++place->session->revision);
  return reply;
}

absl::StatusOr<v1::DeleteContentResponse> FakeSessions::DeleteContent(
    const v1::DeleteContentRequest& request) {
  const absl::StatusOr<ContentPlace> place = ContentPlaceOf(request);
  if (!place.ok()) return place.status();
  v1::DeleteContentResponse reply;
  reply.set_position(place->content->position());
  reply.set_revision(++place->session->revision);
  place->session->contents.erase(place->content);
  return reply;
}

absl::StatusOr<v1::QueryResponse> FakeSessions::Query(const v1::QueryRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  if (request.top_k() < 0) return Bad("top_k", "is negative");
  constexpr int kUsual = 10;
  const int most = request.top_k() == 0 ? kUsual : request.top_k();
  const std::vector<std::string> words =
      absl::StrSplit(request.query(), absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
  v1::QueryResponse reply;
  const Session* const session = Found(request.session_id());
  if (session == nullptr) return reply;
  reply.set_revision(session->revision);
  if (words.empty()) return reply;
  for (auto it = session->messages.rbegin(); it != session->messages.rend(); ++it) {
    if (reply.results_size() < most && HoldsAll(TextOf(*it), words)) {
      *reply.add_results()->mutable_message() = *it;
    }
  }
  for (auto it = session->contents.rbegin(); it != session->contents.rend(); ++it) {
    if (reply.results_size() < most && HoldsAll(it->text(), words)) {
      *reply.add_results()->mutable_content() = *it;
    }
  }
  for (v1::QueryResult& result : *reply.mutable_results()) result.set_score(1);
  return reply;
}

absl::StatusOr<v1::UpdateContextResponse> FakeSessions::UpdateContext(
    const v1::UpdateContextRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  v1::UpdateContextResponse reply;
  *reply.mutable_messages() = request.messages();
  return reply;
}

absl::StatusOr<v1::CreateSessionResponse> FakeSessions::CreateSession(
    const v1::CreateSessionRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  if (Found(request.session_id()) != nullptr) {
    return Refusal(absl::StatusCode::kAlreadyExists, "the session exists", "SESSION_EXISTS");
  }
  Session& session = Made(request.session_id());
  session.config = request.config();
  session.revision = 1;
  v1::CreateSessionResponse reply;
  *reply.mutable_session() = Described(request.session_id(), session);
  return reply;
}

absl::StatusOr<v1::GetSessionResponse> FakeSessions::GetSession(
    const v1::GetSessionRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  const Session* const session = Found(request.session_id());
  if (session == nullptr) return NoSession();
  v1::GetSessionResponse reply;
  *reply.mutable_session() = Described(request.session_id(), *session);
  return reply;
}

absl::StatusOr<v1::ListSessionsResponse> FakeSessions::ListSessions(
    const v1::ListSessionsRequest& request) {
  if (request.order() == v1::SESSION_ORDER_LAST_CHANGE) {
    return absl::UnimplementedError("the fake lists sessions by their ids alone");
  }
  const auto is_listed = [&request](const std::string& session_id, const Session& session) {
    return absl::StartsWith(session_id, request.id_prefix()) &&
           (request.subject().empty() || session.config.subject() == request.subject());
  };
  std::vector<v1::Session> listed;
  for (const auto& [session_id, session] : sessions_) {
    if (is_listed(session_id, session)) listed.push_back(Described(session_id, session));
  }
  const absl::StatusOr<Page> page = PageOf(request, listed.size());
  if (!page.ok()) return page.status();
  v1::ListSessionsResponse reply;
  for (std::size_t i = page->begin; i < page->end; ++i) *reply.add_sessions() = listed[i];
  if (page->end < listed.size()) reply.set_next_page_token(absl::StrCat(page->end));
  return reply;
}

absl::StatusOr<v1::UpdateSessionResponse> FakeSessions::UpdateSession(
    const v1::UpdateSessionRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  Session* const session = Found(request.session_id());
  if (session == nullptr) return NoSession();
  if (absl::Status status = CheckRevision(request, session->revision); !status.ok()) {
    return status;
  }
  // Given blocks replace all, as the contract says; merging would append them.
  if (request.config().blocks_size() > 0) session->config.clear_blocks();
  session->config.MergeFrom(request.config());
  ++session->revision;
  v1::UpdateSessionResponse reply;
  *reply.mutable_session() = Described(request.session_id(), *session);
  return reply;
}

absl::StatusOr<v1::DeleteSessionResponse> FakeSessions::DeleteSession(
    const v1::DeleteSessionRequest& request) {
  if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
  const Session* const session = Found(request.session_id());
  if (absl::Status status = CheckRevision(request, session == nullptr ? 0 : session->revision);
      !status.ok()) {
    return status;
  }
  v1::DeleteSessionResponse reply;
  if (session == nullptr) return reply;
  reply.set_message_count(static_cast<std::int64_t>(session->messages.size()));
  reply.set_content_count(static_cast<std::int64_t>(session->contents.size()));
  sessions_.erase(request.session_id());
  return reply;
}

}  // namespace memoryd::client
