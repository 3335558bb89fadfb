#include "memoryd/grpc_connection.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>
#include <absl/time/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "memoryd/connection.h"
#include "memoryd/error_info.h"
#include "memoryd/options.h"
#include "memoryd/v1/block_service.grpc.pb.h"
#include "memoryd/v1/item_service.grpc.pb.h"
#include "memoryd/v1/job_service.grpc.pb.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "memoryd/v1/server_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::client {
namespace {

// A reply may be as large as the server makes one.
constexpr int kLargestReply = 80 * 1024 * 1024;

std::shared_ptr<grpc::Channel> MakeChannel(const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestReply);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // Client repeats calls, where a request id makes that safe.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy would see tokens in plain text, and has no way to this machine's own addresses.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, options.use_proxy ? 1 : 0);
  // A connection that the network forgot is found after 8 s, within the default timeout. Pings are
  // sent only while a call is under way.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 4000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 4000);
  arguments.SetInt("grpc.http2.ping_timeout_ms", 4000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(
      options.target,
      options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

class GrpcConnection final : public Connection {
 public:
  GrpcConnection(const Options& options, const std::shared_ptr<grpc::Channel>& channel)
      : token_(options.token),
        trace_(options.trace),
        memory_(v1::MemoryService::NewStub(channel)),
        sessions_(v1::SessionService::NewStub(channel)),
        jobs_(v1::JobService::NewStub(channel)),
        blocks_(v1::BlockService::NewStub(channel)),
        items_(v1::ItemService::NewStub(channel)),
        server_(v1::ServerService::NewStub(channel)) {}

  absl::StatusOr<v1::PutResponse> Put(const v1::PutRequest& request,
                                      const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::Put, request, attempt);
  }
  absl::StatusOr<v1::PutBatchResponse> PutBatch(const v1::PutBatchRequest& request,
                                                const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::PutBatch, request, attempt);
  }
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request,
                                      const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::Get, request, attempt);
  }
  absl::StatusOr<v1::GetAllResponse> GetAll(const v1::GetAllRequest& request,
                                            const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::GetAll, request, attempt);
  }
  absl::Status StreamAll(const v1::StreamAllRequest& request, const Attempt& attempt,
                         const PageReader& read) override {
    grpc::ClientContext context;
    Prepare(attempt, context);
    return ReadAll<v1::StreamAllResponse>(*memory_->StreamAll(&context, request), context, read);
  }
  absl::Status WatchSession(const v1::WatchSessionRequest& request, const Attempt& attempt,
                            const WatchReader& read) override {
    grpc::ClientContext context;
    Prepare(attempt, context);
    return ReadAll<v1::WatchSessionResponse>(*sessions_->WatchSession(&context, request), context,
                                             read);
  }
  absl::StatusOr<v1::SetResponse> Set(const v1::SetRequest& request,
                                      const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::Set, request, attempt);
  }
  absl::StatusOr<v1::ResetResponse> Reset(const v1::ResetRequest& request,
                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::Reset, request, attempt);
  }
  absl::StatusOr<v1::UpdateMessageResponse> UpdateMessage(const v1::UpdateMessageRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::UpdateMessage, request, attempt);
  }
  absl::StatusOr<v1::DeleteMessageResponse> DeleteMessage(const v1::DeleteMessageRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::DeleteMessage, request, attempt);
  }
  absl::StatusOr<v1::GetContentResponse> GetContent(const v1::GetContentRequest& request,
                                                    const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::GetContent, request, attempt);
  }
  absl::StatusOr<v1::UpdateContentResponse> UpdateContent(const v1::UpdateContentRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::UpdateContent, request, attempt);
  }
  absl::StatusOr<v1::DeleteContentResponse> DeleteContent(const v1::DeleteContentRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::DeleteContent, request, attempt);
  }
  absl::StatusOr<v1::QueryResponse> Query(const v1::QueryRequest& request,
                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::Query, request, attempt);
  }
  absl::StatusOr<v1::UpdateContextResponse> UpdateContext(const v1::UpdateContextRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*memory_, &v1::MemoryService::Stub::UpdateContext, request, attempt);
  }

  absl::StatusOr<v1::CreateSessionResponse> CreateSession(const v1::CreateSessionRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::CreateSession, request, attempt);
  }
  absl::StatusOr<v1::GetSessionResponse> GetSession(const v1::GetSessionRequest& request,
                                                    const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::GetSession, request, attempt);
  }
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(const v1::ListSessionsRequest& request,
                                                        const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::ListSessions, request, attempt);
  }
  absl::StatusOr<v1::UpdateSessionResponse> UpdateSession(const v1::UpdateSessionRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::UpdateSession, request, attempt);
  }
  absl::StatusOr<v1::DeleteSessionResponse> DeleteSession(const v1::DeleteSessionRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::DeleteSession, request, attempt);
  }
  absl::StatusOr<v1::ForkSessionResponse> ForkSession(const v1::ForkSessionRequest& request,
                                                      const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::ForkSession, request, attempt);
  }
  absl::StatusOr<v1::EraseSubjectResponse> EraseSubject(const v1::EraseSubjectRequest& request,
                                                        const Attempt& attempt) override {
    return Call(*sessions_, &v1::SessionService::Stub::EraseSubject, request, attempt);
  }
  absl::StatusOr<v1::ImportSessionResponse> ImportSession(const ImportSource& next,
                                                          const Attempt& attempt) override {
    return Import<v1::ImportSessionRequest, v1::ImportSessionResponse>(
        *sessions_, &v1::SessionService::Stub::ImportSession, next, attempt);
  }

  absl::StatusOr<v1::PutItemResponse> PutItem(const v1::PutItemRequest& request,
                                              const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::PutItem, request, attempt);
  }
  absl::StatusOr<v1::GetItemResponse> GetItem(const v1::GetItemRequest& request,
                                              const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::GetItem, request, attempt);
  }
  absl::StatusOr<v1::DeleteItemResponse> DeleteItem(const v1::DeleteItemRequest& request,
                                                    const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::DeleteItem, request, attempt);
  }
  absl::StatusOr<v1::ListItemsResponse> ListItems(const v1::ListItemsRequest& request,
                                                  const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::ListItems, request, attempt);
  }
  absl::StatusOr<v1::SearchItemsResponse> SearchItems(const v1::SearchItemsRequest& request,
                                                      const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::SearchItems, request, attempt);
  }
  absl::StatusOr<v1::BatchItemsResponse> BatchItems(const v1::BatchItemsRequest& request,
                                                    const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::BatchItems, request, attempt);
  }
  absl::StatusOr<v1::GetNamespaceResponse> GetNamespace(const v1::GetNamespaceRequest& request,
                                                        const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::GetNamespace, request, attempt);
  }
  absl::StatusOr<v1::UpdateNamespaceResponse> UpdateNamespace(
      const v1::UpdateNamespaceRequest& request, const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::UpdateNamespace, request, attempt);
  }
  absl::StatusOr<v1::ListNamespacesResponse> ListNamespaces(
      const v1::ListNamespacesRequest& request, const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::ListNamespaces, request, attempt);
  }
  absl::StatusOr<v1::CopyNamespaceResponse> CopyNamespace(const v1::CopyNamespaceRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::CopyNamespace, request, attempt);
  }
  absl::StatusOr<v1::DeleteNamespaceResponse> DeleteNamespace(
      const v1::DeleteNamespaceRequest& request, const Attempt& attempt) override {
    return Call(*items_, &v1::ItemService::Stub::DeleteNamespace, request, attempt);
  }
  absl::StatusOr<v1::ImportNamespaceResponse> ImportNamespace(const NamespaceImportSource& next,
                                                              const Attempt& attempt) override {
    return Import<v1::ImportNamespaceRequest, v1::ImportNamespaceResponse>(
        *items_, &v1::ItemService::Stub::ImportNamespace, next, attempt);
  }
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                const Attempt& attempt) override {
    return Call(*jobs_, &v1::JobService::Stub::ListJobs, request, attempt);
  }
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request,
                                            const Attempt& attempt) override {
    return Call(*jobs_, &v1::JobService::Stub::GetJob, request, attempt);
  }
  absl::StatusOr<v1::RetryJobResponse> RetryJob(const v1::RetryJobRequest& request,
                                                const Attempt& attempt) override {
    return Call(*jobs_, &v1::JobService::Stub::RetryJob, request, attempt);
  }
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request,
                                                  const Attempt& attempt) override {
    return Call(*jobs_, &v1::JobService::Stub::CancelJob, request, attempt);
  }
  absl::StatusOr<v1::GetUsageResponse> GetUsage(const v1::GetUsageRequest& request,
                                                const Attempt& attempt) override {
    return Call(*jobs_, &v1::JobService::Stub::GetUsage, request, attempt);
  }

  absl::StatusOr<v1::GetBlockResponse> GetBlock(const v1::GetBlockRequest& request,
                                                const Attempt& attempt) override {
    return Call(*blocks_, &v1::BlockService::Stub::GetBlock, request, attempt);
  }
  absl::StatusOr<v1::ListBlockEntriesResponse> ListBlockEntries(
      const v1::ListBlockEntriesRequest& request, const Attempt& attempt) override {
    return Call(*blocks_, &v1::BlockService::Stub::ListBlockEntries, request, attempt);
  }
  absl::StatusOr<v1::UndoBlockChangeResponse> UndoBlockChange(
      const v1::UndoBlockChangeRequest& request, const Attempt& attempt) override {
    return Call(*blocks_, &v1::BlockService::Stub::UndoBlockChange, request, attempt);
  }
  absl::StatusOr<v1::AddFactResponse> AddFact(const v1::AddFactRequest& request,
                                              const Attempt& attempt) override {
    return Call(*blocks_, &v1::BlockService::Stub::AddFact, request, attempt);
  }
  absl::StatusOr<v1::UpdateFactResponse> UpdateFact(const v1::UpdateFactRequest& request,
                                                    const Attempt& attempt) override {
    return Call(*blocks_, &v1::BlockService::Stub::UpdateFact, request, attempt);
  }
  absl::StatusOr<v1::DeleteFactResponse> DeleteFact(const v1::DeleteFactRequest& request,
                                                    const Attempt& attempt) override {
    return Call(*blocks_, &v1::BlockService::Stub::DeleteFact, request, attempt);
  }

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const v1::GetServerInfoRequest& request,
                                                          const Attempt& attempt) override {
    return Call(*server_, &v1::ServerService::Stub::GetServerInfo, request, attempt);
  }

 private:
  void Prepare(const Attempt& attempt, grpc::ClientContext& context) const {
    context.set_deadline(absl::ToChronoTime(attempt.deadline));
    context.set_wait_for_ready(attempt.wait_for_ready);
    if (token_) context.AddMetadata("authorization", absl::StrCat("Bearer ", token_()));
    const Trace trace = trace_ ? trace_() : Trace();
    if (!trace.traceparent.empty()) context.AddMetadata("traceparent", trace.traceparent);
    if (!trace.tracestate.empty()) context.AddMetadata("tracestate", trace.tracestate);
  }

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, const Attempt& attempt) {
    grpc::ClientContext context;
    Prepare(attempt, context);
    Response response;
    absl::Status status = FromGrpcStatus((stub.*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  template <typename Response>
  static absl::Status ReadAll(grpc::ClientReader<Response>& stream, grpc::ClientContext& context,
                              const std::function<bool(Response)>& read) {
    Response response;
    while (stream.Read(&response)) {
      if (read(std::move(response))) {
        response.Clear();
      } else {
        context.TryCancel();
        break;
      }
    }
    return FromGrpcStatus(stream.Finish());
  }

  template <typename Request, typename Response, typename Stub>
  absl::StatusOr<Response> Import(
      Stub& stub,
      std::unique_ptr<grpc::ClientWriter<Request>> (Stub::*method)(grpc::ClientContext*, Response*),
      const std::function<bool(Request&)>& next, const Attempt& attempt) {
    grpc::ClientContext context;
    Prepare(attempt, context);
    Response response;
    const auto stream = (stub.*method)(&context, &response);
    // A request that can't be sent any more is one of a call that has ended.
    for (Request request; next(request) && stream->Write(request);) request.Clear();
    stream->WritesDone();
    absl::Status status = FromGrpcStatus(stream->Finish());
    if (!status.ok()) return status;
    return response;
  }

  const std::function<std::string()> token_;
  const std::function<Trace()> trace_;
  const std::unique_ptr<v1::MemoryService::Stub> memory_;
  const std::unique_ptr<v1::SessionService::Stub> sessions_;
  const std::unique_ptr<v1::JobService::Stub> jobs_;
  const std::unique_ptr<v1::BlockService::Stub> blocks_;
  const std::unique_ptr<v1::ItemService::Stub> items_;
  const std::unique_ptr<v1::ServerService::Stub> server_;
};

}  // namespace

std::shared_ptr<Connection> MakeGrpcConnection(const Options& options) {
  return std::make_shared<GrpcConnection>(options, MakeChannel(options));
}

}  // namespace memoryd::client
