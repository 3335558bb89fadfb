#include "cli/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "cli/export_file.h"
#include "cli/export_lines.h"
#include "cli/pages.h"
#include "cli/progress.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/memory_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using std::chrono::milliseconds;

// Tries in a row that bring nothing.
constexpr int kAttempts = 6;
constexpr milliseconds kFirstPause(200);
constexpr milliseconds kLongestPause(30'000);

struct Arguments {
  std::vector<std::string> session_ids;
  bool all = false;
  std::string output;
};

// Whether what failed is to be tried again; waits before it says so. What has never worked is not.
class Attempts {
 public:
  void Progressed() {
    worked_ = true;
    failed_ = 0;
  }

  bool TryAgain(const absl::Status& status) {
    if (!worked_ || ExitCodeOf(status) != kNotAnswered || ++failed_ >= kAttempts) return false;
    milliseconds pause = kFirstPause * (1 << failed_) / 2;
    for (const auto& [name, value] : ErrorDetails(status)) {
      std::int64_t asked = 0;
      if (name == kRetryAfterMs && absl::SimpleAtoi(value, &asked)) pause = milliseconds(asked);
    }
    std::this_thread::sleep_for(std::clamp(pause, milliseconds(0), kLongestPause));
    return true;
  }

 private:
  bool worked_ = false;
  int failed_ = 0;
};

class Exporter {
 public:
  // `tells`: whether it shows how far it has come.
  Exporter(Connection& connection, ExportFile& file, bool tells)
      : connection_(connection), file_(file), tells_(tells) {}

  absl::Status Begin() {
    return file_.Write(fmt::format(R"({{"memoryd_export":{}}})", kExportFormat));
  }

  absl::Status ExportAll() {
    v1::ListSessionsRequest request;
    request.set_page_size(kPageSize);
    do {
      MEMORYD_ASSIGN_OR_RETURN(const auto page,
                               Call(&v1::SessionService::Stub::ListSessions, request));
      for (const v1::Session& session : page.sessions()) {
        const absl::Status status = Export(session.session_id());
        // Deleted since it was listed.
        if (!absl::IsNotFound(status)) MEMORYD_RETURN_IF_ERROR(status);
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return absl::OkStatus();
  }

  absl::Status Export(const std::string& session_id) {
    v1::GetSessionRequest request;
    request.set_session_id(session_id);
    auto response = Call(&v1::SessionService::Stub::GetSession, request);
    if (!response.ok()) return InContext(session_id, response.status());
    MEMORYD_RETURN_IF_ERROR(WriteSession(response->session()));
    ++sessions_;
    if (const absl::Status status = Stream(response->session()); !status.ok()) {
      return InContext(session_id, status);
    }
    return absl::OkStatus();
  }

  absl::Status End() { return file_.Write(fmt::format(R"({{"end":{}}})", Counts())); }

  // A JSON object.
  std::string Counts() const {
    return fmt::format(R"({{"sessions":{},"messages":{},"contents":{}}})", sessions_, messages_,
                       contents_);
  }

  std::string CountsForPeople() const {
    return fmt::format("{} sessions, {} messages, {} contents, {:.1f} MiB", sessions_, messages_,
                       contents_, static_cast<double>(file_.bytes()) / (1 << 20));
  }

 private:
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    while (true) {
      absl::StatusOr<Response> response = connection_.Call(method, request);
      if (response.ok()) Progressed();
      if (response.ok() || !attempts_.TryAgain(response.status())) return response;
    }
  }

  // A server that was there may come back.
  void Progressed() {
    attempts_.Progressed();
    connection_.WaitForServer(true);
  }

  absl::Status Write(std::string_view name, const google::protobuf::Message& message) {
    MEMORYD_ASSIGN_OR_RETURN(const std::string json, ToJson(message));
    return file_.Write(fmt::format("{{\"{}\":{}}}", name, json));
  }

  // What a copy has too: not what this store alone knows, nor counts that the lines show.
  absl::Status WriteSession(const v1::Session& session) {
    v1::Session told;
    told.set_session_id(session.session_id());
    *told.mutable_config() = session.config();
    told.set_template_(session.template_());
    *told.mutable_create_time() = session.create_time();
    return Write("session", told);
  }

  absl::Status WritePage(const v1::Session& session, const v1::StreamAllResponse& page) {
    for (const v1::Message& message : page.messages()) {
      MEMORYD_RETURN_IF_ERROR(Write("message", message));
    }
    for (const v1::Content& content : page.contents()) {
      MEMORYD_RETURN_IF_ERROR(Write("content", content));
    }
    messages_ += page.messages_size();
    contents_ += page.contents_size();
    of_session_ += page.messages_size() + page.contents_size();
    if (!tells_) return absl::OkStatus();
    progress_.Show([&] {
      const std::int64_t total =
          session.active_count() + session.archived_count() + session.content_count();
      const std::int64_t share =
          std::min<std::int64_t>(of_session_ * 100 / std::max(total, 1L), 100);
      return fmt::format("{}; {} % of {}", CountsForPeople(), share, session.session_id());
    });
    return absl::OkStatus();
  }

  absl::Status Stream(const v1::Session& session) {
    of_session_ = 0;
    v1::StreamAllRequest request;
    request.set_session_id(session.session_id());
    request.set_include_contents(true);
    while (true) {
      bool last = false;
      absl::Status unwritten;
      absl::Status status = connection_.StreamAll(request, [&](const v1::StreamAllResponse& page) {
        unwritten = WritePage(session, page);
        MEMORYD_RETURN_IF_ERROR(unwritten);
        Progressed();
        request.set_page_token(page.next_page_token());
        last = page.next_page_token().empty();
        return absl::OkStatus();
      });
      MEMORYD_RETURN_IF_ERROR(unwritten);
      if (last) return absl::OkStatus();
      if (status.ok()) status = absl::UnavailableError("the stream ended before its last page");
      if (!attempts_.TryAgain(status)) return status;
    }
  }

  Connection& connection_;
  ExportFile& file_;
  const bool tells_;
  Progress progress_;
  Attempts attempts_;
  std::int64_t sessions_ = 0;
  std::int64_t messages_ = 0;
  std::int64_t contents_ = 0;
  std::int64_t of_session_ = 0;
};

absl::Status Export(Connection& connection, Printer& printer, const Arguments& arguments) {
  if (arguments.all != arguments.session_ids.empty()) {
    return absl::InvalidArgumentError("export: needs ids of sessions, or --all without any");
  }
  if (std::set(arguments.session_ids.begin(), arguments.session_ids.end()).size() !=
      arguments.session_ids.size()) {
    return absl::InvalidArgumentError("export: an id is given twice");
  }
  MEMORYD_ASSIGN_OR_RETURN(const auto file, ExportFile::Create(arguments.output));
  std::string counts;
  {
    // Lines that go to the terminal tell enough themselves.
    Exporter exporter(connection, *file, !arguments.output.empty() || printer.width() == 0);
    MEMORYD_RETURN_IF_ERROR(exporter.Begin());
    if (arguments.all) MEMORYD_RETURN_IF_ERROR(exporter.ExportAll());
    for (const std::string& session_id : arguments.session_ids) {
      MEMORYD_RETURN_IF_ERROR(exporter.Export(session_id));
    }
    MEMORYD_RETURN_IF_ERROR(exporter.End());
    counts = printer.json() ? exporter.Counts() : exporter.CountsForPeople();
  }
  MEMORYD_RETURN_IF_ERROR(file->Keep());
  if (!arguments.output.empty()) printer.Print(counts + "\n");
  return absl::OkStatus();
}

}  // namespace

void AddExport(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command = AddCommand(app, "export", "Writes sessions as JSON lines: docs/EXPORT.md.",
                                 invocation, [arguments](Connection& connection, Printer& printer) {
                                   return Export(connection, printer, *arguments);
                                 });
  command.add_option("SESSION", arguments->session_ids, "Ids of the sessions.");
  command.add_flag("--all", arguments->all, "All sessions of the tenant.");
  command
      .add_option("--output", arguments->output,
                  "File to write, replaced when the export is complete; none: standard output.")
      ->type_name(kFile);
}

}  // namespace memoryd::cli
