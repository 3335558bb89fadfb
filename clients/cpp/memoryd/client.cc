#include "memoryd/client.h"

#include <absl/random/random.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_format.h>
#include <absl/time/time.h>
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memoryd/attempts.h"
#include "memoryd/connection.h"
#include "memoryd/error_info.h"
#include "memoryd/options.h"

namespace memoryd::client {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// The server waits no longer.
constexpr absl::Duration kLongestWait = absl::Seconds(30);
constexpr int kPageSize = 1000;

std::string MakeRequestId() {
  absl::BitGen random;
  return absl::StrFormat("%016x%016x", absl::Uniform<std::uint64_t>(random),
                         absl::Uniform<std::uint64_t>(random));
}

template <typename Item>
void Append(google::protobuf::RepeatedPtrField<Item>& items, std::vector<Item>& all) {
  all.insert(all.end(), std::make_move_iterator(items.begin()),
             std::make_move_iterator(items.end()));
}

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// How long the server may wait for the jobs of a Put.
absl::Duration WaitOf(const v1::PutRequest& request) {
  return std::clamp(DurationOf(request.wait()), absl::ZeroDuration(), kLongestWait);
}

// The session in a reply.
template <typename Response>
absl::StatusOr<v1::Session> SessionOf(absl::StatusOr<Response> reply) {
  if (!reply.ok()) return reply.status();
  return std::move(*reply->mutable_session());
}

}  // namespace

v1::Message MakeMessage(std::string_view role, std::string_view text) {
  v1::Message message;
  message.set_role(std::string(role));
  message.set_text(std::string(text));
  return message;
}

v1::Content MakeContent(std::string_view text, std::string_view mime_type) {
  v1::Content content;
  content.set_mime_type(std::string(mime_type));
  content.set_text(std::string(text));
  return content;
}

Client::Client(const Options& options) : Client(MakeConnection(options), options) {}

Client::Client(std::shared_ptr<Connection> connection, const Options& options)
    : connection_(std::move(connection)),
      timeout_(options.timeout),
      wait_for_ready_(options.wait_for_ready) {}

// Memory.

absl::StatusOr<v1::PutResponse> Client::Put(v1::PutRequest request,
                                            const CallOptions& options) const {
  CallOptions longer = options;
  if (!longer.timeout.has_value()) longer.timeout = timeout_ + WaitOf(request);
  return Change(&Connection::Put, std::move(request), longer);
}

absl::StatusOr<v1::PutBatchResponse> Client::PutBatch(v1::PutBatchRequest request,
                                                      const CallOptions& options) const {
  // Puts of one session follow each other.
  std::map<std::string, absl::Duration> waits;
  absl::Duration wait = absl::ZeroDuration();
  for (v1::PutRequest& put : *request.mutable_puts()) {
    if (!put.has_request_id()) put.set_request_id(MakeRequestId());
    wait = std::max(wait, waits[put.session_id()] += WaitOf(put));
  }
  CallOptions longer = options;
  if (!longer.timeout.has_value()) longer.timeout = timeout_ + wait;
  return Repeat(&Connection::PutBatch, request, longer);
}

absl::StatusOr<v1::PutResponse> Client::Put(std::string_view session_id,
                                            std::vector<v1::Message> messages,
                                            const CallOptions& options) const {
  v1::PutRequest request;
  request.set_session_id(std::string(session_id));
  for (v1::Message& message : messages) *request.add_messages() = std::move(message);
  return Put(std::move(request), options);
}

absl::StatusOr<v1::GetResponse> Client::Get(const v1::GetRequest& request,
                                            const CallOptions& options) const {
  return Repeat(&Connection::Get, request, options);
}

absl::StatusOr<v1::GetResponse> Client::Get(std::string_view session_id,
                                            const CallOptions& options) const {
  v1::GetRequest request;
  request.set_session_id(std::string(session_id));
  return Get(request, options);
}

absl::StatusOr<v1::GetAllResponse> Client::GetAll(const v1::GetAllRequest& request,
                                                  const CallOptions& options) const {
  return Repeat(&Connection::GetAll, request, options);
}

absl::StatusOr<std::vector<v1::Message>> Client::AllMessages(std::string_view session_id,
                                                             const CallOptions& options) const {
  std::vector<v1::Message> all;
  v1::GetAllRequest request;
  request.set_session_id(std::string(session_id));
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1::GetAllResponse> page = GetAll(request, options);
    if (!page.ok()) return page.status();
    Append(*page->mutable_messages(), all);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<std::vector<v1::Content>> Client::AllContents(std::string_view session_id,
                                                             const CallOptions& options) const {
  std::vector<v1::Content> all;
  v1::GetAllRequest request;
  request.set_session_id(std::string(session_id));
  request.set_page_size(kPageSize);
  request.set_include_contents(true);
  do {
    absl::StatusOr<v1::GetAllResponse> page = GetAll(request, options);
    if (!page.ok()) return page.status();
    Append(*page->mutable_contents(), all);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::Status Client::StreamAll(v1::StreamAllRequest request, const PageReader& read,
                               const CallOptions& options) const {
  Attempt attempt{.deadline = Deadline(options)};
  absl::BitGen random;
  absl::Duration pause = kFirstPause;
  while (true) {
    bool came = false;
    bool ended = false;
    absl::Status status = connection_->StreamAll(request, attempt, [&](v1::StreamAllResponse page) {
      came = true;
      request.set_page_token(page.next_page_token());
      ended = !read(std::move(page)) || request.page_token().empty();
      return !ended;
    });
    if (ended || status.ok()) return absl::OkStatus();
    if (came) {
      attempt.deadline = Deadline(options);
      pause = kFirstPause;
    }
    // The deadline of a stream that was being read is no page's.
    const bool goes_on = (wait_for_ready_ && EndsWithoutAnswer(status)) ||
                         (came && absl::IsDeadlineExceeded(status));
    const absl::Duration wait = pause * absl::Uniform(random, 0.5, 1.5);
    if (!goes_on || connection_->Now() + wait >= attempt.deadline) return status;
    connection_->Wait(wait);
    pause = std::min(2 * pause, kLongestPause);
    attempt.wait_for_ready = true;
  }
}

absl::StatusOr<v1::SetResponse> Client::Set(v1::SetRequest request,
                                            const CallOptions& options) const {
  return Change(&Connection::Set, std::move(request), options);
}

absl::StatusOr<v1::ResetResponse> Client::Reset(v1::ResetRequest request,
                                                const CallOptions& options) const {
  return Change(&Connection::Reset, std::move(request), options);
}

absl::StatusOr<v1::UpdateMessageResponse> Client::UpdateMessage(v1::UpdateMessageRequest request,
                                                                const CallOptions& options) const {
  return Change(&Connection::UpdateMessage, std::move(request), options);
}

absl::StatusOr<v1::DeleteMessageResponse> Client::DeleteMessage(v1::DeleteMessageRequest request,
                                                                const CallOptions& options) const {
  return Change(&Connection::DeleteMessage, std::move(request), options);
}

absl::StatusOr<v1::GetContentResponse> Client::GetContent(const v1::GetContentRequest& request,
                                                          const CallOptions& options) const {
  return Repeat(&Connection::GetContent, request, options);
}

absl::StatusOr<v1::UpdateContentResponse> Client::UpdateContent(v1::UpdateContentRequest request,
                                                                const CallOptions& options) const {
  return Change(&Connection::UpdateContent, std::move(request), options);
}

absl::StatusOr<v1::DeleteContentResponse> Client::DeleteContent(v1::DeleteContentRequest request,
                                                                const CallOptions& options) const {
  return Change(&Connection::DeleteContent, std::move(request), options);
}

absl::StatusOr<v1::QueryResponse> Client::Query(const v1::QueryRequest& request,
                                                const CallOptions& options) const {
  return Repeat(&Connection::Query, request, options);
}

absl::StatusOr<v1::UpdateContextResponse> Client::UpdateContext(
    const v1::UpdateContextRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::UpdateContext, request, options);
}

// Sessions.

absl::StatusOr<v1::Session> Client::CreateSession(v1::CreateSessionRequest request,
                                                  const CallOptions& options) const {
  return SessionOf(Change(&Connection::CreateSession, std::move(request), options));
}

absl::StatusOr<v1::Session> Client::GetSession(std::string_view session_id,
                                               const CallOptions& options) const {
  v1::GetSessionRequest request;
  request.set_session_id(std::string(session_id));
  return SessionOf(Repeat(&Connection::GetSession, request, options));
}

absl::StatusOr<v1::ListSessionsResponse> Client::ListSessions(
    const v1::ListSessionsRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::ListSessions, request, options);
}

absl::StatusOr<std::vector<v1::Session>> Client::AllSessions(const CallOptions& options) const {
  std::vector<v1::Session> all;
  v1::ListSessionsRequest request;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1::ListSessionsResponse> page = ListSessions(request, options);
    if (!page.ok()) return page.status();
    Append(*page->mutable_sessions(), all);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::Status Client::WatchSession(v1::WatchSessionRequest request, const WatchReader& read,
                                  const CallOptions& options) const {
  const Attempt attempt = {.deadline = options.timeout.has_value()
                                           ? connection_->Now() + *options.timeout
                                           : absl::InfiniteFuture()};
  absl::BitGen random;
  absl::Duration pause = kFirstPause;
  absl::Time give_up = connection_->Now() + timeout_;
  while (true) {
    bool ended = false;
    absl::Status status =
        connection_->WatchSession(request, attempt, [&](v1::WatchSessionResponse news) {
          pause = kFirstPause;
          give_up = connection_->Now() + timeout_;
          request.set_after_revision(news.revision());
          ended = !read(std::move(news));
          return !ended;
        });
    if (ended || status.ok()) return absl::OkStatus();
    const absl::Duration wait = pause * absl::Uniform(random, 0.5, 1.5);
    if (!wait_for_ready_ || !EndsWithoutAnswer(status) ||
        connection_->Now() + wait >= std::min(give_up, attempt.deadline)) {
      return status;
    }
    connection_->Wait(wait);
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::StatusOr<v1::Session> Client::UpdateSession(v1::UpdateSessionRequest request,
                                                  const CallOptions& options) const {
  return SessionOf(Change(&Connection::UpdateSession, std::move(request), options));
}

absl::StatusOr<v1::DeleteSessionResponse> Client::DeleteSession(v1::DeleteSessionRequest request,
                                                                const CallOptions& options) const {
  return Change(&Connection::DeleteSession, std::move(request), options);
}

absl::StatusOr<v1::ForkSessionResponse> Client::ForkSession(v1::ForkSessionRequest request,
                                                            const CallOptions& options) const {
  return Change(&Connection::ForkSession, std::move(request), options);
}

absl::StatusOr<v1::Session> Client::ImportSession(const ImportSource& next,
                                                  const CallOptions& options) const {
  return SessionOf(connection_->ImportSession(next, UploadAttempt(options)));
}

Attempt Client::UploadAttempt(const CallOptions& options) const {
  return {.deadline = options.timeout.has_value() ? connection_->Now() + *options.timeout
                                                  : absl::InfiniteFuture(),
          .wait_for_ready = wait_for_ready_};
}

absl::StatusOr<v1::EraseSubjectResponse> Client::EraseSubject(
    const v1::EraseSubjectRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::EraseSubject, request, options);
}

// What blocks know.

absl::StatusOr<v1::GetBlockResponse> Client::GetBlock(const v1::GetBlockRequest& request,
                                                      const CallOptions& options) const {
  return Repeat(&Connection::GetBlock, request, options);
}

absl::StatusOr<v1::ListBlockEntriesResponse> Client::ListBlockEntries(
    const v1::ListBlockEntriesRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::ListBlockEntries, request, options);
}

absl::StatusOr<v1::UndoBlockChangeResponse> Client::UndoBlockChange(
    v1::UndoBlockChangeRequest request, const CallOptions& options) const {
  return Change(&Connection::UndoBlockChange, std::move(request), options);
}

absl::StatusOr<v1::AddFactResponse> Client::AddFact(v1::AddFactRequest request,
                                                    const CallOptions& options) const {
  return Change(&Connection::AddFact, std::move(request), options);
}

absl::StatusOr<v1::UpdateFactResponse> Client::UpdateFact(v1::UpdateFactRequest request,
                                                          const CallOptions& options) const {
  return Change(&Connection::UpdateFact, std::move(request), options);
}

absl::StatusOr<v1::DeleteFactResponse> Client::DeleteFact(v1::DeleteFactRequest request,
                                                          const CallOptions& options) const {
  return Change(&Connection::DeleteFact, std::move(request), options);
}

// Jobs and the server.

absl::StatusOr<v1::PutItemResponse> Client::PutItem(v1::PutItemRequest request,
                                                    const CallOptions& options) const {
  return Change(&Connection::PutItem, std::move(request), options);
}

absl::StatusOr<v1::GetItemResponse> Client::GetItem(const v1::GetItemRequest& request,
                                                    const CallOptions& options) const {
  return Repeat(&Connection::GetItem, request, options);
}

absl::StatusOr<v1::DeleteItemResponse> Client::DeleteItem(v1::DeleteItemRequest request,
                                                          const CallOptions& options) const {
  return Change(&Connection::DeleteItem, std::move(request), options);
}

absl::StatusOr<v1::ListItemsResponse> Client::ListItems(const v1::ListItemsRequest& request,
                                                        const CallOptions& options) const {
  return Repeat(&Connection::ListItems, request, options);
}

absl::StatusOr<v1::SearchItemsResponse> Client::SearchItems(const v1::SearchItemsRequest& request,
                                                            const CallOptions& options) const {
  return Repeat(&Connection::SearchItems, request, options);
}

absl::StatusOr<v1::BatchItemsResponse> Client::BatchItems(v1::BatchItemsRequest request,
                                                          const CallOptions& options) const {
  for (v1::ItemBatch& batch : *request.mutable_batches()) {
    const bool writes = std::any_of(batch.operations().begin(), batch.operations().end(),
                                    [](const v1::ItemOperation& one) { return !one.has_get(); });
    if (writes && !batch.has_request_id()) batch.set_request_id(MakeRequestId());
  }
  return Repeat(&Connection::BatchItems, request, options);
}

absl::StatusOr<v1::GetNamespaceResponse> Client::GetNamespace(
    const v1::GetNamespaceRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::GetNamespace, request, options);
}

absl::StatusOr<v1::UpdateNamespaceResponse> Client::UpdateNamespace(
    const v1::UpdateNamespaceRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::UpdateNamespace, request, options);
}

absl::StatusOr<v1::ListNamespacesResponse> Client::ListNamespaces(
    const v1::ListNamespacesRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::ListNamespaces, request, options);
}

absl::StatusOr<v1::CopyNamespaceResponse> Client::CopyNamespace(
    const v1::CopyNamespaceRequest& request, const CallOptions& options) const {
  return Once(&Connection::CopyNamespace, request, options);
}

absl::StatusOr<v1::DeleteNamespaceResponse> Client::DeleteNamespace(
    const v1::DeleteNamespaceRequest& request, const CallOptions& options) const {
  return Repeat(&Connection::DeleteNamespace, request, options);
}

absl::StatusOr<v1::Namespace> Client::ImportNamespace(const NamespaceImportSource& next,
                                                      const CallOptions& options) const {
  auto response = connection_->ImportNamespace(next, UploadAttempt(options));
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_namespace_());
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(const v1::ListJobsRequest& request,
                                                      const CallOptions& options) const {
  return Repeat(&Connection::ListJobs, request, options);
}

absl::StatusOr<v1::GetJobResponse> Client::GetJob(const v1::GetJobRequest& request,
                                                  const CallOptions& options) const {
  return Repeat(&Connection::GetJob, request, options);
}

absl::StatusOr<v1::RetryJobResponse> Client::RetryJob(const v1::RetryJobRequest& request,
                                                      const CallOptions& options) const {
  return Once(&Connection::RetryJob, request, options);
}

absl::StatusOr<v1::CancelJobResponse> Client::CancelJob(const v1::CancelJobRequest& request,
                                                        const CallOptions& options) const {
  return Once(&Connection::CancelJob, request, options);
}

absl::StatusOr<v1::GetUsageResponse> Client::GetUsage(const CallOptions& options) const {
  return Repeat(&Connection::GetUsage, v1::GetUsageRequest(), options);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& options) const {
  return Repeat(&Connection::GetServerInfo, v1::GetServerInfoRequest(), options);
}

// Calls.

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Repeat(Method<Request, Response> method, const Request& request,
                                        const CallOptions& options) const {
  return Send(method, request, {.deadline = Deadline(options)}, /*is_repeatable=*/true);
}

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Send(Method<Request, Response> method, const Request& request,
                                      Attempt attempt, bool is_repeatable) const {
  absl::Status unknown;
  absl::BitGen random;
  absl::Duration pause = kFirstPause;
  while (true) {
    absl::StatusOr<Response> reply = (connection_.get()->*method)(request, attempt);
    if (reply.ok()) return reply;
    const absl::Status& status = reply.status();
    // Half to one and a half of the pause, so that many clients don't return as one.
    absl::Duration wait = pause * absl::Uniform(random, 0.5, 1.5);
    bool is_repeated = is_repeatable && EndsWithoutAnswer(status);
    if (const auto told = ToldToWait(status)) {
      wait = *told * absl::Uniform(random, 1.0, 1.25);
      is_repeated = true;
    } else {
      pause = std::min(2 * pause, kLongestPause);
    }
    if (!wait_for_ready_ || !is_repeated || connection_->Now() + wait >= attempt.deadline) {
      if (unknown.ok() || !SaysNothingOfEarlierAttempts(status)) return reply;
      // What this attempt came to says nothing of an earlier one, and that there is no time left
      // less than what took it.
      return unknown;
    }
    connection_->Wait(wait);
    if (MayHaveBeenDone(status)) unknown = status;
    // The first attempt finds out what is wrong. From then on gRPC waits for the connection:
    // nothing brings it about but a call that waits.
    attempt.wait_for_ready = true;
  }
}

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Change(Method<Request, Response> method, Request request,
                                        const CallOptions& options) const {
  if (!request.has_request_id()) request.set_request_id(MakeRequestId());
  return Repeat(method, request, options);
}

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Once(Method<Request, Response> method, const Request& request,
                                      const CallOptions& options) const {
  return Send(method, request, {.deadline = Deadline(options), .wait_for_ready = wait_for_ready_},
              /*is_repeatable=*/false);
}

absl::Time Client::Deadline(const CallOptions& options) const {
  return connection_->Now() + options.timeout.value_or(timeout_);
}

}  // namespace memoryd::client
