#include "memoryd/fake_connection.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
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

void FakeConnection::FailNext(absl::Status status, FailAt at) {
  const std::lock_guard lock(mutex_);
  failures_.push_back({.status = std::move(status), .at = at});
}

int FakeConnection::attempts() const {
  const std::lock_guard lock(mutex_);
  return attempts_;
}

absl::Duration FakeConnection::waited() const {
  const std::lock_guard lock(mutex_);
  return waited_;
}

absl::Time FakeConnection::Now() {
  const std::lock_guard lock(mutex_);
  return now_;
}

void FakeConnection::Wait(absl::Duration pause) {
  const std::lock_guard lock(mutex_);
  now_ += pause;
  waited_ += pause;
}

template <typename Response>
absl::StatusOr<Response> FakeConnection::Run(
    const std::function<absl::StatusOr<Response>()>& call) {
  const std::lock_guard lock(mutex_);
  ++attempts_;
  if (failures_.empty()) return call();
  const Failure failure = std::move(failures_.front());
  failures_.pop_front();
  if (failure.at == FailAt::kReply) call().IgnoreError();
  return failure.status;
}

template <typename Response, typename Request>
absl::StatusOr<Response> FakeConnection::RunOnce(
    const char* method, const Request& request,
    const std::function<absl::StatusOr<Response>()>& call) {
  return Run<Response>([&]() -> absl::StatusOr<Response> {
    if (!request.has_request_id()) return call();
    const std::string asked = absl::StrCat(method, " ", request.SerializeAsString());
    const auto known = answered_.find(request.request_id());
    if (known != answered_.end()) {
      if (known->second.request != asked) {
        return Refusal(absl::StatusCode::kAlreadyExists, "request_id: was used for another request",
                       "REQUEST_ID_REUSED", "request_id");
      }
      Response reply;
      reply.ParseFromString(known->second.reply);
      reply.set_replayed(true);
      return reply;
    }
    absl::StatusOr<Response> reply = call();
    if (reply.ok()) {
      answered_[request.request_id()] = {.request = asked, .reply = reply->SerializeAsString()};
    }
    return reply;
  });
}

FakeConnection::Session* FakeConnection::Found(const std::string& session_id) {
  const auto found = sessions_.find(session_id);
  return found == sessions_.end() ? nullptr : &found->second;
}

FakeConnection::Session& FakeConnection::Made(const std::string& session_id) {
  const auto [made, is_new] = sessions_.try_emplace(session_id);
  if (is_new) made->second.generation = ++generations_;
  return made->second;
}

v1::Session FakeConnection::Described(const std::string& session_id, const Session& session) const {
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
absl::StatusOr<FakeConnection::Place> FakeConnection::PlaceOf(const Request& request) {
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
absl::StatusOr<FakeConnection::ContentPlace> FakeConnection::ContentPlaceOf(
    const Request& request) {
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
void FakeConnection::Append(const Request& request, Session& session, Response& reply) {
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

absl::StatusOr<v1::PutResponse> FakeConnection::Put(const v1::PutRequest& request, const Attempt&) {
  // A retry may wait differently.
  v1::PutRequest same = request;
  same.clear_wait();
  return RunOnce<v1::PutResponse>("Put", same, [&]() -> absl::StatusOr<v1::PutResponse> {
    if (absl::Status status = CheckItems(request); !status.ok()) return status;
    const Session* const found = Found(request.session_id());
    const std::int64_t revision = found == nullptr ? 0 : found->revision;
    if (absl::Status status = CheckRevision(request, revision); !status.ok()) return status;
    Session& session = Made(request.session_id());
    if (found == nullptr) session.config = request.config();
    v1::PutResponse reply;
    Append(request, session, reply);
    return reply;
  });
}

absl::StatusOr<v1::GetResponse> FakeConnection::Get(const v1::GetRequest& request, const Attempt&) {
  return Run<v1::GetResponse>([&]() -> absl::StatusOr<v1::GetResponse> {
    if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
    v1::GetResponse reply;
    const Session* const session = Found(request.session_id());
    if (session == nullptr) return reply;
    for (const v1::Message& message : session->messages) *reply.add_messages() = message;
    reply.set_revision(session->revision);
    return reply;
  });
}

absl::StatusOr<v1::GetAllResponse> FakeConnection::GetAll(const v1::GetAllRequest& request,
                                                          const Attempt&) {
  return Run<v1::GetAllResponse>([&]() -> absl::StatusOr<v1::GetAllResponse> {
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
      reply.set_next_page_token(
          newest_first ? absl::StrCat(ends.messages, "/", ends.contents, "/", page->end)
                       : absl::StrCat(page->end));
    }
    return reply;
  });
}

absl::Status FakeConnection::StreamAll(const v1::StreamAllRequest& request, const Attempt& attempt,
                                       const PageReader& read) {
  v1::GetAllRequest next;
  next.set_session_id(request.session_id());
  next.set_include_contents(request.include_contents());
  next.set_page_token(request.page_token());
  next.set_page_size(request.page_size());
  next.set_order(request.order());
  do {
    absl::StatusOr<v1::GetAllResponse> page = GetAll(next, attempt);
    if (!page.ok()) return page.status();
    next.set_page_token(page->next_page_token());
    v1::StreamAllResponse reply;
    reply.mutable_messages()->Swap(page->mutable_messages());
    reply.mutable_contents()->Swap(page->mutable_contents());
    reply.set_next_page_token(page->next_page_token());
    if (!read(std::move(reply))) return absl::CancelledError("the reader has ended the stream");
  } while (!next.page_token().empty());
  return absl::OkStatus();
}

absl::StatusOr<v1::SetResponse> FakeConnection::Set(const v1::SetRequest& request, const Attempt&) {
  return RunOnce<v1::SetResponse>("Set", request, [&]() -> absl::StatusOr<v1::SetResponse> {
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
  });
}

absl::StatusOr<v1::ResetResponse> FakeConnection::Reset(const v1::ResetRequest& request,
                                                        const Attempt&) {
  return RunOnce<v1::ResetResponse>("Reset", request, [&]() -> absl::StatusOr<v1::ResetResponse> {
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
  });
}

absl::StatusOr<v1::UpdateMessageResponse> FakeConnection::UpdateMessage(
    const v1::UpdateMessageRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::UpdateMessageResponse>;
  return RunOnce<v1::UpdateMessageResponse>("UpdateMessage", request, [&]() -> Reply {
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
  });
}

absl::StatusOr<v1::DeleteMessageResponse> FakeConnection::DeleteMessage(
    const v1::DeleteMessageRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::DeleteMessageResponse>;
  return RunOnce<v1::DeleteMessageResponse>("DeleteMessage", request, [&]() -> Reply {
    const absl::StatusOr<Place> place = PlaceOf(request);
    if (!place.ok()) return place.status();
    v1::DeleteMessageResponse reply;
    reply.add_message_ids(request.message_id());
    reply.set_active_count(1);
    reply.set_revision(++place->session->revision);
    place->session->messages.erase(place->message);
    return reply;
  });
}

absl::StatusOr<v1::GetContentResponse> FakeConnection::GetContent(
    const v1::GetContentRequest& request, const Attempt&) {
  return Run<v1::GetContentResponse>([&]() -> absl::StatusOr<v1::GetContentResponse> {
    const absl::StatusOr<ContentPlace> place = ContentPlaceOf(request);
    if (!place.ok()) return place.status();
    v1::GetContentResponse reply;
    *reply.mutable_content() = *place->content;
    reply.set_revision(place->session->revision);
    return reply;
  });
}

absl::StatusOr<v1::UpdateContentResponse> FakeConnection::UpdateContent(
    const v1::UpdateContentRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::UpdateContentResponse>;
  return RunOnce<v1::UpdateContentResponse>("UpdateContent", request, [&]() -> Reply {
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
  });
}

absl::StatusOr<v1::DeleteContentResponse> FakeConnection::DeleteContent(
    const v1::DeleteContentRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::DeleteContentResponse>;
  return RunOnce<v1::DeleteContentResponse>("DeleteContent", request, [&]() -> Reply {
    const absl::StatusOr<ContentPlace> place = ContentPlaceOf(request);
    if (!place.ok()) return place.status();
    v1::DeleteContentResponse reply;
    reply.set_position(place->content->position());
    reply.set_revision(++place->session->revision);
    place->session->contents.erase(place->content);
    return reply;
  });
}

absl::StatusOr<v1::QueryResponse> FakeConnection::Query(const v1::QueryRequest& request,
                                                        const Attempt&) {
  return Run<v1::QueryResponse>([&]() -> absl::StatusOr<v1::QueryResponse> {
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
  });
}

absl::StatusOr<v1::UpdateContextResponse> FakeConnection::UpdateContext(
    const v1::UpdateContextRequest& request, const Attempt&) {
  return Run<v1::UpdateContextResponse>([&]() -> absl::StatusOr<v1::UpdateContextResponse> {
    if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
    v1::UpdateContextResponse reply;
    *reply.mutable_messages() = request.messages();
    return reply;
  });
}

absl::StatusOr<v1::CreateSessionResponse> FakeConnection::CreateSession(
    const v1::CreateSessionRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::CreateSessionResponse>;
  return RunOnce<v1::CreateSessionResponse>("CreateSession", request, [&]() -> Reply {
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
  });
}

absl::StatusOr<v1::GetSessionResponse> FakeConnection::GetSession(
    const v1::GetSessionRequest& request, const Attempt&) {
  return Run<v1::GetSessionResponse>([&]() -> absl::StatusOr<v1::GetSessionResponse> {
    if (absl::Status status = CheckSessionId(request); !status.ok()) return status;
    const Session* const session = Found(request.session_id());
    if (session == nullptr) return NoSession();
    v1::GetSessionResponse reply;
    *reply.mutable_session() = Described(request.session_id(), *session);
    return reply;
  });
}

absl::StatusOr<v1::ListSessionsResponse> FakeConnection::ListSessions(
    const v1::ListSessionsRequest& request, const Attempt&) {
  return Run<v1::ListSessionsResponse>([&]() -> absl::StatusOr<v1::ListSessionsResponse> {
    const absl::StatusOr<Page> page = PageOf(request, sessions_.size());
    if (!page.ok()) return page.status();
    v1::ListSessionsResponse reply;
    auto it = std::next(sessions_.begin(), static_cast<std::ptrdiff_t>(page->begin));
    for (std::size_t i = page->begin; i < page->end; ++i, ++it) {
      *reply.add_sessions() = Described(it->first, it->second);
    }
    if (page->end < sessions_.size()) reply.set_next_page_token(absl::StrCat(page->end));
    return reply;
  });
}

absl::StatusOr<v1::UpdateSessionResponse> FakeConnection::UpdateSession(
    const v1::UpdateSessionRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::UpdateSessionResponse>;
  return RunOnce<v1::UpdateSessionResponse>("UpdateSession", request, [&]() -> Reply {
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
  });
}

absl::StatusOr<v1::DeleteSessionResponse> FakeConnection::DeleteSession(
    const v1::DeleteSessionRequest& request, const Attempt&) {
  using Reply = absl::StatusOr<v1::DeleteSessionResponse>;
  return RunOnce<v1::DeleteSessionResponse>("DeleteSession", request, [&]() -> Reply {
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
  });
}

absl::StatusOr<v1::PutItemResponse> FakeConnection::PutItem(const v1::PutItemRequest& request,
                                                            const Attempt&) {
  return Run<v1::PutItemResponse>([&] { return items_.Put(request, now_); });
}

absl::StatusOr<v1::GetItemResponse> FakeConnection::GetItem(const v1::GetItemRequest& request,
                                                            const Attempt&) {
  return Run<v1::GetItemResponse>([&] { return items_.Get(request, now_); });
}

absl::StatusOr<v1::DeleteItemResponse> FakeConnection::DeleteItem(
    const v1::DeleteItemRequest& request, const Attempt&) {
  return Run<v1::DeleteItemResponse>([&] { return items_.Delete(request, now_); });
}

absl::StatusOr<v1::ListItemsResponse> FakeConnection::ListItems(const v1::ListItemsRequest& request,
                                                                const Attempt&) {
  return Run<v1::ListItemsResponse>([&] { return items_.List(request, now_); });
}

absl::StatusOr<v1::SearchItemsResponse> FakeConnection::SearchItems(
    const v1::SearchItemsRequest& request, const Attempt&) {
  return Run<v1::SearchItemsResponse>([&] { return items_.Search(request, now_); });
}

absl::StatusOr<v1::BatchItemsResponse> FakeConnection::BatchItems(
    const v1::BatchItemsRequest& request, const Attempt&) {
  return Run<v1::BatchItemsResponse>([&] { return items_.Batch(request, now_); });
}

absl::StatusOr<v1::GetNamespaceResponse> FakeConnection::GetNamespace(
    const v1::GetNamespaceRequest& request, const Attempt&) {
  return Run<v1::GetNamespaceResponse>([&] { return items_.GetNamespace(request); });
}

absl::StatusOr<v1::UpdateNamespaceResponse> FakeConnection::UpdateNamespace(
    const v1::UpdateNamespaceRequest& request, const Attempt&) {
  return Run<v1::UpdateNamespaceResponse>([&] { return items_.UpdateNamespace(request, now_); });
}

absl::StatusOr<v1::ListNamespacesResponse> FakeConnection::ListNamespaces(
    const v1::ListNamespacesRequest& request, const Attempt&) {
  return Run<v1::ListNamespacesResponse>([&] { return items_.ListNamespaces(request); });
}

absl::StatusOr<v1::CopyNamespaceResponse> FakeConnection::CopyNamespace(
    const v1::CopyNamespaceRequest& request, const Attempt&) {
  return Run<v1::CopyNamespaceResponse>([&] { return items_.CopyNamespace(request, now_); });
}

absl::StatusOr<v1::DeleteNamespaceResponse> FakeConnection::DeleteNamespace(
    const v1::DeleteNamespaceRequest& request, const Attempt&) {
  return Run<v1::DeleteNamespaceResponse>([&] { return items_.DeleteNamespace(request); });
}

}  // namespace memoryd::client
