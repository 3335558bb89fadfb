#include "cli/import.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "cli/export_lines.h"
#include "cli/progress.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/session_service.pb.h"

namespace memoryd::cli {
namespace {

// Of one request.
constexpr int kItems = 250;
constexpr std::size_t kBytes = std::size_t{512} << 10;

struct Arguments {
  std::string file;
  bool skip_existing = false;
  bool dry_run = false;
};

class Importer {
 public:
  Importer(Connection& connection, const Arguments& arguments)
      : connection_(connection), arguments_(arguments) {}

  absl::Status Run(std::istream& input) {
    ExportLines lines(input);
    while (true) {
      MEMORYD_ASSIGN_OR_RETURN(ExportLine line, lines.Next());
      if (std::holds_alternative<ExportEnd>(line)) return EndSession();
      if (auto* const session = std::get_if<v1::Session>(&line)) {
        MEMORYD_RETURN_IF_ERROR(EndSession());
        MEMORYD_RETURN_IF_ERROR(BeginSession(std::move(*session)));
      } else {
        Take(line);
      }
      progress_.Show([&] { return fmt::format("line {}; {}", lines.number(), ForPeople()); });
    }
  }

  const ExportCounts& done() const { return done_; }
  // A JSON object.
  std::string Counts() const {
    return fmt::format(R"({{"sessions":{},"messages":{},"contents":{},"skipped":{}}})",
                       done_.sessions, done_.messages, done_.contents, skipped_);
  }
  std::string ForPeople() const {
    return fmt::format("{} sessions, {} messages, {} contents, {} sessions skipped", done_.sessions,
                       done_.messages, done_.contents, skipped_);
  }

 private:
  absl::Status BeginSession(v1::Session session) {
    session_id_ = session.session_id();
    open_ = true;
    of_session_ = {};
    if (arguments_.dry_run) return absl::OkStatus();
    MEMORYD_ASSIGN_OR_RETURN(call_, connection_.BeginImport());
    v1::ImportSessionRequest request;
    v1::ImportBegin& begin = *request.mutable_begin();
    begin.set_session_id(session_id_);
    begin.mutable_config()->Swap(session.mutable_config());
    begin.set_template_(session.template_());
    if (session.has_create_time()) *begin.mutable_create_time() = session.create_time();
    call_->Send(request);
    return absl::OkStatus();
  }

  void Take(ExportLine& line) {
    const std::size_t bytes = std::holds_alternative<v1::Message>(line)
                                  ? std::get<v1::Message>(line).ByteSizeLong()
                                  : std::get<v1::Content>(line).ByteSizeLong();
    // Before it is taken: one may be nearly as large as a request may be.
    if (bytes_ + bytes > kBytes || items_.messages_size() + items_.contents_size() == kItems) {
      Send();
    }
    bytes_ += bytes;
    if (auto* const message = std::get_if<v1::Message>(&line)) {
      ++of_session_.messages;
      items_.add_messages()->Swap(message);
    } else {
      ++of_session_.contents;
      items_.add_contents()->Swap(&std::get<v1::Content>(line));
    }
  }

  // What can't be sent any more, the end of the session tells.
  void Send() {
    if (call_ != nullptr) {
      v1::ImportSessionRequest request;
      request.mutable_items()->Swap(&items_);
      call_->Send(request);
    }
    items_.Clear();
    bytes_ = 0;
  }

  absl::Status EndSession() {
    if (!open_) return absl::OkStatus();
    open_ = false;
    Send();
    if (call_ != nullptr) {
      v1::ImportSessionRequest request;
      request.mutable_end()->set_message_count(of_session_.messages);
      request.mutable_end()->set_content_count(of_session_.contents);
      call_->Send(request);
      const absl::Status status = std::exchange(call_, nullptr)->Finish().status();
      if (arguments_.skip_existing && ErrorReason(status) == "SESSION_EXISTS") {
        ++skipped_;
        return absl::OkStatus();
      }
      if (!status.ok()) return InContext(session_id_, status);
    }
    ++done_.sessions;
    done_.messages += of_session_.messages;
    done_.contents += of_session_.contents;
    return absl::OkStatus();
  }

  Connection& connection_;
  const Arguments& arguments_;
  Progress progress_;
  std::unique_ptr<ImportCall> call_;  // Null in a dry run.
  std::string session_id_;
  bool open_ = false;
  v1::ImportItems items_;
  std::size_t bytes_ = 0;  // Of `items_`.
  ExportCounts of_session_;
  ExportCounts done_;
  std::int64_t skipped_ = 0;
};

// So that nothing is made of a file that is not whole. A pipe can be read only once.
absl::Status Check(std::istream& input) {
  ExportLines lines(input);
  Progress progress;
  while (true) {
    progress.Show([&] { return fmt::format("checking line {}", lines.number() + 1); });
    MEMORYD_ASSIGN_OR_RETURN(const ExportLine line, lines.Next());
    if (std::holds_alternative<ExportEnd>(line)) return absl::OkStatus();
  }
}

absl::Status Import(Connection& connection, Printer& printer, const Arguments& arguments) {
  Importer importer(connection, arguments);
  absl::Status status;
  if (arguments.file == "-") {
    status = importer.Run(std::cin);
  } else {
    std::ifstream input(arguments.file, std::ios::binary);
    std::error_code error;
    if (!input || std::filesystem::is_directory(arguments.file, error)) {
      return absl::InvalidArgumentError(fmt::format("{}: can't be read", arguments.file));
    }
    if (std::filesystem::is_regular_file(arguments.file, error)) {
      status = Check(input);
      if (!status.ok()) status = InContext(arguments.file, status);
      input.clear();
      input.seekg(0);
    }
    if (status.ok()) status = importer.Run(input);
  }
  if (!status.ok()) {
    // What was made before stays.
    return importer.done().sessions == 0
               ? status
               : InContext(fmt::format("after {}", importer.ForPeople()), status);
  }
  printer.Print((printer.json() ? importer.Counts() : importer.ForPeople()) + "\n");
  return absl::OkStatus();
}

}  // namespace

void AddImport(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command =
      AddCommand(app, "import", "Creates the sessions of an export: docs/EXPORT.md.", invocation,
                 [arguments](Connection& connection, Printer& printer) {
                   return Import(connection, printer, *arguments);
                 });
  command.add_option("FILE", arguments->file, "The export; - is standard input.")
      ->required()
      ->type_name(kFile);
  command.add_flag("--skip-existing", arguments->skip_existing,
                   "Skip sessions that exist already; without it the first one ends the import.");
  command.add_flag("--dry-run", arguments->dry_run, "Check the file and create nothing.");
}

}  // namespace memoryd::cli
