#include "memoryd/fake_connection.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/time/time.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "memoryd/connection.h"
#include "memoryd/error_info.h"

namespace memoryd::client {
namespace {

// The error of a Put in a batch, with its field named within the batch.
v1::PutError ErrorOf(const absl::Status& status, int index) {
  const ErrorInfo info = GetErrorInfo(status);
  v1::PutError error;
  error.set_code(static_cast<int>(status.code()));
  error.set_reason(info.reason);
  error.set_message(std::string(status.message()));
  error.mutable_metadata()->insert(info.details.begin(), info.details.end());
  if (info.field.empty()) return error;
  const std::string field = absl::StrCat("puts[", index, "].", info.field);
  (*error.mutable_metadata())["field"] = field;
  if (absl::StartsWith(status.message(), info.field)) {
    error.set_message(absl::StrCat(field, status.message().substr(info.field.size())));
  }
  return error;
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
  return Run<Response>([&] { return Once<Response>(method, request, call); });
}

template <typename Response, typename Request>
absl::StatusOr<Response> FakeConnection::Once(
    const char* method, const Request& request,
    const std::function<absl::StatusOr<Response>()>& call) {
  if (!request.has_request_id()) return call();
  const std::string asked = absl::StrCat(method, " ", request.SerializeAsString());
  const auto known = answered_.find(request.request_id());
  if (known != answered_.end()) {
    if (known->second.request != asked) {
      return WithErrorInfo(absl::AlreadyExistsError("request_id: was used for another request"),
                           {.reason = "REQUEST_ID_REUSED", .field = "request_id"});
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
}

absl::StatusOr<v1::PutResponse> FakeConnection::PutOnce(const v1::PutRequest& request) {
  // A retry may wait differently.
  v1::PutRequest same = request;
  same.clear_wait();
  return Once<v1::PutResponse>("Put", same, [&] { return sessions_.Put(request); });
}

absl::StatusOr<v1::PutResponse> FakeConnection::Put(const v1::PutRequest& request, const Attempt&) {
  return Run<v1::PutResponse>([&] { return PutOnce(request); });
}

absl::StatusOr<v1::PutBatchResponse> FakeConnection::PutBatch(const v1::PutBatchRequest& request,
                                                              const Attempt&) {
  return Run<v1::PutBatchResponse>([&]() -> absl::StatusOr<v1::PutBatchResponse> {
    v1::PutBatchResponse reply;
    for (const v1::PutRequest& put : request.puts()) {
      v1::PutOutcome& outcome = *reply.add_outcomes();
      absl::StatusOr<v1::PutResponse> done = PutOnce(put);
      if (done.ok()) {
        *outcome.mutable_reply() = *std::move(done);
      } else {
        *outcome.mutable_error() = ErrorOf(done.status(), reply.outcomes_size() - 1);
      }
    }
    return reply;
  });
}

absl::StatusOr<v1::GetResponse> FakeConnection::Get(const v1::GetRequest& request, const Attempt&) {
  return Run<v1::GetResponse>([&] { return sessions_.Get(request); });
}

absl::StatusOr<v1::GetAllResponse> FakeConnection::GetAll(const v1::GetAllRequest& request,
                                                          const Attempt&) {
  return Run<v1::GetAllResponse>([&] { return sessions_.GetAll(request); });
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
  return RunOnce<v1::SetResponse>("Set", request, [&] { return sessions_.Set(request); });
}

absl::StatusOr<v1::ResetResponse> FakeConnection::Reset(const v1::ResetRequest& request,
                                                        const Attempt&) {
  return RunOnce<v1::ResetResponse>("Reset", request, [&] { return sessions_.Reset(request); });
}

absl::StatusOr<v1::UpdateMessageResponse> FakeConnection::UpdateMessage(
    const v1::UpdateMessageRequest& request, const Attempt&) {
  return RunOnce<v1::UpdateMessageResponse>("UpdateMessage", request,
                                            [&] { return sessions_.UpdateMessage(request); });
}

absl::StatusOr<v1::DeleteMessageResponse> FakeConnection::DeleteMessage(
    const v1::DeleteMessageRequest& request, const Attempt&) {
  return RunOnce<v1::DeleteMessageResponse>("DeleteMessage", request,
                                            [&] { return sessions_.DeleteMessage(request); });
}

absl::StatusOr<v1::GetContentResponse> FakeConnection::GetContent(
    const v1::GetContentRequest& request, const Attempt&) {
  return Run<v1::GetContentResponse>([&] { return sessions_.GetContent(request); });
}

absl::StatusOr<v1::UpdateContentResponse> FakeConnection::UpdateContent(
    const v1::UpdateContentRequest& request, const Attempt&) {
  return RunOnce<v1::UpdateContentResponse>("UpdateContent", request,
                                            [&] { return sessions_.UpdateContent(request); });
}

absl::StatusOr<v1::DeleteContentResponse> FakeConnection::DeleteContent(
    const v1::DeleteContentRequest& request, const Attempt&) {
  return RunOnce<v1::DeleteContentResponse>("DeleteContent", request,
                                            [&] { return sessions_.DeleteContent(request); });
}

absl::StatusOr<v1::QueryResponse> FakeConnection::Query(const v1::QueryRequest& request,
                                                        const Attempt&) {
  return Run<v1::QueryResponse>([&] { return sessions_.Query(request); });
}

absl::StatusOr<v1::UpdateContextResponse> FakeConnection::UpdateContext(
    const v1::UpdateContextRequest& request, const Attempt&) {
  return Run<v1::UpdateContextResponse>([&] { return sessions_.UpdateContext(request); });
}

absl::StatusOr<v1::CreateSessionResponse> FakeConnection::CreateSession(
    const v1::CreateSessionRequest& request, const Attempt&) {
  return RunOnce<v1::CreateSessionResponse>("CreateSession", request,
                                            [&] { return sessions_.CreateSession(request); });
}

absl::StatusOr<v1::GetSessionResponse> FakeConnection::GetSession(
    const v1::GetSessionRequest& request, const Attempt&) {
  return Run<v1::GetSessionResponse>([&] { return sessions_.GetSession(request); });
}

absl::StatusOr<v1::ListSessionsResponse> FakeConnection::ListSessions(
    const v1::ListSessionsRequest& request, const Attempt&) {
  return Run<v1::ListSessionsResponse>([&] { return sessions_.ListSessions(request); });
}

absl::StatusOr<v1::UpdateSessionResponse> FakeConnection::UpdateSession(
    const v1::UpdateSessionRequest& request, const Attempt&) {
  return RunOnce<v1::UpdateSessionResponse>("UpdateSession", request,
                                            [&] { return sessions_.UpdateSession(request); });
}

absl::StatusOr<v1::DeleteSessionResponse> FakeConnection::DeleteSession(
    const v1::DeleteSessionRequest& request, const Attempt&) {
  return RunOnce<v1::DeleteSessionResponse>("DeleteSession", request,
                                            [&] { return sessions_.DeleteSession(request); });
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
