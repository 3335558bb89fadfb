// Bytes of a PutRequest through parsing, checking and conversion: whatever comes is refused in
// order or leaves messages and contents that can be stored and sent back.
#include <google/protobuf/arena.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/model/session_config.h"
#include "core/reads/context.h"
#include "core/reads/page.h"
#include "core/writes/incoming.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/reply.h"
#include "server/wire/convert.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"
#include "server/wire/stored_body.h"
#include "tests/fuzz/field_error.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

void CheckStored(const v1::PutRequest& request, const std::vector<IncomingMessage>& messages) {
  Require(messages.size() == static_cast<std::size_t>(request.messages_size()));
  Context context;
  for (const IncomingMessage& incoming : messages) {
    v1::Message body;
    Require(body.ParseFromString(incoming.message.body));
    // Checked once is checked for good: the stored form is its own normal form.
    v1::PutRequest again;
    *again.add_messages() = body;
    const auto converted = FromProto(*again.mutable_messages());
    Require(converted.ok() && converted->front().message.body == incoming.message.body);
    Require(StoredBodyReader().ReadMessage(incoming.message.body).ok());
    context.messages.push_back(incoming.message);
  }
  const auto reply = GetReply(context, [](std::size_t) { return absl::OkStatus(); });
  v1::GetResponse response;
  Require(reply.ok() && response.ParseFromString(*reply));
  Require(response.messages_size() == request.messages_size());
}

void CheckStored(const v1::PutRequest& request, const std::vector<IncomingContent>& contents) {
  Require(contents.size() == static_cast<std::size_t>(request.contents_size()));
  Page page;
  for (const IncomingContent& incoming : contents) {
    v1::Content body;
    Require(body.ParseFromString(incoming.content.body));
    v1::PutRequest again;
    *again.add_contents() = body;
    const auto converted = FromProto(*again.mutable_contents());
    Require(converted.ok() && converted->front().content.body == incoming.content.body);
    Require(StoredBodyReader().ReadContent(incoming.content.body).ok());
    page.contents.push_back(incoming.content);
  }
  v1::GetAllResponse response;
  Require(response.ParseFromString(GetAllReply(page, "")));
  Require(response.contents_size() == request.contents_size());
}

void Run(const std::string& bytes) {
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<v1::PutRequest>(&arena);
  if (!request.ParseFromString(bytes)) return;
  if (const absl::Status status = CheckSessionId(request.session_id()); !status.ok()) {
    RequireNamesField(status);
  }
  if (request.has_config()) {
    const auto settings = FromProto(request.config());
    if (settings.ok() && SessionConfig::Resolve(*settings).ok()) {
      const auto stored = SessionSettings::FromJson(settings->ToJson());
      Require(stored.ok() && *stored == *settings);
    }
  }
  const auto messages = FromProto(*request.mutable_messages());
  if (!messages.ok()) return RequireNamesField(messages.status());
  const auto contents = FromProto(*request.mutable_contents());
  if (!contents.ok()) return RequireNamesField(contents.status());
  const std::string fingerprint = Fingerprint("Put", request);
  Require(fingerprint.size() == 32);
  CheckStored(request, *messages);
  CheckStored(request, *contents);
  // Checking what was checked changes nothing, so a repeated request has the same fingerprint.
  Require(FromProto(*request.mutable_messages()).ok());
  Require(FromProto(*request.mutable_contents()).ok());
  Require(Fingerprint("Put", request) == fingerprint);
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool captured = [] {
    memoryd::CaptureProtobufLog();
    return true;
  }();
  (void)captured;
  memoryd::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
