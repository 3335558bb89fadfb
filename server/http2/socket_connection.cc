#include "server/http2/socket_connection.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/histogram.h"
#include "server/http2/connection.h"
#include "server/http2/http2_stats.h"
#include "server/http2/outgoing_bytes.h"

namespace memoryd {
namespace {

constexpr std::chrono::seconds kHandshake(5);
constexpr std::size_t kPartsOfWrite = 16;

}  // namespace

SocketConnection::SocketConnection(ConnectionParts parts)
    : environment_(*parts.environment),
      loop_(std::move(parts.loop)),
      socket_(parts.socket),
      waits_(loop_.get()),
      transport_(std::move(parts.transport)),
      owner_(*parts.owner),
      share_(std::move(parts.share)),
      base_bytes_(parts.base_bytes) {}

SocketConnection::~SocketConnection() = default;

void SocketConnection::Guarded(absl::FunctionRef<void()> event) {
  try {
    event();
  } catch (...) {
    Fail();
  }
  if (failed_) {
    OnException();
    Close(ConnectionEnd::kException);
  }
}

void SocketConnection::Fail() {
  Increment(*environment_.stats->exception_counter());
  failed_ = true;
}

void SocketConnection::Start() {
  environment_.stats->Opened();
  Guarded([this] {
    if (waits_.Begin(socket_)) {
      Shake();
    } else {
      Close(ConnectionEnd::kTooMany);
    }
  });
}

void SocketConnection::Shake() {
  switch (transport_->Handshake().state) {
    case Transport::State::kDone:
      shaking_ = false;
      certificate_names_ =
          std::make_shared<const std::vector<std::string>>(transport_->CertificateNames());
      OnShaken();
      Read();
      return;
    case Transport::State::kWantRead:
      WaitReadable();
      return;
    case Transport::State::kWantWrite:
      WaitWritable();
      return;
    case Transport::State::kClosed:
      Close(ConnectionEnd::kHandshake);
      return;
  }
}

void SocketConnection::WaitReadable() {
  if (!open_) return;
  waits_.ForRead([self = shared_from_this()] { self->OnSocket([&self] { self->Read(); }); });
}

void SocketConnection::WaitWritable() {
  if (!open_) return;
  waits_.ForWrite([self = shared_from_this()] { self->OnSocket([&self] { self->OnFlush(); }); });
}

void SocketConnection::OnSocket(absl::FunctionRef<void()> event) {
  if (!open_) return;
  Guarded([this, event] {
    if (shaking_) {
      Shake();
    } else {
      event();
    }
  });
}

void SocketConnection::Read() {
  if (!open_) return;
  const std::size_t size = ReadSize();
  if (size == 0) return;
  const Transport::Result result = transport_->Read(loop_->buffer().data(), size);
  switch (result.state) {
    case Transport::State::kDone:
      OnBytes({loop_->buffer().data(), result.bytes});
      if (!open_ || ReadSize() == 0) return;
      if (transport_->HasBuffered()) {
        ReadOn();
      } else {
        WaitReadable();
      }
      return;
    case Transport::State::kWantRead:
      WaitReadable();
      return;
    case Transport::State::kWantWrite:
      // A handshake of TLS 1.3 that goes on while data is read.
      WaitWritable();
      WaitReadable();
      return;
    case Transport::State::kClosed:
      Close(ConnectionEnd::kPeer);
      return;
  }
}

void SocketConnection::ReadOn() {
  loop_->Post([self = shared_from_this()] { self->Guarded([&self] { self->Read(); }); });
}

std::size_t SocketConnection::Write(std::span<const iovec> parts) {
  const Transport::Result result = transport_->Write(parts);
  switch (result.state) {
    case Transport::State::kDone:
      return result.bytes;
    case Transport::State::kWantRead:
      break;
    case Transport::State::kWantWrite:
      WaitWritable();
      break;
    case Transport::State::kClosed:
      Close(ConnectionEnd::kPeer);
      break;
  }
  return 0;
}

bool SocketConnection::WriteOut(std::string_view& bytes) {
  while (!bytes.empty()) {
    const iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
    const std::size_t written = Write({&part, 1});
    if (written == 0) return false;
    bytes.remove_prefix(written);
  }
  return true;
}

bool SocketConnection::WriteOut(OutgoingBytes& bytes) {
  while (!bytes.empty()) {
    std::array<iovec, kPartsOfWrite> parts;
    const std::size_t written = Write(std::span(parts).first(bytes.Gather(parts)));
    if (written == 0) return false;
    bytes.Remove(written);
  }
  return true;
}

void SocketConnection::Touch() {
  if (touched_ || !open_) return;
  owner_.Touched(shared_from_this());
  touched_ = true;
}

void SocketConnection::Flush() {
  touched_ = false;
  Guarded([this] {
    if (open_ && !shaking_ && !failed_) OnFlush();
  });
}

void SocketConnection::Tick(Clock::time_point now) {
  Guarded([this, now] {
    if (!open_ || failed_) return;
    if (!shaking_) {
      OnTick(now);
    } else if (now > started_ + kHandshake) {
      Close(ConnectionEnd::kHandshake);
    }
  });
}

void SocketConnection::BeginShutdown() {
  Guarded([this] {
    if (!open_) return;
    if (shaking_) {
      Close(ConnectionEnd::kShutdown);
    } else {
      OnShutdown();
    }
  });
}

void SocketConnection::Close(ConnectionEnd why) {
  if (!open_ || !MayClose()) return;
  const std::shared_ptr<SocketConnection> self = shared_from_this();
  open_ = false;
  // Ends the waits; the transport closes the socket.
  waits_.End();
  OnClosed();
  transport_.reset();
  share_->Give(base_bytes_);
  environment_.stats->Closed(why);
  owner_.Closed(this);
}

}  // namespace memoryd
