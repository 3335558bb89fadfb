// The least a C++ gRPC server of memoryd's kind can do: takes the requests of MemoryService through
// raw callback methods, looks at nothing, and answers each with the same bytes.

#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "memoryd/v1/memory_service.grpc.pb.h"

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

int Main(int argc, char** argv) {
  // Debian builds Abseil with its search for lock cycles on, which gRPC pays for with every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::string listen = "127.0.0.1:0";
  int reply_bytes = -1;
  CLI::App app("Answers memoryd's Put, Get and GetAll with fixed bytes.");
  app.add_option("--listen", listen, "HOST:PORT, port 0 for a free one, or unix:PATH");
  app.add_option("--reply_bytes", reply_bytes,
                 "size of every reply; negative: the request's bytes");
  CLI11_PARSE(app, argc, argv);

  // Blocked before gRPC makes its threads, so that only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

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
  fmt::print("listening on {}\n",
             is_unix ? listen : fmt::format("{}:{}", listen.substr(0, listen.rfind(':')), port));
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace memoryd::benchmark

int main(int argc, char** argv) { return memoryd::benchmark::Main(argc, argv); }
