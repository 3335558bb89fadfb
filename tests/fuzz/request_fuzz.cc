// Bytes of the requests that have no target of their own: settings of sessions, all that workers
// say, and those of a few fields. Whatever comes is refused with the field that is wrong, or is
// written so that it is read again the same.
#include <google/protobuf/util/message_differencer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/entry_search.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/workers/worker_call.h"
#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "memoryd/v1/worker_service.pb.h"
#include "server/rpc/parse_request.h"
#include "server/wire/convert.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"
#include "server/wire/filter.h"
#include "server/wire/page_token.h"
#include "server/wire/stored_body.h"
#include "server/wire/worker_codec.h"
#include "tests/fuzz/field_error.h"
#include "tests/fuzz/require.h"
#include "tests/support/fake_models.h"

namespace memoryd {
namespace {

using google::protobuf::util::MessageDifferencer;

// As a call hands it over: malformed bytes are refused as INVALID_ARGUMENT, and the memory taken
// for a message suffices for it.
template <typename Request>
bool Read(std::string_view bytes, Request& request) {
  const auto bound = ParsedBytes(bytes, *Request::descriptor());
  Require(bound.ok() || absl::IsInvalidArgument(bound.status()));
  const absl::Status status = Parse(bytes, request);
  Require(status.ok() || absl::IsInvalidArgument(status));
  // A string that is cut short may have been reserved whole.
  if (bound.ok() && status.ok()) {
    Require(*bound >= static_cast<std::int64_t>(request.SpaceUsedLong()));
  }
  return status.ok();
}

// Blocks are made and never asked.
class NoEntries final : public EntrySearch {
 public:
  absl::StatusOr<std::vector<EntryHit>> Nearest(const EntryQuery& /*query*/) override {
    return std::vector<EntryHit>();
  }
};

void RunConfig(std::string_view bytes) {
  v1::CreateSessionRequest request;
  if (!Read(bytes, request)) return;
  if (const absl::Status status = CheckSessionId(request.session_id()); !status.ok()) {
    RequireNamesField(status);
  }
  const auto settings = FromProto(request.config());
  if (!settings.ok()) return RequireNamesField(settings.status());
  const auto config = SessionConfig::Resolve(*settings);
  if (!config.ok()) return RequireNamesField(config.status());
  const auto stored = SessionSettings::FromJson(settings->ToJson());
  Require(stored.ok() && *stored == *settings);
  static const StoredBodyReader bodies;
  static FakeModels models;
  static NoEntries entries;
  BlockEnvironment environment;
  environment.models = &models;
  environment.bodies = &bodies;
  environment.entries = &entries;
  const auto blocks = MakeBlocks(config->blocks, config->counting.profile, environment);
  if (!blocks.ok()) return RequireNamesField(blocks.status());
  Require(blocks->size() == config->blocks.size());
  // What GetSession says may be sent back, and is the same configuration.
  const v1::SessionConfig said = ToProto(*config);
  const auto again = FromProto(said);
  Require(again.ok());
  const auto resolved = SessionConfig::Resolve(*again);
  Require(resolved.ok() && MessageDifferencer::Equals(ToProto(*resolved), said));
}

// What every method does with a request of a few fields.
template <typename Request>
void RunPlain(std::string_view bytes) {
  Request request;
  if (!Read(bytes, request)) return;
  if constexpr (requires { request.session_id(); }) {
    if (const absl::Status status = CheckSessionId(request.session_id()); !status.ok()) {
      RequireNamesField(status);
    }
  }
  if constexpr (requires { request.request_id(); }) {
    if (const absl::Status status = CheckId("request_id", request.request_id(), kMaxIdBytes);
        !status.ok()) {
      RequireNamesField(status);
    }
  }
  if constexpr (requires { request.job_id(); }) {
    const auto key = ParseJobId({"default", request.session_id()}, request.job_id());
    Require(!key.has_value() || JobId(*key) == request.job_id());
  }
  if constexpr (requires { request.page_token(); }) {
    // Nobody guesses the checksum.
    const auto position = DecodePageToken("GetAll", request.page_token());
    if (!position.ok()) RequireNamesField(position.status());
  }
  if constexpr (requires { request.filter(); }) {
    if (const auto filter = FromProto(request.filter()); !filter.ok()) {
      RequireNamesField(filter.status());
    }
  }
  // Repeated under the same request_id it is the same request.
  Request again;
  Require(again.ParseFromString(request.SerializeAsString()));
  Require(Fingerprint("Method", again) == Fingerprint("Method", request));
}

void RunHello(const v1::WorkerHello& hello) {
  const auto offer = FromProto(hello);
  if (!offer.ok()) return RequireNamesField(offer.status());
  Require(offer->max_concurrent_calls >= 1 && offer->max_concurrent_calls <= kMaxWorkerCalls);
  Require(offer->blocks.size() == static_cast<std::size_t>(hello.blocks_size()));
}

// What a worker said goes back to it as that which it has to truncate.
void RequireSaidAgain(const BlockContent& content) {
  WorkerCall call;
  call.deadline = std::chrono::steady_clock::time_point::max();
  call.request = WorkerTruncate{content, 1, "{}"};
  v1::AttachResponse response;
  Require(response.ParseFromString(EncodeCall(1, call, {})));
  const v1::WorkerContent& said = response.call().truncate().content();
  Require(static_cast<std::size_t>(said.parts_size()) == content.parts.size());
  Require(static_cast<std::size_t>(said.messages_size()) == content.messages.size());
  v1::WorkerResult result;
  *result.mutable_content() = said;
  const auto again = FromProto(result);
  Require(again.ok() && std::get<BlockContent>(again->result).parts == content.parts);
}

void RunResult(v1::WorkerResult& result) {
  const auto reply = FromProto(result);
  if (!reply.ok()) {
    const std::string reason = ErrorReason(reply.status());
    Require(reason == "WORKER_ANSWER" || reason == "WORKER_FAILED");
    Require(!absl::IsInvalidArgument(reply.status()));
    Require(!reply.status().message().empty());
    return;
  }
  Require(reply->usage.calls >= 0 && reply->usage.prompt_tokens >= 0 &&
          reply->usage.completion_tokens >= 0);
  if (const auto* content = std::get_if<BlockContent>(&reply->result)) RequireSaidAgain(*content);
}

void RunWorker(std::string_view bytes) {
  v1::AttachRequest request;
  if (!Read(bytes, request)) return;
  if (request.has_hello()) RunHello(request.hello());
  if (request.has_result()) RunResult(*request.mutable_result());
}

}  // namespace
}  // namespace memoryd

// The first byte chooses the request.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool captured = [] {
    memoryd::CaptureProtobufLog();
    return true;
  }();
  (void)captured;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  using Run = void (*)(std::string_view);
  static constexpr Run kRuns[] = {
      memoryd::RunConfig,
      memoryd::RunPlain<memoryd::v1::GetJobRequest>,
      memoryd::RunWorker,
      memoryd::RunPlain<memoryd::v1::GetRequest>,
      memoryd::RunPlain<memoryd::v1::GetAllRequest>,
      memoryd::RunPlain<memoryd::v1::ResetRequest>,
      memoryd::RunPlain<memoryd::v1::ListSessionsRequest>,
      memoryd::RunPlain<memoryd::v1::UpdateSessionRequest>,
      memoryd::RunPlain<memoryd::v1::DeleteSessionRequest>,
      memoryd::RunPlain<memoryd::v1::ForkSessionRequest>,
      memoryd::RunPlain<memoryd::v1::EraseSubjectRequest>,
      memoryd::RunPlain<memoryd::v1::ListJobsRequest>,
      memoryd::RunPlain<memoryd::v1::ListBlockEntriesRequest>,
      memoryd::RunPlain<memoryd::v1::UndoBlockChangeRequest>,
      memoryd::RunPlain<memoryd::v1::UpdateContentRequest>,
      memoryd::RunPlain<memoryd::v1::AddFactRequest>,
      memoryd::RunPlain<memoryd::v1::WatchSessionRequest>,
  };
  kRuns[data[0] % std::size(kRuns)](bytes);
  return 0;
}
