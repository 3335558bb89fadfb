#include "cli/sessions.h"

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cli/pages.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::SessionService::Stub;

struct Arguments {
  std::string session_id;
  std::string subject;
  std::int64_t limit = 0;
  bool yes = false;
};

absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  Table table({"SESSION", "PROFILE", "ACTIVE", "TOKENS", "ARCHIVED", "CONTENTS", "UPDATED"},
              printer.width());
  const auto print = [&](const v1::ListSessionsResponse& page) {
    for (const v1::Session& session : page.sessions()) {
      if (printer.json()) {
        printer.PrintJson("session", session);
      } else {
        table.Add({session.session_id(), session.config().profile(),
                   fmt::to_string(session.active_count()),
                   fmt::to_string(session.active_token_count()),
                   fmt::to_string(session.archived_count()),
                   fmt::to_string(session.content_count()), TimeText(session.update_time())});
      }
    }
    if (!printer.json()) printer.Print(table.Take());
    printer.Flush();
    return page.sessions_size();
  };
  v1::ListSessionsRequest request;
  request.set_subject(arguments.subject);
  return ReadPages(connection, &Service::ListSessions, request, arguments.limit, print);
}

absl::StatusOr<v1::Session> GetSession(Connection& connection, const std::string& session_id) {
  v1::GetSessionRequest request;
  request.set_session_id(session_id);
  MEMORYD_ASSIGN_OR_RETURN(v1::GetSessionResponse response,
                           connection.Call(&Service::GetSession, request));
  return std::move(*response.mutable_session());
}

absl::Status Show(Connection& connection, Printer& printer, const Arguments& arguments) {
  MEMORYD_ASSIGN_OR_RETURN(const v1::Session session, GetSession(connection, arguments.session_id));
  printer.PrintNamed("session", session);
  return absl::OkStatus();
}

absl::Status Delete(Connection& connection, Printer& printer, const Arguments& arguments) {
  if (!arguments.yes) {
    MEMORYD_ASSIGN_OR_RETURN(const v1::Session session,
                             GetSession(connection, arguments.session_id));
    MEMORYD_RETURN_IF_ERROR(Confirm(
        false,
        fmt::format("Delete session {} with {} messages, {} contents and what its blocks know?",
                    session.session_id(), session.active_count() + session.archived_count(),
                    session.content_count())));
  }
  v1::DeleteSessionRequest request;
  request.set_session_id(arguments.session_id);
  MEMORYD_ASSIGN_OR_RETURN(const v1::DeleteSessionResponse response,
                           connection.Call(&Service::DeleteSession, request));
  if (printer.json()) {
    printer.PrintMessage(response);
  } else {
    printer.Print(fmt::format("deleted {} messages and {} contents\n", response.message_count(),
                              response.content_count()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddSessions(CLI::App& app, Invocation& invocation) {
  CLI::App& sessions = AddGroup(app, "sessions", "Lists, shows and deletes sessions.");
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    return AddCommand(sessions, name, help, invocation,
                      [arguments, run](Connection& connection, Printer& printer) {
                        return run(connection, printer, *arguments);
                      });
  };
  CLI::App& list = add("list", "Lists the tenant's sessions by id.", &List);
  list.add_option("--subject", arguments->subject, "Those of this subject alone.");
  list.add_option("--limit", arguments->limit, "At most so many; 0: all [0].")
      ->check(CLI::NonNegativeNumber);
  add("show", "Shows a session's configuration and counts.", &Show)
      .add_option("ID", arguments->session_id, "The session.")
      ->required();
  CLI::App& remove = add("delete", "Deletes a session with all that belongs to it.", &Delete);
  remove.add_option("ID", arguments->session_id, "The session.")->required();
  remove.add_flag("--yes", arguments->yes, "Do not ask.");
}

}  // namespace memoryd::cli
