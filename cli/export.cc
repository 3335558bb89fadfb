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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/export_file.h"
#include "cli/export_lines.h"
#include "cli/namespace_text.h"
#include "cli/pages.h"
#include "cli/printer.h"
#include "cli/progress.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/item_service.grpc.pb.h"
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
  std::string name_space;
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

  // `format`: what ends up in it beside sessions.
  absl::Status Begin(int format) {
    format_ = format;
    return file_.Write(fmt::format(R"({{"memoryd_export":{}}})", format_));
  }

  // The format of an export of all. What is made later than this is no part of it.
  absl::StatusOr<int> FormatOfAll() {
    v1::ListNamespacesRequest request;
    request.set_include_empty(true);
    request.set_page_size(1);
    do {
      MEMORYD_ASSIGN_OR_RETURN(const auto page,
                               Call(&v1::ItemService::Stub::ListNamespaces, request));
      if (page.namespaces_size() > 0) return kNamespacesFormat;
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return kSessionsFormat;
  }

  absl::Status ExportAllSessions() {
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
    ++counts_.sessions;
    if (const absl::Status status = Stream(response->session()); !status.ok()) {
      return InContext(session_id, status);
    }
    return absl::OkStatus();
  }

  // The namespaces whose paths begin with `prefix`, by path.
  absl::Status ExportNamespaces(const std::vector<std::string>& prefix) {
    v1::ListNamespacesRequest request;
    request.set_include_empty(true);
    request.set_page_size(kPageSize);
    if (!prefix.empty()) {
      request.add_matches()->mutable_names()->Add(prefix.begin(), prefix.end());
    }
    do {
      MEMORYD_ASSIGN_OR_RETURN(const auto page,
                               Call(&v1::ItemService::Stub::ListNamespaces, request));
      for (const v1::Namespace& one : page.namespaces()) {
        const std::string name = NamespaceText(one.namespace_());
        const absl::Status status = ExportNamespace(one, name);
        // Deleted since it was listed.
        if (status.ok() || absl::IsNotFound(status)) continue;
        return InContext(name, status);
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return absl::OkStatus();
  }

  absl::Status End() {
    return file_.Write(fmt::format(R"({{"end":{{{}}}}})", counts_.ToJsonFields(format_)));
  }

  const ExportCounts& counts() const { return counts_; }

  // A JSON object.
  std::string Counts() const { return fmt::format("{{{}}}", counts_.ToJsonFields(format_)); }

  std::string CountsForPeople() const {
    return fmt::format("{}, {:.1f} MiB", counts_.ForPeople(),
                       static_cast<double>(file_.bytes()) / (1 << 20));
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
    MEMORYD_ASSIGN_OR_RETURN(std::string json, ToJson(message));
    return file_.Write(fmt::format("{{\"{}\":{}}}", name, WithSignedZeros(std::move(json))));
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
    counts_.messages += page.messages_size();
    counts_.contents += page.contents_size();
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

  // As WriteSession().
  absl::Status WriteNamespace(const v1::Namespace& one) {
    v1::Namespace told;
    *told.mutable_namespace_() = one.namespace_();
    *told.mutable_config() = one.config();
    *told.mutable_create_time() = one.create_time();
    return Write("namespace", told);
  }

  absl::Status WriteItems(v1::ListItemsResponse& page) {
    for (v1::Item& item : *page.mutable_items()) {
      item.clear_namespace_();
      item.clear_version();
      MEMORYD_RETURN_IF_ERROR(Write("item", item));
    }
    counts_.items += page.items_size();
    return absl::OkStatus();
  }

  absl::Status ExportNamespace(const v1::Namespace& listed, const std::string& name) {
    v1::GetNamespaceRequest get;
    *get.mutable_namespace_() = listed.namespace_();
    MEMORYD_ASSIGN_OR_RETURN(const auto response, Call(&v1::ItemService::Stub::GetNamespace, get));
    MEMORYD_RETURN_IF_ERROR(WriteNamespace(response.namespace_()));
    ++counts_.namespaces;
    const std::int64_t before = counts_.items;
    v1::ListItemsRequest request;
    *request.mutable_namespace_() = listed.namespace_();
    request.set_order(v1::ITEM_ORDER_OLDEST_FIRST);
    request.set_page_size(kPageSize);
    request.set_with_vectors(true);
    request.set_refresh_ttl(false);
    do {
      MEMORYD_ASSIGN_OR_RETURN(auto page, Call(&v1::ItemService::Stub::ListItems, request));
      MEMORYD_RETURN_IF_ERROR(WriteItems(page));
      if (tells_) {
        progress_.Show([&] {
          const std::int64_t total = std::max(response.namespace_().item_count(), 1L);
          const std::int64_t share = std::min((counts_.items - before) * 100 / total, 100L);
          return fmt::format("{}; {} % of {}", CountsForPeople(), share, name);
        });
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return absl::OkStatus();
  }

  Connection& connection_;
  ExportFile& file_;
  const bool tells_;
  int format_ = kSessionsFormat;
  Progress progress_;
  Attempts attempts_;
  ExportCounts counts_;
  std::int64_t of_session_ = 0;
};

absl::Status Check(const Arguments& arguments) {
  const bool chooses = !arguments.session_ids.empty() || !arguments.name_space.empty();
  if (arguments.all == chooses) {
    return absl::InvalidArgumentError(
        "export: needs ids of sessions, --namespace or both, or --all without any");
  }
  if (std::set(arguments.session_ids.begin(), arguments.session_ids.end()).size() !=
      arguments.session_ids.size()) {
    return absl::InvalidArgumentError("export: an id is given twice");
  }
  return absl::OkStatus();
}

absl::Status ExportAll(Exporter& exporter) {
  MEMORYD_ASSIGN_OR_RETURN(const int format, exporter.FormatOfAll());
  MEMORYD_RETURN_IF_ERROR(exporter.Begin(format));
  MEMORYD_RETURN_IF_ERROR(exporter.ExportAllSessions());
  return format == kNamespacesFormat ? exporter.ExportNamespaces({}) : absl::OkStatus();
}

absl::Status ExportChosen(Exporter& exporter, const Arguments& arguments) {
  std::vector<std::string> prefix;
  if (!arguments.name_space.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(prefix, ParseNamespace(arguments.name_space));
  }
  MEMORYD_RETURN_IF_ERROR(exporter.Begin(prefix.empty() ? kSessionsFormat : kNamespacesFormat));
  for (const std::string& session_id : arguments.session_ids) {
    MEMORYD_RETURN_IF_ERROR(exporter.Export(session_id));
  }
  if (prefix.empty()) return absl::OkStatus();
  MEMORYD_RETURN_IF_ERROR(exporter.ExportNamespaces(prefix));
  if (exporter.counts().namespaces > 0) return absl::OkStatus();
  return absl::NotFoundError(
      fmt::format("--namespace: there is no {}, and none below it", arguments.name_space));
}

absl::Status Export(Connection& connection, Printer& printer, const Arguments& arguments) {
  MEMORYD_RETURN_IF_ERROR(Check(arguments));
  MEMORYD_ASSIGN_OR_RETURN(const auto file, ExportFile::Create(arguments.output));
  std::string counts;
  {
    // Lines that go to the terminal tell enough themselves.
    Exporter exporter(connection, *file, !arguments.output.empty() || printer.width() == 0);
    MEMORYD_RETURN_IF_ERROR(arguments.all ? ExportAll(exporter)
                                          : ExportChosen(exporter, arguments));
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
  CLI::App& command =
      AddCommand(app, "export", "Writes sessions and items as JSON lines: docs/EXPORT.md.",
                 invocation, [arguments](Connection& connection, Printer& printer) {
                   return Export(connection, printer, *arguments);
                 });
  command.add_option("SESSION", arguments->session_ids, "Ids of the sessions.");
  command.add_flag("--all", arguments->all, "All sessions and namespaces of the tenant.");
  command
      .add_option("--namespace", arguments->name_space,
                  "A namespace of items and those below it; * for any name.")
      ->type_name("PATH");
  command
      .add_option("--output", arguments->output,
                  "File to write, replaced when the export is complete; none: standard output.")
      ->type_name(kFile);
}

}  // namespace memoryd::cli
