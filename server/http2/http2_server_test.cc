#include "server/http2/http2_server.h"

#include <asm-generic/socket.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/calls/executor.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "server/http2/http2_stats.h"
#include "server/rpc/parse_request.h"
#include "server/wire/rpc_call.h"
#include "tests/support/held_call_thread.h"

// ThreadSanitizer has these operators too, and they can't be linked beside its own.
#ifndef MEMORYD_THREAD_SANITIZER
namespace {

// The allocation of this thread that fails, counted from now; 0 for none.
thread_local int failing_allocation = 0;

}  // namespace

void* operator new(std::size_t size) {
  if (failing_allocation > 0 && --failing_allocation == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// AddressSanitizer has one of its own for each that is not here, and knows which belong together.
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return std::malloc(size);
}
void* operator new[](std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return std::malloc(size);
}
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
#endif

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// Answers a Get with as many bytes as its `input` says, and keeps those of the session "held".
class Answering final : public RpcHandler, public std::enable_shared_from_this<Answering> {
 public:
  Answering(RpcCallPtr rpc, std::atomic<int>* cancelled)
      : rpc_(std::move(rpc)), cancelled_(*cancelled) {}

  void OnMessage(std::string_view bytes) override {
    v1::GetRequest request;
    ASSERT_TRUE(Parse(bytes, request).ok());
    if (request.session_id() == "held") return;
    v1::GetResponse response;
    response.set_limit(static_cast<std::int64_t>(request.session_id().size()));
    if (request.has_input()) {
      response.add_messages()->set_text(
          std::string(static_cast<std::size_t>(std::atoi(request.input().c_str())), 'x'));
    }
    auto hold = rpc_->Take(MemoryUse::kReplies, static_cast<std::int64_t>(response.ByteSizeLong()));
    if (hold.ok()) {
      rpc_->SendLast(response.SerializeAsString(), *std::move(hold));
    } else {
      rpc_->Finish(hold.status(), "id");
    }
  }
  void OnReadEnd(const absl::Status& status) override {
    rpc_->Finish(status.ok() ? absl::InvalidArgumentError("no request") : status, {});
  }
  void OnCancel() override { ++cancelled_; }

 private:
  const RpcCallPtr rpc_;
  std::atomic<int>& cancelled_;
};

class Http2ServerTest : public ::testing::Test {
 protected:
  void Serve(Http2ServerOptions options = {}) {
    methods_.Add("/memoryd.v1.MemoryService/Get", [this](RpcCallPtr rpc) {
      if (const absl::Status status = rpc->ChargeTo("tenant"); !status.ok()) {
        rpc->Finish(status, {});
        return;
      }
      rpc->SetHandler(std::make_shared<Answering>(rpc, &cancelled_));
      rpc->Read();
    });
    if (options.addresses.empty()) options.addresses = {"127.0.0.1:0"};
    auto started = Http2Server::Start(std::move(options), &methods_, &budget_);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  // Connections of their own.
  std::unique_ptr<v1::MemoryService::Stub> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    return v1::MemoryService::NewStub(grpc::CreateCustomChannel(
        server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments));
  }

  static grpc::Status Get(v1::MemoryService::Stub& stub, const std::string& session_id,
                          const std::string& input, v1::GetResponse& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::GetRequest request;
    request.set_session_id(session_id);
    if (!input.empty()) request.set_input(input);
    return stub.Get(&context, request, &response);
  }

  // Ends connections once no call holds anything, or after a minute: gRPC's client may keep one
  // long after its channel is gone.
  void EndConnections() {
    Await([this] { return NobodyHolds(); });
    EXPECT_EQ(budget_.held(), 0);
    EXPECT_EQ(budget_.holders(), 0);
    server_->Shutdown(Clock::now());
  }

  // Waits until nobody holds anything, or for a minute.
  void ExpectAllGivenBack() {
    Await([this] {
      return server_->stats().open() == 0 && NobodyHolds() && server_->unauthenticated_held() == 0;
    });
    EXPECT_EQ(server_->stats().open(), 0);
    EXPECT_EQ(budget_.held(), 0);
    EXPECT_EQ(budget_.holders(), 0);
    EXPECT_EQ(server_->unauthenticated_held(), 0);
  }

  // A holder goes by itself, after the last byte that it held.
  bool NobodyHolds() const { return budget_.held() == 0 && budget_.holders() == 0; }

  static void Await(const std::function<bool()>& holds) {
    const auto deadline = Clock::now() + std::chrono::minutes(1);
    while (!holds() && Clock::now() < deadline) std::this_thread::yield();
  }

  RpcMethods methods_;
  MemoryBudget budget_{64 << 20};
  std::atomic<int> cancelled_{0};
  std::unique_ptr<Http2Server> server_;
};

// A connection whose frames are the test's own.
class RawConnection {
 public:
  // `source`: the last byte of 127.0.0.x that it comes from.
  explicit RawConnection(const std::string& target, std::uint32_t source = 1)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(0x7F000000U + source);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    EXPECT_EQ(Connect(socket_, target), 0);
    // So that a test fails where the server says nothing.
    const timeval patience{60, 0};
    EXPECT_EQ(::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, {}));
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  static constexpr std::uint8_t kData = 0;
  static constexpr std::uint8_t kHeaders = 1;
  static constexpr std::uint8_t kReset = 3;
  static constexpr std::uint8_t kSettings = 4;
  static constexpr std::uint8_t kPing = 6;
  static constexpr std::uint8_t kGoAway = 7;
  static constexpr std::uint8_t kAcknowledged = 1;
  static constexpr std::uint8_t kEndStream = 1;
  static constexpr std::uint8_t kEndHeaders = 4;

  // What is said to one who would connect; 0 for nothing.
  static int ErrorOfConnecting(const std::string& target) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int error = Connect(socket, target);
    ::close(socket);
    return error;
  }

  static std::string Number(std::uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
    return bytes;
  }
  static std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                           const std::string& payload) {
    const std::string size = Number(static_cast<std::uint32_t>(payload.size())).substr(1);
    return size + static_cast<char>(type) + static_cast<char>(flags) + Number(stream) + payload;
  }
  static std::string Prefixed(const std::string& message) {
    return std::string(1, '\0') + Number(static_cast<std::uint32_t>(message.size())) + message;
  }

  void Send(const std::string& bytes) {
    // The server may have closed it; then Next() says so.
    if (::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
      EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET) << std::strerror(errno);
    }
  }
  // The headers of a call, by RFC 7541: fields of the static table, or literals not to be indexed.
  void Start(std::uint32_t stream, const std::string& path) {
    const auto literal = [](const std::string& index, const std::string& value) {
      return index + static_cast<char>(value.size()) + value;
    };
    Send(Frame(kHeaders, kEndHeaders, stream,
               "\x83\x86" + literal("\x04", path) + literal("\x01", "x") +
                   literal("\x0F\x10", "application/grpc")));
  }
  // A whole call with one message.
  void Call(std::uint32_t stream, const std::string& path, const std::string& message) {
    Start(stream, path);
    Send(Frame(kData, kEndStream, stream, Prefixed(message)));
  }
  // The type of the next frame of that stream, and whether the frame ends it. kReset when the
  // connection is closed.
  std::pair<std::uint8_t, bool> Next(std::uint32_t stream) {
    for (;;) {
      std::string head(9, '\0');
      if (!Fill(head)) return {kReset, true};
      std::string payload(static_cast<unsigned char>(head[0]) * 65536U +
                              static_cast<unsigned char>(head[1]) * 256U +
                              static_cast<unsigned char>(head[2]),
                          '\0');
      if (!Fill(payload)) return {kReset, true};
      const auto type = static_cast<std::uint8_t>(head[3]);
      if (head.substr(5) != Number(stream) || stream == 0) continue;
      return {type, type == kReset || (static_cast<unsigned char>(head[4]) & kEndStream) != 0};
    }
  }
  // Waits for a frame of that type, of whatever stream; false when the connection is closed.
  bool WaitFor(std::uint8_t type) {
    std::uint8_t last = 0;
    std::string payload;
    do {
      if (!NextFrame(last, payload)) return false;
    } while (last != type);
    last_payload_ = payload;
    return true;
  }
  // Waits for a ping, as it comes with the notice of a shutdown, and answers it.
  void AnswerPing() {
    if (WaitFor(kPing)) Send(Frame(kPing, kAcknowledged, 0, last_payload_));
  }
  // Waits for the end of a stream; whether it is an answer, and no reset.
  bool IsAnswered(std::uint32_t stream) {
    for (;;) {
      const auto [type, ends] = Next(stream);
      if (ends) return type != kReset;
    }
  }

 private:
  static int Connect(int socket, const std::string& target) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(static_cast<in_port_t>(std::stoi(target.substr(target.rfind(':') + 1))));
    const int done = ::connect(socket, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
    return done == 0 ? 0 : errno;
  }

  bool NextFrame(std::uint8_t& type, std::string& payload) {
    std::string head(9, '\0');
    if (!Fill(head)) return false;
    type = static_cast<std::uint8_t>(head[3]);
    payload.assign(static_cast<unsigned char>(head[0]) * 65536U +
                       static_cast<unsigned char>(head[1]) * 256U +
                       static_cast<unsigned char>(head[2]),
                   '\0');
    return Fill(payload);
  }

  bool Fill(std::string& bytes) {
    for (std::size_t filled = 0; filled < bytes.size();) {
      const ssize_t size = ::recv(socket_, bytes.data() + filled, bytes.size() - filled, 0);
      if (size <= 0) return false;
      filled += static_cast<std::size_t>(size);
    }
    return true;
  }

  const int socket_;
  std::string last_payload_;
};

constexpr char kGet[] = "/memoryd.v1.MemoryService/Get";

TEST_F(Http2ServerTest, MessagesOfEverySizeGoThereAndBack) {
  Serve();
  {
    const auto stub = Connect();
    for (const std::size_t size : {0U, 1U, 1000U, 16379U, 16384U, 65531U, 70000U, 3000000U}) {
      v1::GetResponse response;
      const grpc::Status status =
          Get(*stub, std::string(size, 's'), std::to_string(size), response);
      ASSERT_TRUE(status.ok()) << size << ": " << status.error_message();
      EXPECT_EQ(response.limit(), static_cast<std::int64_t>(size));
      EXPECT_EQ(response.messages(0).text().size(), size);
    }
  }
  ExpectAllGivenBack();
}

TEST_F(Http2ServerTest, ARequestAboveTheLimitIsRefusedAndNamesIt) {
  Http2ServerOptions options;
  options.max_message_bytes = 1000;
  Serve(options);
  const auto stub = Connect();
  v1::GetResponse response;
  const grpc::Status status = Get(*stub, std::string(100'000, 's'), "", response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("1000"), std::string::npos) << status.error_message();
  EXPECT_TRUE(Get(*stub, "s", "", response).ok()) << "the connection goes on";
}

TEST_F(Http2ServerTest, AnUnknownMethodIsUnimplemented) {
  Serve();
  const auto stub = Connect();
  grpc::ClientContext context;
  v1::PutResponse response;
  EXPECT_EQ(stub->Put(&context, {}, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(Http2ServerTest, AReplyThatTheBudgetHasNoRoomForIsRefused) {
  Serve();
  const auto stub = Connect();
  v1::GetResponse response;
  const grpc::Status status = Get(*stub, "s", std::to_string(40 << 20), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Get(*stub, "s", std::to_string(20 << 20), response).ok());
}

TEST_F(Http2ServerTest, AHandlerHearsThatItsCallerIsGone) {
  Serve();
  const auto stub = Connect();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  grpc::Status status;
  std::thread caller([&] {
    v1::GetRequest request;
    v1::GetResponse response;
    request.set_session_id("held");
    status = stub->Get(&context, request, &response);
  });
  while (budget_.held() == 0) std::this_thread::yield();
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EndConnections();
  ExpectAllGivenBack();
  EXPECT_EQ(cancelled_.load(), 1);
}

void CallOfKind(int kind, v1::MemoryService::Stub& stub) {
  grpc::ClientContext context;
  v1::GetRequest request;
  v1::GetResponse response;
  request.set_session_id(kind == 0 ? "held" : std::string(kind == 1 ? 200'000 : 10, 's'));
  if (kind == 2) request.set_input(std::to_string(1 << 20));
  if (kind == 3) request.set_input(std::to_string(65 << 20));  // Refused.
  if (kind == 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(5));
  }
  std::thread canceller;
  if (kind == 4 || kind == 2) canceller = std::thread([&context] { context.TryCancel(); });
  stub.Get(&context, request, &response);
  if (canceller.joinable()) canceller.join();
}

TEST_F(Http2ServerTest, AllIsGivenBackAfterAnyMixOfCalls) {
  Http2ServerOptions options;
  options.threads = 2;
  Serve(options);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([this, caller] {
      const auto stub = Connect();
      for (int i = 0; i < 60; ++i) CallOfKind((i + caller) % 6, *stub);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EndConnections();
  ExpectAllGivenBack();
}

TEST_F(Http2ServerTest, ConnectionsOfOneAddressAreBounded) {
  Http2ServerOptions options;
  options.max_connections_per_address = 2;
  Serve(options);
  v1::GetResponse response;
  const auto one = Connect();
  const auto two = Connect();
  EXPECT_TRUE(Get(*one, "s", "", response).ok());
  EXPECT_TRUE(Get(*two, "s", "", response).ok());
  EXPECT_EQ(Get(*Connect(), "s", "", response).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(server_->stats().ended(ConnectionEnd::kTooManyOfOne), 1u);
  EXPECT_TRUE(Get(*one, "s", "", response).ok()) << "others are unhurt";
}

TEST_F(Http2ServerTest, OneAddressTakesHalfOfWhatIsForTheUnknown) {
  Http2ServerOptions options;
  options.unauthenticated_bytes = 16 * (16 << 10);
  Serve(options);
  std::vector<std::unique_ptr<RawConnection>> greedy;
  greedy.reserve(12);
  for (int i = 0; i < 12; ++i) {
    greedy.push_back(std::make_unique<RawConnection>(server_->addresses()[0], 2));
  }
  // A loop opens a connection on its own thread, some time after it was accepted.
  while (server_->stats().ended(ConnectionEnd::kTooManyOfOne) < 4 || server_->stats().open() < 8) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server_->stats().open(), 8);
  EXPECT_EQ(server_->unauthenticated_held(), 8 * (16 << 10));
  v1::GetResponse response;
  EXPECT_TRUE(Get(*Connect(), "s", "", response).ok()) << "others are unhurt";
  greedy.clear();
  ExpectAllGivenBack();
}

// Answers with as many bytes as it is told.
class Replying final : public RpcHandler {
 public:
  explicit Replying(RpcCallPtr rpc) : rpc_(std::move(rpc)) {}
  void OnMessage(std::string_view bytes) override {
    rpc_->SendLast(std::string(static_cast<std::size_t>(std::stoi(std::string(bytes))), 'x'), {});
  }
  void OnReadEnd(const absl::Status& status) override { rpc_->Finish(status, {}); }

 private:
  const RpcCallPtr rpc_;
};

TEST_F(Http2ServerTest, RepliesToTheUnknownAreBounded) {
  methods_.Add("/x/Reflect", [](RpcCallPtr rpc) {
    rpc->SetHandler(std::make_shared<Replying>(rpc));
    rpc->Read();
  });
  Http2ServerOptions options;
  options.unauthenticated_bytes = 16 * (64 << 10);
  Serve(options);
  {
    RawConnection connection(server_->addresses()[0]);
    std::uint32_t stream = 1;
    for (const auto& [bytes, answered] : {std::pair("40000", true), std::pair("60000", true),
                                          std::pair("70000", false), std::pair("50", true)}) {
      connection.Call(stream, "/x/Reflect", bytes);
      // The whole connection may have 65,535 bytes that are not acknowledged.
      connection.Send(RawConnection::Frame(8, 0, 0, RawConnection::Number(100'000)));
      EXPECT_EQ(connection.IsAnswered(stream), answered) << bytes;
      stream += 2;
    }
  }
  ExpectAllGivenBack();
}

TEST_F(Http2ServerTest, ARequestThatTricklesIsGivenUp) {
  Http2ServerOptions options;
  options.times.message = std::chrono::seconds(0);
  Serve(options);
  {
    RawConnection connection(server_->addresses()[0]);
    connection.Start(1, kGet);
    const std::string message = RawConnection::Prefixed(std::string(1000, 'x'));
    std::atomic<bool> answered{false};
    std::thread trickling([&] {
      for (std::size_t i = 0; i < message.size() - 1 && !answered; ++i) {
        connection.Send(RawConnection::Frame(RawConnection::kData, 0, 1, message.substr(i, 1)));
        // The server is never without a byte for long, nor ever has them all.
        if (i > message.size() / 2) {
          while (server_->stats().half_requests() == 0) std::this_thread::yield();
        }
      }
    });
    EXPECT_TRUE(connection.IsAnswered(1));
    answered = true;
    trickling.join();
    EXPECT_EQ(server_->stats().half_requests(), 1u);
  }
  ExpectAllGivenBack();
}

TEST_F(Http2ServerTest, AReplyThatNobodyReadsIsGivenUp) {
  Http2ServerOptions options;
  options.times.reply_unread = std::chrono::seconds(0);
  Serve(options);
  {
    RawConnection connection(server_->addresses()[0]);
    v1::GetRequest request;
    request.set_session_id("s");
    // More than a stream may have that is not acknowledged.
    request.set_input("1000000");
    connection.Call(1, kGet, request.SerializeAsString());
    EXPECT_FALSE(connection.IsAnswered(1));
    EXPECT_EQ(server_->stats().unread_replies(), 1u);
  }
  ExpectAllGivenBack();
}

// Counts the messages of a stream. It asks for the next now within OnMessage(), now from another
// thread.
class Counting final : public RpcHandler, public std::enable_shared_from_this<Counting> {
 public:
  Counting(RpcCallPtr rpc, Executor* readers) : rpc_(std::move(rpc)), readers_(*readers) {}
  void OnMessage(std::string_view bytes) override {
    if (bytes != std::to_string(count_)) {
      rpc_->Finish(absl::DataLossError("messages are missing or out of order"), {});
      return;
    }
    if (++count_ % 3 == 0) {
      rpc_->Read();
    } else {
      readers_.Submit("tenant", [self = shared_from_this()] { self->rpc_->Read(); });
    }
  }
  void OnReadEnd(const absl::Status& status) override {
    if (status.ok() && count_ == 2000) {
      rpc_->SendLast("all", {});
    } else {
      rpc_->Finish(absl::DataLossError("messages are missing"), {});
    }
  }

 private:
  const RpcCallPtr rpc_;
  Executor& readers_;
  int count_ = 0;
};

TEST_F(Http2ServerTest, MessagesThatComeAtOnceAreReadOneByOne) {
  Counter exceptions{0};
  Executor readers(1, 16, &exceptions);
  methods_.Add("/x/Count", [&readers](RpcCallPtr rpc) {
    ASSERT_TRUE(rpc->ChargeTo("tenant").ok());
    rpc->SetHandler(std::make_shared<Counting>(rpc, &readers));
    rpc->Read();
  });
  Serve();
  {
    RawConnection connection(server_->addresses()[0]);
    connection.Start(1, "/x/Count");
    std::string body;
    for (int i = 0; i < 2000; ++i) body += RawConnection::Prefixed(std::to_string(i));
    std::string frames;
    constexpr std::size_t kFrame = 16'000;
    for (std::size_t begin = 0; begin < body.size(); begin += kFrame) {
      const bool last = begin + kFrame >= body.size();
      frames += RawConnection::Frame(RawConnection::kData, last ? RawConnection::kEndStream : 0, 1,
                                     body.substr(begin, kFrame));
    }
    connection.Send(frames);
    // Headers, a message, and trailers without an error behind it.
    EXPECT_EQ(connection.Next(1).first, RawConnection::kHeaders);
    EXPECT_EQ(connection.Next(1).first, RawConnection::kData);
    EXPECT_TRUE(connection.IsAnswered(1));
  }
  ExpectAllGivenBack();
}

// Throws in the event that its message, or for the first event its path, names.
class Throwing final : public RpcHandler {
 public:
  explicit Throwing(RpcCallPtr rpc) : rpc_(std::move(rpc)) {}
  void OnMessage(std::string_view bytes) override {
    event_ = bytes.substr(0, bytes.find(' '));
    Reach("message");
    if (event_ == "read_end") {
      rpc_->Read();
    } else if (event_ == "cancel") {
      rpc_->Cancel();
    } else {
      rpc_->Send("reply", {});
    }
  }
  void OnReadEnd(const absl::Status& /*status*/) override { Reach("read_end"); }
  void OnSent() override {
    Reach("sent");
    rpc_->Finish(absl::OkStatus(), {});
  }
  void OnCancel() override { Reach("cancel"); }
  void OnDone() override { Reach("done"); }

 private:
  void Reach(std::string_view event) const {
    if (event == event_) throw std::runtime_error("thrown by a handler");
  }

  const RpcCallPtr rpc_;
  std::string event_;
};

TEST_F(Http2ServerTest, AHandlerThatThrowsEndsItsCallAlone) {
  methods_.Add("/x/Start", [](RpcCallPtr) { throw std::runtime_error("thrown at the start"); });
  methods_.Add("/x/Throw", [](RpcCallPtr rpc) {
    ASSERT_TRUE(rpc->ChargeTo("tenant").ok());
    rpc->SetHandler(std::make_shared<Throwing>(rpc));
    rpc->Read();
  });
  Serve();
  {
    RawConnection connection(server_->addresses()[0]);
    // More than a loop's own thread reads.
    const std::string large = "message " + std::string(40'000, 'x');
    std::uint64_t thrown = 0;
    std::uint32_t stream = 1;
    for (const std::string& message :
         {std::string(), std::string("message"), large, std::string("read_end"),
          std::string("sent"), std::string("cancel"), std::string("done")}) {
      SCOPED_TRACE(message.substr(0, 10));
      connection.Start(stream, message.empty() ? "/x/Start" : "/x/Throw");
      const std::string body = RawConnection::Prefixed(message);
      constexpr std::size_t kFrame = 16'000;
      for (std::size_t begin = 0; begin < body.size(); begin += kFrame) {
        const bool last = begin + kFrame >= body.size();
        connection.Send(RawConnection::Frame(RawConnection::kData,
                                             last ? RawConnection::kEndStream : 0, stream,
                                             body.substr(begin, kFrame)));
      }
      EXPECT_EQ(connection.IsAnswered(stream), message != "cancel");
      stream += 2;
      ++thrown;
      // An answer may overtake the event that follows it.
      while (server_->stats().exceptions() < thrown) std::this_thread::yield();
      EXPECT_EQ(server_->stats().exceptions(), thrown);
    }
    v1::GetRequest request;
    request.set_session_id("s");
    connection.Call(stream, kGet, request.SerializeAsString());
    EXPECT_TRUE(connection.IsAnswered(stream)) << "the connection goes on";
  }
  ExpectAllGivenBack();
  EXPECT_EQ(server_->stats().ended(ConnectionEnd::kException), 0U);
}

#ifndef MEMORYD_THREAD_SANITIZER
TEST_F(Http2ServerTest, MemoryThatRunsOutEndsAConnectionAndNothingElse) {
  int next = 0;
  bool all_passed = false;
  std::atomic<int> armed{0};
  Counter thrown{0};
  Executor others(1, 16, &thrown);
  HeldCallThread nobody(0);  // So that it is always the same thread that polls.
  // The `next` allocation of the loop's thread fails from here on: in this call, whose answer
  // comes from another thread, or in the connection and call that follow.
  methods_.Add("/x/RunOut", [&](RpcCallPtr rpc) {
    all_passed = failing_allocation > 0;
    failing_allocation = all_passed ? 0 : ++next;
    ++armed;
    nobody.Take([&] { others.Submit("tenant", [rpc] { rpc->SendLast("armed", {}); }); });
  });
  // Without protobuf, which loses memory when it can't have more.
  methods_.Add("/x/Reply", [](RpcCallPtr rpc) {
    if (!rpc->ChargeTo("tenant").ok()) return;
    rpc->SetHandler(std::make_shared<Replying>(rpc));
    rpc->Read();
  });
  Serve();
  const std::string& address = server_->addresses()[0];
  for (int round = 1; !all_passed; ++round) {
    ASSERT_LT(round, 10'000);
    while (armed < round) {
      RawConnection connection(address);
      connection.Call(1, "/x/RunOut", "");
      connection.IsAnswered(1);
    }
    RawConnection connection(address);
    connection.Send(RawConnection::Frame(8, 0, 0, RawConnection::Number(1'000'000)));
    connection.Call(1, "/x/Reply", "100000");
    connection.Send(RawConnection::Frame(8, 0, 1, RawConnection::Number(1'000'000)));
    connection.IsAnswered(1);
  }
  EXPECT_GT(next, 20);
  EXPECT_GT(server_->stats().exceptions(), 10U);
  EXPECT_GT(server_->stats().ended(ConnectionEnd::kException), 5U);
  v1::GetResponse response;
  EXPECT_TRUE(Get(*Connect(), "s", "1000000", response).ok()) << "others are served";
  ExpectAllGivenBack();
}
#endif

TEST_F(Http2ServerTest, AnAddressInUseIsNamed) {
  Serve();
  Http2ServerOptions options;
  options.addresses = {server_->addresses()[0]};
  const auto second = Http2Server::Start(std::move(options), &methods_, &budget_);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_NE(second.status().message().find(server_->addresses()[0]), absl::string_view::npos);
  EXPECT_NE(second.status().message().find("in use"), absl::string_view::npos);
}

TEST_F(Http2ServerTest, AUnixSocketIsForItsOwnerAndReplacesADeadOne) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("http2_server_test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "s";
  Http2ServerOptions options;
  options.addresses = {"unix:" + path};
  // One that nobody listens on.
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  ::close(dead);
  Serve(options);
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  v1::GetResponse response;
  EXPECT_TRUE(Get(*Connect(), "s", "", response).ok());
  EXPECT_TRUE(absl::IsUnavailable(Http2Server::Start(options, &methods_, &budget_).status()))
      << "somebody listens there";
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "a file of somebody";
  EXPECT_TRUE(absl::IsUnavailable(Http2Server::Start(options, &methods_, &budget_).status()));
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST_F(Http2ServerTest, APeerThatAnswersNoPingIsClosed) {
  Http2ServerOptions options;
  options.keepalive = std::chrono::seconds(0);
  Serve(options);
  // gRPC's client answers.
  const auto stub = Connect();
  grpc::ClientContext context;
  grpc::Status status;
  v1::GetRequest request;
  request.set_session_id("held");
  std::thread caller([&] {
    v1::GetResponse response;
    status = stub->Get(&context, request, &response);
  });
  RawConnection silent(server_->addresses()[0]);
  silent.Send(RawConnection::Frame(RawConnection::kSettings, RawConnection::kAcknowledged, 0, {}));
  silent.Call(1, kGet, request.SerializeAsString());
  EXPECT_FALSE(silent.IsAnswered(1));
  const auto deadline = Clock::now() + std::chrono::minutes(1);
  while (server_->stats().open() > 1 && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(server_->stats().ended(ConnectionEnd::kStuck), 1U);
  EXPECT_EQ(server_->stats().open(), 1) << "the other is alive";
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(Http2ServerTest, AShutdownListensNoMoreWhileCallsGoOn) {
  Serve();
  const std::string address = server_->addresses()[0];
  RawConnection connection(address);
  v1::GetRequest request;
  request.set_session_id("held");
  connection.Call(1, kGet, request.SerializeAsString());
  while (budget_.held() == 0) std::this_thread::yield();
  std::thread shutdown([this] { server_->Shutdown(Clock::now() + std::chrono::minutes(1)); });
  // The call goes on, and nobody else can come.
  connection.AnswerPing();
  EXPECT_TRUE(connection.WaitFor(RawConnection::kGoAway));
  EXPECT_EQ(RawConnection::ErrorOfConnecting(address), ECONNREFUSED);
  EXPECT_EQ(server_->stats().open(), 1);
  EXPECT_EQ(cancelled_.load(), 0);
  connection.Send(RawConnection::Frame(RawConnection::kReset, 0, 1, RawConnection::Number(8)));
  shutdown.join();
  EXPECT_EQ(server_->stats().ended(ConnectionEnd::kShutdown), 1U);
  EXPECT_EQ(cancelled_.load(), 1);
}

TEST_F(Http2ServerTest, AShutdownEndsWhatDoesNotEndByItself) {
  Serve();
  const auto stub = Connect();
  grpc::Status status;
  std::thread caller([&] {
    v1::GetResponse response;
    status = Get(*stub, "held", "", response);
  });
  while (budget_.held() == 0) std::this_thread::yield();
  server_->Shutdown(Clock::now());
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(cancelled_.load(), 1);
  EXPECT_EQ(budget_.held(), 0);
}

}  // namespace
}  // namespace memoryd
