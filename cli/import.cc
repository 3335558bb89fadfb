#include "cli/import.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/export_lines.h"
#include "cli/namespace_text.h"
#include "cli/printer.h"
#include "cli/progress.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/item_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"

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

// What the lines of one session or namespace become.
class Made {
 public:
  virtual ~Made() = default;

  virtual void Take(ExportLine line) = 0;
  // Whether it was made.
  virtual absl::Status End() = 0;

  // Where there is one already.
  virtual std::string_view there_already() const = 0;
  virtual const std::string& name() const = 0;
  virtual const ExportCounts& counts() const = 0;
};

// The stream of one. What can't be sent any more, its end tells.
template <typename Request, typename Items, typename Response>
class Upload {
 public:
  // `call`: null in a dry run.
  explicit Upload(std::unique_ptr<ImportCall<Request, Response>> call) : call_(std::move(call)) {}

  void Begin(const Request& begin) {
    if (call_ != nullptr) call_->Send(begin);
  }

  // Where to put a line of so many bytes.
  Items& PlaceFor(std::size_t bytes) {
    // Before it is taken: one may be nearly as large as a request may be.
    if (bytes_ + bytes > kBytes || count_ == kItems) SendItems();
    bytes_ += bytes;
    ++count_;
    return items_;
  }

  absl::Status End(const Request& end) {
    SendItems();
    if (call_ == nullptr) return absl::OkStatus();
    call_->Send(end);
    return std::exchange(call_, nullptr)->Finish().status();
  }

 private:
  void SendItems() {
    if (call_ != nullptr) {
      Request request;
      request.mutable_items()->Swap(&items_);
      call_->Send(request);
    }
    items_.Clear();
    bytes_ = 0;
    count_ = 0;
  }

  std::unique_ptr<ImportCall<Request, Response>> call_;
  Items items_;
  std::size_t bytes_ = 0;
  int count_ = 0;
};

using SessionUpload = Upload<v1::ImportSessionRequest, v1::ImportItems, v1::ImportSessionResponse>;
using NamespaceUpload =
    Upload<v1::ImportNamespaceRequest, v1::ImportNamespaceItems, v1::ImportNamespaceResponse>;

class MadeSession final : public Made {
 public:
  MadeSession(SessionUpload upload, v1::Session session)
      : upload_(std::move(upload)), session_id_(session.session_id()) {
    counts_.sessions = 1;
    v1::ImportSessionRequest request;
    v1::ImportBegin& begin = *request.mutable_begin();
    begin.set_session_id(session_id_);
    begin.mutable_config()->Swap(session.mutable_config());
    begin.set_template_(session.template_());
    if (session.has_create_time()) *begin.mutable_create_time() = session.create_time();
    upload_.Begin(request);
  }

  void Take(ExportLine line) override {
    if (auto* const message = std::get_if<v1::Message>(&line)) {
      ++counts_.messages;
      upload_.PlaceFor(message->ByteSizeLong()).add_messages()->Swap(message);
    } else if (auto* const content = std::get_if<v1::Content>(&line)) {
      ++counts_.contents;
      upload_.PlaceFor(content->ByteSizeLong()).add_contents()->Swap(content);
    }
  }

  absl::Status End() override {
    v1::ImportSessionRequest request;
    request.mutable_end()->set_message_count(counts_.messages);
    request.mutable_end()->set_content_count(counts_.contents);
    return upload_.End(request);
  }

  std::string_view there_already() const override { return "SESSION_EXISTS"; }
  const std::string& name() const override { return session_id_; }
  const ExportCounts& counts() const override { return counts_; }

 private:
  SessionUpload upload_;
  const std::string session_id_;
  ExportCounts counts_;
};

class MadeNamespace final : public Made {
 public:
  MadeNamespace(NamespaceUpload upload, v1::Namespace one)
      : upload_(std::move(upload)), name_(NamespaceText(one.namespace_())) {
    counts_.namespaces = 1;
    v1::ImportNamespaceRequest request;
    v1::ImportNamespaceBegin& begin = *request.mutable_begin();
    begin.mutable_namespace_()->Swap(one.mutable_namespace_());
    begin.mutable_config()->Swap(one.mutable_config());
    if (one.has_create_time()) *begin.mutable_create_time() = one.create_time();
    upload_.Begin(request);
  }

  void Take(ExportLine line) override {
    if (auto* const item = std::get_if<v1::Item>(&line)) {
      ++counts_.items;
      upload_.PlaceFor(item->ByteSizeLong()).add_items()->Swap(item);
    }
  }

  absl::Status End() override {
    v1::ImportNamespaceRequest request;
    request.mutable_end()->set_item_count(counts_.items);
    return upload_.End(request);
  }

  std::string_view there_already() const override { return "NAMESPACE_EXISTS"; }
  const std::string& name() const override { return name_; }
  const ExportCounts& counts() const override { return counts_; }

 private:
  NamespaceUpload upload_;
  const std::string name_;
  ExportCounts counts_;
};

class Importer {
 public:
  Importer(Connection& connection, const Arguments& arguments)
      : connection_(connection), arguments_(arguments) {}

  absl::Status Run(std::istream& input) {
    ExportLines lines(input);
    while (true) {
      MEMORYD_ASSIGN_OR_RETURN(ExportLine line, lines.Next());
      format_ = lines.format();
      if (std::holds_alternative<ExportEnd>(line)) return EndOne();
      MEMORYD_RETURN_IF_ERROR(Take(std::move(line)));
      progress_.Show([&] { return fmt::format("line {}; {}", lines.number(), ForPeople()); });
    }
  }

  bool has_made_some() const { return done_.sessions + done_.namespaces > 0; }
  // A JSON object.
  std::string Counts() const {
    return fmt::format(R"({{{},"skipped":{}}})", done_.ToJsonFields(format_),
                       skipped_.sessions + skipped_.namespaces);
  }
  std::string ForPeople() const {
    std::string text = fmt::format("{}, {} sessions skipped", done_.ForPeople(), skipped_.sessions);
    if (skipped_.namespaces > 0)
      text += fmt::format(", {} namespaces skipped", skipped_.namespaces);
    return text;
  }

 private:
  absl::Status Take(ExportLine line) {
    if (auto* const session = std::get_if<v1::Session>(&line)) {
      MEMORYD_RETURN_IF_ERROR(EndOne());
      MEMORYD_ASSIGN_OR_RETURN(auto upload,
                               Open<SessionUpload>(&v1::SessionService::Stub::ImportSession));
      open_ = std::make_unique<MadeSession>(std::move(upload), std::move(*session));
    } else if (auto* const one = std::get_if<v1::Namespace>(&line)) {
      MEMORYD_RETURN_IF_ERROR(EndOne());
      MEMORYD_ASSIGN_OR_RETURN(auto upload,
                               Open<NamespaceUpload>(&v1::ItemService::Stub::ImportNamespace));
      open_ = std::make_unique<MadeNamespace>(std::move(upload), std::move(*one));
    } else {
      // A line of neither has one of them above it: ExportLines sees to that.
      open_->Take(std::move(line));
    }
    return absl::OkStatus();
  }

  template <typename OneUpload, typename Method>
  absl::StatusOr<OneUpload> Open(Method method) {
    if (arguments_.dry_run) return OneUpload(nullptr);
    MEMORYD_ASSIGN_OR_RETURN(auto call, connection_.BeginImport(method));
    return OneUpload(std::move(call));
  }

  absl::Status EndOne() {
    if (open_ == nullptr) return absl::OkStatus();
    const std::unique_ptr<Made> made = std::exchange(open_, nullptr);
    const absl::Status status = made->End();
    if (arguments_.skip_existing && ErrorReason(status) == made->there_already()) {
      skipped_.Add(made->counts());
      return absl::OkStatus();
    }
    if (!status.ok()) return InContext(made->name(), status);
    done_.Add(made->counts());
    return absl::OkStatus();
  }

  Connection& connection_;
  const Arguments& arguments_;
  Progress progress_;
  std::unique_ptr<Made> open_;
  int format_ = kSessionsFormat;
  ExportCounts done_;
  ExportCounts skipped_;
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
    return !importer.has_made_some()
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
      AddCommand(app, "import", "Creates the sessions and namespaces of an export: docs/EXPORT.md.",
                 invocation, [arguments](Connection& connection, Printer& printer) {
                   return Import(connection, printer, *arguments);
                 });
  command.add_option("FILE", arguments->file, "The export; - is standard input.")
      ->required()
      ->type_name(kFile);
  command.add_flag("--skip-existing", arguments->skip_existing,
                   "Skip what exists already; without it the first that does ends the import.");
  command.add_flag("--dry-run", arguments->dry_run, "Check the file and create nothing.");
}

}  // namespace memoryd::cli
