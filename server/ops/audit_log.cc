#include "server/ops/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/ops/log_line.h"
#include "server/wire/descriptor_writer.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Lines that wait at most, some 400 bytes each.
constexpr std::size_t kQueuedLines = 8192;
constexpr std::chrono::milliseconds kTimeToLeave(500);
constexpr std::chrono::seconds kLookInterval(1);
constexpr mode_t kMode = 0640;

std::string Stamp() {
  std::string stamp;
  AppendUtc(std::chrono::system_clock::now(), stamp);
  return stamp;
}

// What the response says of the change.
template <typename Response>
void AddChange(std::string_view reply, LogLine& line) {
  Response response;
  if (!response.ParseFromArray(reply.data(), static_cast<int>(reply.size()))) return;
  if constexpr (requires { response.revision(); }) {
    line.Number("revision", response.revision());
  } else if constexpr (requires { response.session().revision(); }) {
    line.Number("revision", response.session().revision());
  }
  if constexpr (requires { response.positions(); }) {
    line.Number("messages", response.positions_size());
    if (!response.positions().empty()) {
      line.Number("first_position", *response.positions().begin());
      line.Number("last_position", *response.positions().rbegin());
    }
    line.Number("contents", response.content_ids_size());
  }
  if constexpr (requires { response.purged(); }) {
    line.Number("sessions", response.session_count());
    line.Number("messages", response.message_count());
    line.Number("contents", response.content_count());
    line.Number("blocks", response.block_count());
    line.Number("entries", response.entry_count());
    line.Number("jobs", response.job_count());
    line.Number("replies", response.reply_count());
    line.Plain("purged", response.purged() ? "true" : "false");
    line.Plain("dry_run", response.dry_run() ? "true" : "false");
  }
  if constexpr (requires { response.namespace_count(); }) {
    line.Number("namespaces", response.namespace_count());
    line.Number("items", response.item_count());
  }
  if constexpr (requires { response.namespace_().item_count(); }) {
    line.Number("items", response.namespace_().item_count());
  }
  if constexpr (requires { response.outcomes(); }) {
    line.Number("batches", response.outcomes_size());
    line.Number("failed", std::count_if(response.outcomes().begin(), response.outcomes().end(),
                                        [](const auto& outcome) { return outcome.has_error(); }));
  }
  if constexpr (requires { response.replayed(); }) {
    line.Plain("replayed", response.replayed() ? "true" : "false");
  }
}

void AddChange(Method method, std::string_view reply, LogLine& line) {
  switch (method) {
    case Method::kPut:
      return AddChange<v1::PutResponse>(reply, line);
    case Method::kSet:
      return AddChange<v1::SetResponse>(reply, line);
    case Method::kReset:
      return AddChange<v1::ResetResponse>(reply, line);
    case Method::kUpdateMessage:
      return AddChange<v1::UpdateMessageResponse>(reply, line);
    case Method::kDeleteMessage:
      return AddChange<v1::DeleteMessageResponse>(reply, line);
    case Method::kUpdateContent:
      return AddChange<v1::UpdateContentResponse>(reply, line);
    case Method::kDeleteContent:
      return AddChange<v1::DeleteContentResponse>(reply, line);
    case Method::kCreateSession:
      return AddChange<v1::CreateSessionResponse>(reply, line);
    case Method::kUpdateSession:
      return AddChange<v1::UpdateSessionResponse>(reply, line);
    case Method::kDeleteSession:
      return AddChange<v1::DeleteSessionResponse>(reply, line);
    case Method::kForkSession:
      return AddChange<v1::ForkSessionResponse>(reply, line);
    case Method::kImportSession:
      return AddChange<v1::ImportSessionResponse>(reply, line);
    case Method::kEraseSubject:
      return AddChange<v1::EraseSubjectResponse>(reply, line);
    case Method::kUndoBlockChange:
      return AddChange<v1::UndoBlockChangeResponse>(reply, line);
    case Method::kAddFact:
      return AddChange<v1::AddFactResponse>(reply, line);
    case Method::kUpdateFact:
      return AddChange<v1::UpdateFactResponse>(reply, line);
    case Method::kDeleteFact:
      return AddChange<v1::DeleteFactResponse>(reply, line);
    case Method::kPutItem:
      return AddChange<v1::PutItemResponse>(reply, line);
    case Method::kDeleteItem:
      return AddChange<v1::DeleteItemResponse>(reply, line);
    case Method::kBatchItems:
      return AddChange<v1::BatchItemsResponse>(reply, line);
    case Method::kCopyNamespace:
      return AddChange<v1::CopyNamespaceResponse>(reply, line);
    case Method::kDeleteNamespace:
      return AddChange<v1::DeleteNamespaceResponse>(reply, line);
    case Method::kImportNamespace:
      return AddChange<v1::ImportNamespaceResponse>(reply, line);
    default:
      return;  // Jobs change no session by themselves.
  }
}

std::string LineOf(const AuditRecord& record) {
  LogLine line(/*json=*/true);
  line.Text("ts", Stamp());
  line.Text("method", TraitsOf(record.method).name);
  line.Text("code", absl::StatusCodeToString(record.status.code()));
  if (const std::string reason = ErrorReason(record.status); !reason.empty()) {
    line.Text("reason", reason);
  }
  line.Text("request_id", record.request_id);
  if (!record.trace_id.empty()) line.Text("trace_id", record.trace_id);
  if (!record.tenant.empty()) line.Text("tenant", ShortHash(record.tenant));
  if (!record.principal.empty()) line.Text("principal", record.principal);
  if (!record.session_id.empty()) line.Text("session", ShortHash(record.session_id));
  if (!record.name_space.empty()) line.Text("namespace", ShortHash(record.name_space));
  if (!record.subject.empty()) line.Text("subject", ShortHash(record.subject));
  if (record.status.ok()) AddChange(record.method, record.reply, line);
  std::string text;
  text.reserve(line.text().size() + 3);
  text += '{';
  text += line.text();
  text += "}\n";
  return text;
}

}  // namespace

// Used by the log's one thread alone, but for what is atomic.
class AuditLog::Sink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // An empty path: standard error.
  explicit Sink(std::string path) : path_(std::move(path)), writer_(STDERR_FILENO) {}
  ~Sink() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  // Waits for nobody: a FIFO that nobody reads is an error. Sets errno where it fails.
  bool OpenFile() {
    const int descriptor = ::open(
        path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, kMode);
    if (descriptor < 0) return false;
    struct stat info {};
    if (::fstat(descriptor, &info) == 0 && S_ISBLK(info.st_mode)) {
      ::close(descriptor);
      errno = EINVAL;
      return false;
    }
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = descriptor;
    writer_.set_descriptor(descriptor);
    return true;
  }

  // The pool whose thread uses this; not a shared pointer, since that thread must not be the last
  // to hold it.
  void CountOverruns(spdlog::details::thread_pool* pool) { pool_ = pool; }
  void StopAt(SteadyClock::time_point time) { writer_.StopAt(time); }
  std::uint64_t failed() const { return failed_.load(); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!path_.empty()) FollowPath();
    ReportLost();
    if (!WriteLine({message.payload.data(), message.payload.size()})) ++failed_;
  }
  void flush_() override {}

  bool WriteLine(std::string_view line) {
    // What is left of a line that could not be written whole ends here.
    if (torn_ && !writer_.Write("\n")) return false;
    torn_ = !writer_.Write(line);
    return !torn_;
  }

  // Opens the file anew when another stands at its path by now, or none.
  void FollowPath() {
    const SteadyClock::time_point now = SteadyClock::now();
    if (now < next_look_) return;
    next_look_ = now + kLookInterval;
    struct stat at_path {};
    struct stat open {};
    if (::stat(path_.c_str(), &at_path) == 0 && ::fstat(descriptor_, &open) == 0 &&
        at_path.st_dev == open.st_dev && at_path.st_ino == open.st_ino) {
      return;
    }
    if (OpenFile()) {
      torn_ = false;
    } else {
      spdlog::error("audit_log: {}: {}; the renamed file is written on", path_,
                    std::strerror(errno));
    }
  }

  // Once a second at most. A line of its own in the record, where the gap is.
  void ReportLost() {
    const std::uint64_t lost = failed_.load() + pool_->overrun_counter();
    const SteadyClock::time_point now = SteadyClock::now();
    if (lost == reported_ || now < next_report_) return;
    next_report_ = now + kLookInterval;
    spdlog::error("audit_log: {} lines were lost", lost - reported_);
    if (WriteLine(fmt::format("{{\"ts\":\"{}\",\"lost\":{}}}\n", Stamp(), lost - reported_))) {
      reported_ = lost;
    }
  }

  const std::string path_;
  DescriptorWriter writer_;
  int descriptor_ = -1;
  bool torn_ = false;
  SteadyClock::time_point next_look_{};
  SteadyClock::time_point next_report_{};
  std::uint64_t reported_ = 0;
  std::atomic<std::uint64_t> failed_{0};
  spdlog::details::thread_pool* pool_ = nullptr;
};

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& target) {
  const bool is_file = target != "stderr";
  auto sink = std::make_shared<Sink>(is_file ? target : std::string());
  if (is_file && !sink->OpenFile()) {
    return absl::InvalidArgumentError(fmt::format(
        "audit_log: {}: {}", target,
        errno == ENXIO ? "is a FIFO or device that nobody reads" : std::strerror(errno)));
  }
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(sink)));
}

AuditLog::AuditLog(std::shared_ptr<Sink> sink)
    : pool_(std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1)),
      sink_(std::move(sink)),
      logger_(std::make_shared<spdlog::async_logger>(
          "audit", sink_, pool_, spdlog::async_overflow_policy::overrun_oldest)) {
  sink_->CountOverruns(pool_.get());
  logger_->set_level(spdlog::level::info);
  // spdlog would write to standard error by itself, and wait.
  logger_->set_error_handler([](const std::string&) {});
}

AuditLog::~AuditLog() {
  sink_->StopAt(SteadyClock::now() + kTimeToLeave);
  pool_.reset();  // Joins its thread.
}

void AuditLog::Write(const AuditRecord& record) {
  const std::string line = LineOf(record);
  logger_->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

std::uint64_t AuditLog::lost() const { return pool_->overrun_counter() + sink_->failed(); }

}  // namespace memoryd
