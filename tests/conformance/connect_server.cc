// The server under test of connectconformance: its ConformanceService behind the HTTP port's layer.
// Reads a ServerCompatRequest from standard input and says on standard output where it listens.
#include <google/protobuf/any.pb.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "connectrpc/conformance/v1/server_compat.pb.h"
#include "connectrpc/conformance/v1/service.pb.h"
#include "core/base/memory_budget.h"
#include "google/rpc/error_details.pb.h"
#include "server/http/connect_call.h"
#include "server/http/http_server.h"
#include "server/http/request_parser.h"
#include "server/settings/tls_files.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"

namespace {

namespace conformance = connectrpc::conformance::v1;
using memoryd::ConnectCall;
using memoryd::RpcCallPtr;
using memoryd::RpcStatus;

constexpr std::uint32_t kLargest = 1U << 20;

memoryd::RpcStatus StatusOf(const conformance::Error& error,
                            const conformance::ConformancePayload::RequestInfo* info) {
  google::rpc::Status status;
  status.set_code(error.code());
  status.set_message(error.message());
  *status.mutable_details() = error.details();
  if (info != nullptr) status.add_details()->PackFrom(*info);
  return {static_cast<int>(error.code()), error.message(), status.SerializeAsString()};
}

void Wait(std::uint32_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// What every method does with a request.
template <typename Request>
class Conforming : public memoryd::RpcHandler {
 public:
  explicit Conforming(std::shared_ptr<ConnectCall> call) : call_(std::move(call)) {}

  void OnMessage(std::string_view bytes) override {
    Request request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      call_->Finish(absl::InvalidArgumentError("the request can't be read"), {});
      return;
    }
    // Since answers may be late on purpose.
    std::thread(&Answer, call_, std::move(request)).detach();
  }
  void OnReadEnd(const absl::Status& status) override {
    call_->Finish(status.ok() ? absl::UnimplementedError("no request") : status, {});
  }

 private:
  static conformance::ConformancePayload::RequestInfo InfoOf(const ConnectCall& call,
                                                             const Request& request) {
    conformance::ConformancePayload::RequestInfo info;
    const memoryd::ConnectRequest& head = call.request();
    std::map<std::string, conformance::Header*> headers;
    for (const auto& [name, value] : head.fields) {
      conformance::Header*& header = headers[name];
      if (header == nullptr) header = info.add_request_headers();
      header->set_name(name);
      header->add_value(value);
    }
    if (!head.connect_timeout_ms.empty()) info.set_timeout_ms(std::stoll(head.connect_timeout_ms));
    if (head.method == "GET") info.mutable_connect_get_info();
    info.add_requests()->PackFrom(request);
    return info;
  }

  template <typename Definition>
  static void AddHeaders(ConnectCall& call, const Definition& definition) {
    for (const conformance::Header& header : definition.response_headers()) {
      for (const std::string& value : header.value()) call.AddHeader(header.name(), value);
    }
    for (const conformance::Header& trailer : definition.response_trailers()) {
      for (const std::string& value : trailer.value()) call.AddTrailer(trailer.name(), value);
    }
  }

  static void Answer(const std::shared_ptr<ConnectCall>& call, const Request& request) {
    AddHeaders(*call, request.response_definition());
    if constexpr (std::is_same_v<Request, conformance::ServerStreamRequest>) {
      Stream(*call, request);
    } else {
      Reply(*call, request);
    }
  }

  static void Reply(ConnectCall& call, const Request& request) {
    const auto& definition = request.response_definition();
    const auto info = InfoOf(call, request);
    Wait(definition.response_delay_ms());
    if (definition.has_error()) {
      call.Finish(StatusOf(definition.error(), &info), {});
      return;
    }
    // IdempotentUnary's reply has the same fields.
    conformance::UnaryResponse response;
    *response.mutable_payload()->mutable_request_info() = info;
    response.mutable_payload()->set_data(definition.response_data());
    call.SendLast(response.SerializeAsString(), {});
  }

  static void Stream(ConnectCall& call, const Request& request) {
    const auto& definition = request.response_definition();
    const auto info = InfoOf(call, request);
    bool is_first = true;
    for (const std::string& data : definition.response_data()) {
      conformance::ServerStreamResponse response;
      response.mutable_payload()->set_data(data);
      if (is_first) *response.mutable_payload()->mutable_request_info() = info;
      Wait(definition.response_delay_ms());
      call.Send(response.SerializeAsString(), {});
      is_first = false;
    }
    if (definition.has_error()) {
      call.Finish(StatusOf(definition.error(), is_first ? &info : nullptr), {});
    } else {
      call.Finish(absl::OkStatus(), {});
    }
  }

  const std::shared_ptr<ConnectCall> call_;
};

template <typename Request>
void Begin(const RpcCallPtr& rpc) {
  if (const absl::Status status = rpc->ChargeTo("conformance"); !status.ok()) {
    rpc->Finish(status, {});
    return;
  }
  rpc->SetHandler(
      std::make_shared<Conforming<Request>>(std::dynamic_pointer_cast<ConnectCall>(rpc)));
  rpc->Read();
}

bool Exactly(std::size_t size, std::string& bytes) {
  bytes.resize(size);
  return static_cast<bool>(std::cin.read(bytes.data(), static_cast<std::streamsize>(size)));
}

bool ReadRequest(conformance::ServerCompatRequest& request) {
  constexpr std::size_t kPrefix = 4;
  std::string bytes;
  if (!Exactly(kPrefix, bytes)) return false;
  std::size_t size = 0;
  for (const char c : bytes) size = size << 8U | static_cast<unsigned char>(c);
  return Exactly(size, bytes) && request.ParseFromString(bytes);
}

void Write(const conformance::ServerCompatResponse& response) {
  const std::string bytes = response.SerializeAsString();
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::cout.put(static_cast<char>(bytes.size() >> shift & 0xFFU));
  }
  std::cout << bytes << std::flush;
}

std::string InFile(const std::filesystem::path& folder, const char* name,
                   const std::string& content) {
  if (content.empty()) return {};
  std::ofstream(folder / name, std::ios::binary) << content;
  // Else the server would not take it.
  std::filesystem::permissions(folder / name, std::filesystem::perms::owner_read);
  return folder / name;
}

}  // namespace

int main() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  conformance::ServerCompatRequest asked;
  if (!ReadRequest(asked)) {
    std::cerr << "standard input has no ServerCompatRequest\n";
    return 1;
  }
  std::string folder = std::filesystem::temp_directory_path() / "connect-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  memoryd::TlsFiles tls(InFile(folder, "cert", asked.server_creds().cert()),
                        InFile(folder, "key", asked.server_creds().key()),
                        InFile(folder, "ca", asked.client_tls_cert()));
  if (asked.use_tls()) {
    if (const absl::Status status = tls.Reload(); !status.ok()) {
      std::cerr << status << "\n";
      return 1;
    }
  }
  std::filesystem::remove_all(folder);

  memoryd::MemoryBudget budget(0);
  memoryd::RpcMethods methods;
  const std::string service = "/connectrpc.conformance.v1.ConformanceService/";
  methods.Add(service + "Unary", &Begin<conformance::UnaryRequest>);
  methods.Add(service + "IdempotentUnary", &Begin<conformance::IdempotentUnaryRequest>);
  methods.Add(service + "ServerStream", &Begin<conformance::ServerStreamRequest>);
  memoryd::HttpServerOptions options;
  options.paths = {service + "Unary", service + "IdempotentUnary", service + "ServerStream"};
  options.keeps_headers = true;
  options.is_ready = [] { return true; };
  options.listener.addresses = {"127.0.0.1:0"};
  options.listener.tls = asked.use_tls() ? &tls : nullptr;
  options.listener.max_message_bytes =
      asked.message_receive_limit() == 0 ? kLargest : asked.message_receive_limit();
  auto server = memoryd::StartHttpServer(std::move(options), &methods, &budget);
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    return 1;
  }
  const std::string address = (*server)->addresses()[0];
  conformance::ServerCompatResponse response;
  response.set_host("127.0.0.1");
  response.set_port(static_cast<std::uint32_t>(std::stoul(address.substr(address.rfind(':') + 1))));
  if (asked.use_tls()) response.set_pem_cert(asked.server_creds().cert());
  Write(response);

  int signal = 0;
  sigwait(&ends, &signal);
  (*server)->Shutdown(std::chrono::steady_clock::now());
  // Answers that are late on purpose would outlive what they use.
  std::fflush(nullptr);
  std::_Exit(0);
}
