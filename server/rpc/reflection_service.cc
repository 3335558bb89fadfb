#include "server/rpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "server/rpc/parse_request.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// The file and all that it imports, each once.
void AppendFiles(const FileDescriptor* file, std::set<const FileDescriptor*>& seen,
                 ServerReflectionResponse& response) {
  if (!seen.insert(file).second) return;
  google::protobuf::FileDescriptorProto described;
  file->CopyTo(&described);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(
      described.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) {
    AppendFiles(file->dependency(i), seen, response);
  }
}

void SetError(absl::StatusCode code, std::string_view message, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(static_cast<int>(code));
  response.mutable_error_response()->set_error_message(std::string(message));
}

void SetFiles(const FileDescriptor* file, ServerReflectionResponse& response) {
  if (file == nullptr) {
    SetError(absl::StatusCode::kNotFound, "the server does not know it", response);
    return;
  }
  std::set<const FileDescriptor*> seen;
  AppendFiles(file, seen, response);
}

void Answer(const ServerReflectionRequest& request, const std::vector<std::string>& services,
            ServerReflectionResponse& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFiles(pool.FindFileByName(request.file_by_filename()), response);
      return;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFiles(pool.FindFileContainingSymbol(request.file_containing_symbol()), response);
      return;
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& name = request.all_extension_numbers_of_type();
      if (pool.FindMessageTypeByName(name) == nullptr) {
        SetError(absl::StatusCode::kNotFound, "the server does not know it", response);
        return;
      }
      response.mutable_all_extension_numbers_response()->set_base_type_name(name);
      return;
    }
    case ServerReflectionRequest::kListServices:
      response.mutable_list_services_response();
      for (const std::string& service : services) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      return;
    case ServerReflectionRequest::kFileContainingExtension:
      SetError(absl::StatusCode::kNotFound, "the server has no extensions", response);
      return;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  SetError(absl::StatusCode::kInvalidArgument, "message_request: must be set", response);
}

}  // namespace

class ReflectionService::Stream final : public RpcHandler {
 public:
  Stream(const ReflectionService* service, RpcCallPtr rpc)
      : service_(*service), rpc_(std::move(rpc)) {}

  void OnMessage(std::string_view bytes) override {
    ServerReflectionRequest request;
    if (const auto hold = ParseRequest(*rpc_, bytes, request); !hold.ok()) {
      rpc_->Finish(hold.status(), {});
      return;
    }
    ServerReflectionResponse response;
    response.set_valid_host(request.host());
    *response.mutable_original_request() = request;
    Answer(request, service_.services_, response);
    rpc_->Send(response.SerializeAsString(), {});
  }

  void OnReadEnd(const absl::Status& status) override { rpc_->Finish(status, {}); }

  // One question at a time.
  void OnSent() override { rpc_->Read(); }

 private:
  const ReflectionService& service_;
  const RpcCallPtr rpc_;
};

void ReflectionService::AddTo(RpcMethods& methods) {
  for (const char* const package : {"v1", "v1alpha"}) {
    methods.Add(std::string("/grpc.reflection.")
                    .append(package)
                    .append(".ServerReflection/ServerReflectionInfo"),
                [this](RpcCallPtr rpc) { ServerReflectionInfo(std::move(rpc)); });
  }
}

void ReflectionService::ServerReflectionInfo(RpcCallPtr rpc) {
  if (absl::Status status = admit_(*rpc); !status.ok()) {
    rpc->Finish(status, {});
    return;
  }
  rpc->SetHandler(std::make_shared<Stream>(this, rpc));
  rpc->Read();
}

}  // namespace memoryd
