#include "cli/messages.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <CLI/Validators.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/message_text.h"
#include "cli/pages.h"
#include "cli/printer.h"
#include "cli/sessions.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/memory_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::MemoryService::Stub;

struct Arguments {
  std::string session_id;
  std::string message_id;
  // Of `list`.
  std::int64_t limit = 0;
  bool contents = false;
  bool newest_first = false;
  std::vector<std::string> roles;
  std::vector<std::string> names;
  std::optional<std::string> thread;
  std::string status;
  std::string since;
  std::string until;
  std::string created_since;
  std::string created_until;
  std::string filter_json;
  // Of `delete`.
  bool with_tool_messages = false;
  bool yes = false;
};

absl::Status SetRange(const std::string& since, const std::string& until,
                      v1::TimeRange* (v1::Filter::*range)(), v1::Filter& filter) {
  if (!since.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(*(filter.*range)()->mutable_start(), ParseTimestamp(since));
  }
  if (!until.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(*(filter.*range)()->mutable_end(), ParseTimestamp(until));
  }
  return absl::OkStatus();
}

// What --filter says and then the other options; the server checks the rest.
absl::StatusOr<v1::Filter> FilterOf(const Arguments& arguments) {
  v1::Filter filter;
  if (!arguments.filter_json.empty()) {
    const auto parsed = google::protobuf::util::JsonStringToMessage(arguments.filter_json, &filter);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError("--filter: is no Filter in JSON: " + parsed.ToString());
    }
  }
  for (const std::string& role : arguments.roles) filter.add_roles(role);
  for (const std::string& name : arguments.names) filter.add_names(name);
  if (arguments.thread.has_value()) filter.set_thread_id(*arguments.thread);
  if (arguments.status == "active") filter.set_status(v1::MESSAGE_STATUS_ACTIVE);
  if (arguments.status == "archived") filter.set_status(v1::MESSAGE_STATUS_ARCHIVED);
  MEMORYD_RETURN_IF_ERROR(
      SetRange(arguments.since, arguments.until, &v1::Filter::mutable_ingest_time, filter));
  MEMORYD_RETURN_IF_ERROR(SetRange(arguments.created_since, arguments.created_until,
                                   &v1::Filter::mutable_create_time, filter));
  return filter;
}

const char* StatusName(v1::MessageStatus status) {
  return status == v1::MESSAGE_STATUS_ACTIVE     ? "active"
         : status == v1::MESSAGE_STATUS_ARCHIVED ? "archived"
                                                 : "";
}

// A session that is not there has no messages: where none is found it is asked for.
absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::GetAllRequest request;
  request.set_session_id(arguments.session_id);
  request.set_include_contents(arguments.contents);
  if (arguments.newest_first) request.set_order(v1::MESSAGE_ORDER_NEWEST_FIRST);
  MEMORYD_ASSIGN_OR_RETURN(*request.mutable_filter(), FilterOf(arguments));
  Table table({"POSITION", "ID", "ROLE", "NAME", "STATUS", "TOKENS", "STORED", "TEXT"},
              printer.width(), printer.colour());
  bool found = false;
  const auto print = [&](const v1::GetAllResponse& page) {
    found |= !page.messages().empty() || !page.contents().empty();
    for (const v1::Message& message : page.messages()) {
      if (printer.json()) {
        printer.PrintJson("message", message);
      } else {
        table.Add({fmt::to_string(message.position()), message.message_id(), message.role(),
                   message.name(), StatusName(message.status()),
                   fmt::to_string(message.token_count()), TimeText(message.ingest_time()),
                   TextOf(message)});
      }
    }
    for (const v1::Content& content : page.contents()) {
      if (printer.json()) {
        printer.PrintJson("content", content);
      } else {
        table.Add({fmt::to_string(content.position()), content.content_id(), "", "", "content", "",
                   TimeText(content.ingest_time()), TextOf(content)});
      }
    }
    if (!printer.json() && found) printer.Print(table.Take());
    printer.Flush();
    return TakenOf(printer, page.messages_size() + page.contents_size());
  };
  MEMORYD_RETURN_IF_ERROR(ReadPages(connection, &Service::GetAll, request, arguments.limit, print));
  if (found) return absl::OkStatus();
  MEMORYD_RETURN_IF_ERROR(GetSession(connection, arguments.session_id).status());
  if (!printer.json()) printer.Print(table.Take());
  return absl::OkStatus();
}

absl::StatusOr<v1::Message> FindMessage(Connection& connection, const Arguments& arguments) {
  v1::GetAllRequest request;
  request.set_session_id(arguments.session_id);
  request.mutable_filter()->add_message_ids(arguments.message_id);
  std::optional<v1::Message> found;
  MEMORYD_RETURN_IF_ERROR(
      ReadPages(connection, &Service::GetAll, request, 0, [&](const v1::GetAllResponse& page) {
        if (page.messages_size() > 0) found = page.messages(0);
        return page.messages_size();
      }));
  if (found.has_value()) return *std::move(found);
  return absl::NotFoundError(
      fmt::format("session {} has no message {}", arguments.session_id, arguments.message_id));
}

absl::Status Show(Connection& connection, Printer& printer, const Arguments& arguments) {
  MEMORYD_ASSIGN_OR_RETURN(const v1::Message message, FindMessage(connection, arguments));
  printer.PrintNamed("message", message);
  return absl::OkStatus();
}

absl::Status Delete(Connection& connection, Printer& printer, const Arguments& arguments) {
  if (!arguments.yes) {
    MEMORYD_ASSIGN_OR_RETURN(const v1::Message message, FindMessage(connection, arguments));
    MEMORYD_RETURN_IF_ERROR(
        Confirm(false, fmt::format("Delete message {} of {} at position {}?", message.message_id(),
                                   message.role(), message.position())));
  }
  v1::DeleteMessageRequest request;
  request.set_session_id(arguments.session_id);
  request.set_message_id(arguments.message_id);
  request.set_with_tool_messages(arguments.with_tool_messages);
  MEMORYD_ASSIGN_OR_RETURN(const v1::DeleteMessageResponse response,
                           connection.Call(&Service::DeleteMessage, request));
  if (printer.json()) {
    printer.PrintMessage(response);
  } else {
    printer.Print(fmt::format("deleted {} messages and retired {} facts\n",
                              response.message_ids_size(), response.retired_fact_count()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddMessages(CLI::App& app, Invocation& invocation) {
  CLI::App& messages = AddGroup(app, "messages", "Messages of a session");
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    CLI::App& command = AddCommand(messages, name, help, invocation,
                                   [arguments, run](Connection& connection, Printer& printer) {
                                     return run(connection, printer, *arguments);
                                   });
    command.add_option("SESSION", arguments->session_id, "The session.")->required();
    return command;
  };
  CLI::App& list = add("list", "Lists the messages that pass all filters, oldest first.", &List);
  AddRepeatable(list, "--role", arguments->roles, "Only messages of this role; repeatable.")
      .check(OfferingRoles());
  AddRepeatable(list, "--name", arguments->names, "Only messages of this speaker; repeatable.");
  list.add_option("--thread", arguments->thread, "Only messages of this thread.");
  list.add_option("--status", arguments->status, "active or archived.")
      ->check(OneOf({"active", "archived"}));
  list.add_option("--since", arguments->since, "Stored at this time or later: RFC 3339, or a day.");
  list.add_option("--until", arguments->until, "Stored before this time.");
  list.add_option("--created-since", arguments->created_since, "Created at this time or later.");
  list.add_option("--created-until", arguments->created_until, "Created before this time.");
  list.add_option("--filter", arguments->filter_json,
                  "Further conditions: a memoryd.v1.Filter in JSON.");
  list.add_flag("--contents", arguments->contents, "List contents too, after the messages.");
  list.add_flag("--newest-first", arguments->newest_first,
                "List the newest messages and contents first; --limit then keeps the newest.");
  list.add_option("--limit", arguments->limit, "The most messages to list; 0: all [0].")
      ->check(CLI::NonNegativeNumber);
  add("show", "Shows a message.", &Show)
      .add_option("MESSAGE_ID", arguments->message_id, "The message.")
      ->required();
  CLI::App& remove = add("delete", "Deletes a message.", &Delete);
  remove.add_option("MESSAGE_ID", arguments->message_id, "The message.")->required();
  remove.add_flag("--with-tool-messages", arguments->with_tool_messages,
                  "Delete also the tool calls and results that belong to it.");
  remove.add_flag("--yes", arguments->yes, "Do not ask for confirmation.");
}

}  // namespace memoryd::cli
