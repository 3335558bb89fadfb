#include "server/ops/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "server/ops/log_line.h"
#include "server/wire/descriptor_writer.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
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

// Fields of a reply by their names, which replies share.
class ReplyFields {
 public:
  explicit ReplyFields(const Message& reply) : reply_(reply) {}

  bool HasNumber(const std::string& name) const {
    return HasOne(name, FieldDescriptor::CPPTYPE_INT64);
  }
  bool HasFlag(const std::string& name) const {
    return HasOne(name, FieldDescriptor::CPPTYPE_BOOL);
  }
  bool IsRepeated(const std::string& name) const {
    const FieldDescriptor* const field = Find(name);
    return field != nullptr && field->is_repeated();
  }
  // A message's; an empty one where it is not set.
  std::optional<ReplyFields> Of(const std::string& name) const {
    if (!HasOne(name, FieldDescriptor::CPPTYPE_MESSAGE)) return std::nullopt;
    return ReplyFields(reply_.GetReflection()->GetMessage(reply_, Find(name)));
  }
  std::int64_t Number(const std::string& name) const {
    return reply_.GetReflection()->GetInt64(reply_, Find(name));
  }
  bool Flag(const std::string& name) const {
    return reply_.GetReflection()->GetBool(reply_, Find(name));
  }
  bool IsSet(const std::string& name) const {
    return reply_.GetReflection()->HasField(reply_, Find(name));
  }
  int Count(const std::string& name) const {
    return reply_.GetReflection()->FieldSize(reply_, Find(name));
  }
  std::int64_t NumberAt(const std::string& name, int index) const {
    return reply_.GetReflection()->GetRepeatedInt64(reply_, Find(name), index);
  }
  ReplyFields At(const std::string& name, int index) const {
    return ReplyFields(reply_.GetReflection()->GetRepeatedMessage(reply_, Find(name), index));
  }

 private:
  const FieldDescriptor* Find(const std::string& name) const {
    return reply_.GetDescriptor()->FindFieldByName(name);
  }
  bool HasOne(const std::string& name, FieldDescriptor::CppType type) const {
    const FieldDescriptor* const field = Find(name);
    return field != nullptr && !field->is_repeated() && field->cpp_type() == type;
  }

  const Message& reply_;
};

void AddNumber(const ReplyFields& reply, const std::string& field, std::string_view name,
               LogLine& line) {
  if (reply.HasNumber(field)) line.Number(name, reply.Number(field));
}

void AddFlag(const ReplyFields& reply, const std::string& field, LogLine& line) {
  if (reply.HasFlag(field)) line.Plain(field, reply.Flag(field) ? "true" : "false");
}

void AddStored(const ReplyFields& reply, LogLine& line) {
  const int messages = reply.Count("positions");
  line.Number("messages", messages);
  if (messages > 0) {
    line.Number("first_position", reply.NumberAt("positions", 0));
    line.Number("last_position", reply.NumberAt("positions", messages - 1));
  }
  line.Number("contents", reply.Count("content_ids"));
}

void AddErased(const ReplyFields& reply, LogLine& line) {
  for (const auto& [field, name] : {std::pair{"session_count", "sessions"},
                                    {"message_count", "messages"},
                                    {"content_count", "contents"},
                                    {"block_count", "blocks"},
                                    {"entry_count", "entries"},
                                    {"job_count", "jobs"},
                                    {"reply_count", "replies"}}) {
    AddNumber(reply, field, name, line);
  }
  AddFlag(reply, "purged", line);
  AddFlag(reply, "dry_run", line);
}

void AddOutcomes(const ReplyFields& reply, std::string_view of, LogLine& line) {
  const int outcomes = reply.Count("outcomes");
  int failed = 0;
  for (int i = 0; i < outcomes; ++i) failed += reply.At("outcomes", i).IsSet("error") ? 1 : 0;
  line.Number(of, outcomes);
  line.Number("failed", failed);
}

// What a reply says of the change. It is read by the names of its fields, so that the reply of a
// new method is read too.
void AddChange(Method method, const ReplyFields& reply, LogLine& line) {
  AddNumber(reply, "revision", "revision", line);
  if (const auto session = reply.Of("session")) AddNumber(*session, "revision", "revision", line);
  if (reply.IsRepeated("positions")) AddStored(reply, line);
  if (reply.HasFlag("purged")) AddErased(reply, line);
  AddNumber(reply, "namespace_count", "namespaces", line);
  if (const auto name_space = reply.Of("namespace")) {
    AddNumber(*name_space, "item_count", "items", line);
  }
  AddNumber(reply, "item_count", "items", line);
  if (reply.IsRepeated("outcomes")) {
    AddOutcomes(reply, method == Method::kPutBatch ? "puts" : "batches", line);
  }
  AddFlag(reply, "replayed", line);
}

// An empty reply of the method.
const Message& ReplyOf(Method method) {
  static const auto* const replies = [] {
    auto* const found = new std::array<const Message*, kMethods.size()>();
    for (const MethodTraits& traits : kMethods) {
      const google::protobuf::MethodDescriptor* const descriptor =
          google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
              fmt::format("{}.{}", ServiceOf(traits), traits.name));
      (*found)[static_cast<std::size_t>(traits.method)] =
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(
              descriptor->output_type());
    }
    return found;
  }();
  return *(*replies)[static_cast<std::size_t>(method)];
}

void AddChange(Method method, std::string_view reply, LogLine& line) {
  const std::unique_ptr<Message> parsed(ReplyOf(method).New());
  if (parsed->ParseFromArray(reply.data(), static_cast<int>(reply.size()))) {
    AddChange(method, ReplyFields(*parsed), line);
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
