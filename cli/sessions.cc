#include "cli/sessions.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <CLI/Validators.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/pages.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::SessionService::Stub;

struct Arguments {
  std::string session_id;
  std::string subject;
  std::string id_prefix;
  bool latest_first = false;
  std::int64_t limit = 0;
  bool yes = false;
  // Of `create` and `update`.
  std::string config;
  std::string session_template;
  std::optional<std::string> new_subject;
  std::optional<std::int64_t> token_limit;
  std::string profile;
  // Of `fork`.
  std::string new_session_id;
  std::string up_to_message_id;
  std::int64_t up_to_position = 0;
};

// What --config says and then the other options; the server checks the rest.
absl::StatusOr<v1::SessionConfig> ConfigOf(const Arguments& arguments) {
  v1::SessionConfig config;
  if (!arguments.config.empty()) {
    std::string json = arguments.config;
    if (json.starts_with('@')) {
      const auto content = ReadPublicFile(json.substr(1));
      if (!content.ok()) {
        return absl::InvalidArgumentError(
            fmt::format("--config: {}", std::string(content.status().message())));
      }
      json = *content;
    }
    const auto parsed = google::protobuf::util::JsonStringToMessage(json, &config);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError("--config: is no SessionConfig in JSON: " +
                                        parsed.ToString());
    }
  }
  if (arguments.new_subject.has_value()) config.set_subject(*arguments.new_subject);
  if (arguments.token_limit.has_value()) config.set_token_limit(*arguments.token_limit);
  if (!arguments.profile.empty()) config.set_profile(arguments.profile);
  return config;
}

// CreateSession, UpdateSession and ForkSession: each answers with a session.
template <typename Request, typename Response>
absl::Status AnswerWithSession(Connection& connection, Printer& printer,
                               grpc::Status (Service::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                               const Request& request) {
  MEMORYD_ASSIGN_OR_RETURN(const Response response, connection.Call(method, request));
  printer.PrintNamed("session", response.session());
  return absl::OkStatus();
}

absl::Status Create(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::CreateSessionRequest request;
  request.set_session_id(arguments.session_id);
  MEMORYD_ASSIGN_OR_RETURN(*request.mutable_config(), ConfigOf(arguments));
  // Without a word the server chooses, and it may have a template.
  if (request.config().ByteSizeLong() == 0 && arguments.config.empty()) request.clear_config();
  request.set_template_(arguments.session_template);
  return AnswerWithSession(connection, printer, &Service::CreateSession, request);
}

absl::Status Update(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::UpdateSessionRequest request;
  request.set_session_id(arguments.session_id);
  MEMORYD_ASSIGN_OR_RETURN(*request.mutable_config(), ConfigOf(arguments));
  return AnswerWithSession(connection, printer, &Service::UpdateSession, request);
}

absl::Status Fork(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::ForkSessionRequest request;
  request.set_session_id(arguments.session_id);
  request.set_new_session_id(arguments.new_session_id);
  if (!arguments.up_to_message_id.empty()) {
    request.set_up_to_message_id(arguments.up_to_message_id);
  } else if (arguments.up_to_position > 0) {
    request.set_up_to_position(arguments.up_to_position);
  }
  return AnswerWithSession(connection, printer, &Service::ForkSession, request);
}

absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  Table table(
      {"SESSION", "PROFILE", "ACTIVE", "TOKENS", "ARCHIVED", "CONTENTS", "BYTES", "UPDATED"},
      printer.width(), printer.colour());
  const auto print = [&](const v1::ListSessionsResponse& page) {
    for (const v1::Session& session : page.sessions()) {
      if (printer.json()) {
        printer.PrintJson("session", session);
      } else {
        table.Add(
            {session.session_id(), session.config().profile(),
             fmt::to_string(session.active_count()), fmt::to_string(session.active_token_count()),
             fmt::to_string(session.archived_count()), fmt::to_string(session.content_count()),
             fmt::to_string(session.stored_bytes()), TimeText(session.update_time())});
      }
    }
    if (!printer.json()) printer.Print(table.Take());
    printer.Flush();
    return TakenOf(printer, page.sessions_size());
  };
  v1::ListSessionsRequest request;
  request.set_subject(arguments.subject);
  request.set_id_prefix(arguments.id_prefix);
  if (arguments.latest_first) request.set_order(v1::SESSION_ORDER_LAST_CHANGE);
  return ReadPages(connection, &Service::ListSessions, request, arguments.limit, print);
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

absl::StatusOr<v1::Session> GetSession(Connection& connection, const std::string& session_id) {
  v1::GetSessionRequest request;
  request.set_session_id(session_id);
  MEMORYD_ASSIGN_OR_RETURN(v1::GetSessionResponse response,
                           connection.Call(&Service::GetSession, request));
  return std::move(*response.mutable_session());
}

void AddSessions(CLI::App& app, Invocation& invocation) {
  CLI::App& sessions = AddGroup(app, "sessions", "Sessions and their configuration");
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    return AddCommand(sessions, name, help, invocation,
                      [arguments, run](Connection& connection, Printer& printer) {
                        return run(connection, printer, *arguments);
                      });
  };
  CLI::App& list =
      add("list", "Lists the tenant's sessions by id, with their bytes and last change.", &List);
  CLI::Option* const subject =
      list.add_option("--subject", arguments->subject, "Only sessions of this subject.");
  list.add_option("--prefix", arguments->id_prefix, "Only sessions whose ids begin with this.");
  list.add_flag("--latest-first", arguments->latest_first,
                "By the last change, the latest first; with --subject.")
      ->needs(subject);
  list.add_option("--limit", arguments->limit, "The most sessions to list; 0: all [0].")
      ->check(CLI::NonNegativeNumber);
  add("show", "Shows a session's configuration and counts.", &Show)
      .add_option("SESSION", arguments->session_id, "The session.")
      ->required();
  const auto name_session = [&](CLI::App& command) {
    command.add_option("SESSION", arguments->session_id, "The session.")->required();
  };
  const auto configure = [&](CLI::App& command) {
    command.add_option("--subject", arguments->new_subject,
                       "The user that the session is about, for erase.");
    command.add_option("--token-limit", arguments->token_limit, "The most tokens of a context.")
        ->type_name("N");
    command.add_option("--profile", arguments->profile, "default, llama-index or autogen-list.")
        ->check(Offering({"default", "llama-index", "autogen-list"}));
    command
        .add_option("--config", arguments->config,
                    "Further fields of memoryd.v1.SessionConfig; @FILE reads a file.")
        ->type_name("JSON");
  };
  CLI::App& create = add("create", "Creates a session without messages.", &Create);
  name_session(create);
  configure(create);
  create.add_option("--template", arguments->session_template,
                    "The server's template of this name, see memoryd info.");
  CLI::App& update =
      add("update", "Changes a session's configuration; fields that are not given stay.", &Update);
  name_session(update);
  configure(update);
  CLI::App& fork = add("fork", "Copies a session under a new id.", &Fork);
  name_session(fork);
  fork.add_option("NEW_SESSION", arguments->new_session_id, "The copy's id.")->required();
  CLI::Option* const up_to =
      fork.add_option("--up-to", arguments->up_to_message_id, "The last message to copy [all].")
          ->type_name("MESSAGE_ID");
  fork.add_option("--up-to-position", arguments->up_to_position,
                  "The position of the last message to copy.")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""))
      ->excludes(up_to);
  CLI::App& remove = add("delete", "Deletes a session and everything that belongs to it.", &Delete);
  remove.add_option("SESSION", arguments->session_id, "The session.")->required();
  remove.add_flag("--yes", arguments->yes, "Do not ask for confirmation.");
}

}  // namespace memoryd::cli
