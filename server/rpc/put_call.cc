#include "server/rpc/put_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"
#include "server/rpc/reply.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/settings/limits.h"
#include "server/wire/convert.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"
#include "server/wire/rpc_status.h"
#include "server/wire/wire_writer.h"

namespace memoryd {
namespace {

constexpr int kMaxPuts = 1000;
// No Put begins in the last time before the deadline: so much, at most three quarters of what there
// was. A Put that begins earlier is answered in time even if the store stalls, and so is the batch.
constexpr std::chrono::milliseconds kLastBegin(480);

using BatchCall = std::shared_ptr<ParsedCall<v1::PutBatchRequest>>;

// `status` of the Put of this index, with its field named within the batch.
absl::Status OfPut(const absl::Status& status, std::size_t index) {
  ErrorValues values = ErrorDetails(status);
  auto message = std::string(status.message());
  const std::string place = fmt::format("puts[{}].", index);
  for (auto& [name, value] : values) {
    if (name != "field") continue;
    if (message.compare(0, value.size(), value) == 0) message.insert(0, place);
    value.insert(0, place);
  }
  return Error(status.code(), ErrorReason(status), message, std::move(values));
}

// Lives until the last of its Puts has ended.
class PutBatch : public std::enable_shared_from_this<PutBatch> {
 public:
  PutBatch(Engine* engine, const CallEnvironment& environment, BatchCall call)
      : engine_(*engine),
        environment_(environment),
        call_(std::move(call)),
        puts_(static_cast<std::size_t>(call_->request().puts_size())),
        begin_until_(BeginUntil(call_->deadline())),
        left_(puts_.size() + 1) {}

  void Start() {
    std::unordered_map<std::string_view, std::size_t> last;
    std::vector<std::size_t> first;
    for (std::size_t i = 0; i < puts_.size(); ++i) {
      const auto [before, is_first] = last.try_emplace(RequestOf(i).session_id(), i);
      if (is_first) {
        first.push_back(i);
      } else {
        puts_[std::exchange(before->second, i)].next = i;
      }
    }
    for (const std::size_t i : first) Run(i);
    // One more than there are Puts, so that none ends the call before all have begun.
    Leave();
  }

 private:
  static constexpr auto kNone = static_cast<std::size_t>(-1);

  struct Put {
    std::size_t next = kNone;  // Of the same session.
    // That it has begun, or has ended: who comes second goes on with the next one.
    std::atomic<bool> passed{false};
    std::string outcome;  // A v1.PutOutcome.
  };

  // What carries a Put: the call of the whole batch, but for the reply, which goes into the
  // outcomes.
  class Part final : public RpcCall {
   public:
    Part(std::shared_ptr<PutBatch> batch, std::size_t index)
        : batch_(std::move(batch)), index_(index) {}

    const CallMetadata& metadata() const override { return batch_->call_->metadata(); }
    const std::vector<std::string>& certificate_names() const override { return nobody_; }
    TimePoint deadline() const override { return batch_->call_->deadline(); }
    bool IsCancelled() const override { return batch_->call_->IsCancelled(); }

    // The whole call has been read, and holds its memory.
    void SetHandler(std::shared_ptr<RpcHandler> /*handler*/) override {}
    absl::Status ChargeTo(std::string_view /*tenant*/) override { return absl::OkStatus(); }
    void Read() override {}
    absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse /*use*/, std::int64_t /*bytes*/) override {
      return MemoryBudget::Hold();
    }
    void Send(std::string /*message*/, MemoryBudget::Hold /*hold*/) override {}
    void Cancel() override {}

    void SendLast(std::string message, MemoryBudget::Hold /*hold*/) override {
      std::string outcome;
      AppendBytes(outcome, v1::PutOutcome::kReplyFieldNumber, message);
      batch_->End(index_, std::move(outcome));
    }
    void Finish(const absl::Status& status, std::string_view /*request_id*/) override {
      v1::PutOutcome outcome;
      const absl::Status shown = OfPut(status, index_);
      FillError(shown, *outcome.mutable_error());
      for (auto& [name, value] : ErrorDetails(shown)) {
        (*outcome.mutable_error()->mutable_metadata())[name] = std::move(value);
      }
      batch_->End(index_, outcome.SerializeAsString());
    }

   private:
    const std::shared_ptr<PutBatch> batch_;
    const std::size_t index_;
    const std::vector<std::string> nobody_;
  };

  static RpcCall::TimePoint BeginUntil(RpcCall::TimePoint deadline) {
    const auto left = deadline - std::chrono::steady_clock::now();
    return deadline - std::min<std::chrono::steady_clock::duration>(kLastBegin, left * 3 / 4);
  }

  v1::PutRequest& RequestOf(std::size_t i) {
    return *call_->mutable_request().mutable_puts(static_cast<int>(i));
  }

  // Begins the Put, and those behind it for as long as each ends at once.
  void Run(std::size_t i) {
    for (; i != kNone; i = puts_[i].next) {
      Begin(i);
      if (!puts_[i].passed.exchange(true)) return;
    }
  }

  void Begin(std::size_t i) {
    const auto handler = [this](const std::shared_ptr<ParsedCall<v1::PutRequest>>& put) {
      return RunPut(engine_, put);
    };
    const auto put = std::make_shared<HandledCall<v1::PutRequest, decltype(handler)>>(
        environment_, Method::kPut, std::make_shared<Part>(shared_from_this(), i), handler,
        RequestOf(i));
    // The call itself has taken a turn.
    absl::Status status = put->AdmitPart(*call_, /*takes_turn=*/i > 0);
    if (status.ok() && std::chrono::steady_clock::now() > begin_until_) {
      status = absl::DeadlineExceededError("the time of the batch is over; nothing was started");
    }
    if (status.ok()) status = put->Handle();
    if (!status.ok()) put->Fail(status);
  }

  // Puts may end on several threads at once.
  void End(std::size_t i, std::string outcome) {
    puts_[i].outcome = std::move(outcome);
    if (puts_[i].passed.exchange(true)) Run(puts_[i].next);
    Leave();
  }

  void Leave() {
    if (left_.fetch_sub(1) != 1) return;
    std::size_t bytes = 0;
    for (const Put& put : puts_) bytes += put.outcome.size() + kFrameBytes;
    std::string reply;
    reply.reserve(bytes);
    for (const Put& put : puts_) {
      AppendBytes(reply, v1::PutBatchResponse::kOutcomesFieldNumber, put.outcome);
    }
    // What was written is written, whether there is room to say so or not.
    call_->Succeed(std::move(reply));
  }

  // The most of a field's number and length.
  static constexpr std::size_t kFrameBytes = 6;

  Engine& engine_;
  const CallEnvironment environment_;
  const BatchCall call_;
  std::vector<Put> puts_;
  const RpcCall::TimePoint begin_until_;
  std::atomic<std::size_t> left_;
};

absl::Status SetWait(v1::PutRequest& request, WriteRequest& write) {
  if (request.has_wait()) {
    if (request.wait().seconds() < 0 || request.wait().nanos() < 0) {
      return InvalidField("wait", "must not be negative");
    }
    const std::chrono::nanoseconds wait =
        std::min<std::chrono::nanoseconds>(
            kMaxDeadline, std::chrono::seconds(std::min<std::int64_t>(request.wait().seconds(),
                                                                      kMaxDeadline.count()))) +
        std::chrono::nanoseconds(request.wait().nanos());
    write.wait_until = std::chrono::steady_clock::now() + wait;
  }
  request.clear_wait();
  write.with_open_jobs = &WithOpenJobs;
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPut(Engine& engine, const std::shared_ptr<ParsedCall<v1::PutRequest>>& call) {
  v1::PutRequest& request = call->mutable_request();
  WriteRequest write;
  auto& put = write.command.emplace<commands::Put>();
  put.items.keep_alive = call;
  write.encode_reply = &PutReply;
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
  const Provenance from = ProvenanceOf(call->caller());
  MEMORYD_ASSIGN_OR_RETURN(put.items.messages, FromProto(*request.mutable_messages(), from));
  MEMORYD_RETURN_IF_ERROR(CheckRoles(call->caller(), put.items.messages));
  MEMORYD_ASSIGN_OR_RETURN(put.items.contents, FromProto(*request.mutable_contents(), from));
  MEMORYD_RETURN_IF_ERROR(TakeConfig(request, put.config));
  MEMORYD_RETURN_IF_ERROR(SetWait(request, write));
  MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
  SubmitWrite(engine, call, std::move(write), v1::PutResponse::kReplayedFieldNumber);
  return absl::OkStatus();
}

absl::Status RunPutBatch(Engine& engine, const CallEnvironment& environment,
                         const BatchCall& call) {
  const v1::PutBatchRequest& request = call->request();
  if (request.puts_size() > kMaxPuts) {
    return InvalidField("puts",
                        fmt::format("must be at most {}; got {}", kMaxPuts, request.puts_size()));
  }
  std::size_t rows = 0;
  for (const v1::PutRequest& put : request.puts()) {
    rows += static_cast<std::size_t>(put.messages_size() + put.contents_size());
  }
  MEMORYD_RETURN_IF_ERROR(call->TakeMore(DecodedBytes(rows)));
  std::make_shared<PutBatch>(&engine, environment, call)->Start();
  return absl::OkStatus();
}

}  // namespace memoryd
