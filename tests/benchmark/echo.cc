// The least a C++ gRPC server of memoryd's kind can do: takes the requests of MemoryService, looks
// at nothing, and answers each with the same bytes; through gRPC's raw callback methods, or with
// memoryd's own front.

#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/memory_budget.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "server/http2/http2_server.h"
#include "server/wire/rpc_call.h"

namespace memoryd::benchmark {
namespace {

using RawService =
    v1::MemoryService::WithRawCallbackMethod_Put<v1::MemoryService::WithRawCallbackMethod_Get<
        v1::MemoryService::WithRawCallbackMethod_GetAll<v1::MemoryService::Service>>>;

class EchoService final : public RawService {
 public:
  // Every reply has `reply_bytes` bytes, or is the request when that is negative.
  explicit EchoService(int reply_bytes)
      : returns_request_(reply_bytes < 0),
        reply_slice_(std::string(reply_bytes < 0 ? 0 : static_cast<std::size_t>(reply_bytes), 'x')),
        reply_(&reply_slice_, 1) {}

  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response) override {
    return Answer(*context, *request, *response);
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response) override {
    return Answer(*context, *request, *response);
  }
  grpc::ServerUnaryReactor* GetAll(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    return Answer(*context, *request, *response);
  }

 private:
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext& context,
                                   const grpc::ByteBuffer& request,
                                   grpc::ByteBuffer& response) const {
    response = returns_request_ ? request : reply_;
    grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const bool returns_request_;
  const grpc::Slice reply_slice_;
  const grpc::ByteBuffer reply_;
};

void TellAddress(const std::string& address) {
  fmt::print("listening on {}\n", address);
  std::fflush(stdout);
}

void AwaitSignal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
}

int ServeByGrpc(const std::string& listen, int reply_bytes, const sigset_t& signals) {
  EchoService service(reply_bytes);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    fmt::print(stderr, "memoryd_echo: can't listen on {}\n", listen);
    return 1;
  }
  const bool is_unix = listen.rfind("unix:", 0) == 0;
  TellAddress(is_unix ? listen : fmt::format("{}:{}", listen.substr(0, listen.rfind(':')), port));
  AwaitSignal(signals);
  server->Shutdown();
  return 0;
}

// Answers one call.
class EchoHandler final : public RpcHandler {
 public:
  // `reply` outlives the call; null for the request's own bytes.
  EchoHandler(RpcCall* call, const std::string* reply) : call_(*call), reply_(reply) {}

  void OnMessage(std::string_view bytes) override {
    call_.SendLast(reply_ == nullptr ? std::string(bytes) : *reply_, {});
  }
  void OnReadEnd(const absl::Status& status) override {
    call_.Finish(status.ok() ? absl::InvalidArgumentError("no request") : status, {});
  }

 private:
  RpcCall& call_;  // Which has this handler.
  const std::string* const reply_;
};

int ServeByOwnFront(const std::string& listen, int reply_bytes, const sigset_t& signals) {
  const std::string reply(reply_bytes < 0 ? 0 : static_cast<std::size_t>(reply_bytes), 'x');
  RpcMethods methods;
  for (const char* const method : {"Put", "Get", "GetAll"}) {
    methods.Add(fmt::format("/memoryd.v1.MemoryService/{}", method), [&](const RpcCallPtr& call) {
      if (const absl::Status status = call->ChargeTo("echo"); !status.ok()) {
        call->Finish(status, {});
        return;
      }
      call->SetHandler(
          std::make_shared<EchoHandler>(call.get(), reply_bytes < 0 ? nullptr : &reply));
      call->Read();
    });
  }
  MemoryBudget budget(0);
  Http2ServerOptions options;
  options.addresses = {listen};
  auto server = Http2Server::Start(std::move(options), &methods, &budget);
  if (!server.ok()) {
    fmt::print(stderr, "memoryd_echo: {}\n", std::string(server.status().message()));
    return 1;
  }
  TellAddress((*server)->addresses().front());
  AwaitSignal(signals);
  (*server)->Shutdown(std::chrono::steady_clock::now() + std::chrono::seconds(1));
  return 0;
}

int Main(int argc, char** argv) {
  // Debian builds Abseil with its search for lock cycles on, which gRPC pays for with every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::string listen = "127.0.0.1:0";
  int reply_bytes = -1;
  bool own_front = false;
  CLI::App app("Answers memoryd's Put, Get and GetAll with fixed bytes.");
  app.add_option("--listen", listen, "HOST:PORT, port 0 for a free one, or unix:PATH");
  app.add_option("--reply_bytes", reply_bytes,
                 "size of every reply; negative: the request's bytes");
  app.add_flag("--own_front", own_front, "memoryd's own front in place of gRPC's server");
  CLI11_PARSE(app, argc, argv);

  // Blocked before there are other threads, so that only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  return own_front ? ServeByOwnFront(listen, reply_bytes, signals)
                   : ServeByGrpc(listen, reply_bytes, signals);
}

}  // namespace
}  // namespace memoryd::benchmark

int main(int argc, char** argv) { return memoryd::benchmark::Main(argc, argv); }
