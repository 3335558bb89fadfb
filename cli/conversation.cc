#include "cli/conversation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/util/time_util.h>

#include <CLI/Validators.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/explanation_lines.h"
#include "cli/message_text.h"
#include "cli/pages.h"
#include "cli/printer.h"
#include "cli/sessions.h"
#include "cli/table.h"
#include "cli/terminal_text.h"
#include "cli/time_text.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "memoryd/v1/memory_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::MemoryService::Stub;

struct Arguments {
  std::string session_id;
  std::string text;
  // Of `put` and `context`.
  std::string role = "user";
  std::string name;
  std::string message_id;
  std::string metadata_json;
  std::string thread;
  std::string session_template;
  std::optional<double> wait_s;
  bool alternate_roles = false;
  bool explain = false;  // Of `get`.
  // Of `query`.
  std::int32_t top = 0;
  std::int32_t neighbours = 0;
  std::vector<std::string> roles;
  bool passages = false;
  bool parts_of_score = false;
};

// The argument, or for `-` standard input without the line feed at its end.
absl::StatusOr<std::string> GivenText(const Arguments& arguments) {
  if (arguments.text != "-") return arguments.text;
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (std::cin.bad()) return absl::UnknownError("standard input: can't be read");
  if (!IsUtf8(text)) return absl::InvalidArgumentError("standard input: is not UTF-8");
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// "1 message", "2 messages".
std::string Messages(int count) {
  return fmt::format("{} {}", count, count == 1 ? "message" : "messages");
}

void Print(Printer& printer, std::string_view what,
           const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (names.empty()) return;
  printer.Print(
      fmt::format("{}: {}\n", what, EscapeForTerminal(fmt::format("{}", fmt::join(names, ", ")))));
}

void Print(Printer& printer,
           const google::protobuf::RepeatedPtrField<v1::MissingBlock>& missing_blocks) {
  for (const v1::MissingBlock& missing : missing_blocks) {
    printer.Print(fmt::format("missing block: {} ({})\n", EscapeForTerminal(missing.block()),
                              EscapeForTerminal(missing.reason())));
  }
}

absl::Status Put(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::PutRequest request;
  request.set_session_id(arguments.session_id);
  request.set_template_(arguments.session_template);
  v1::Message& message = *request.add_messages();
  MEMORYD_ASSIGN_OR_RETURN(*message.mutable_text(), GivenText(arguments));
  message.set_role(arguments.role);
  message.set_name(arguments.name);
  message.set_message_id(arguments.message_id);
  message.set_metadata_json(arguments.metadata_json);
  message.set_thread_id(arguments.thread);
  std::chrono::milliseconds wait(0);
  if (arguments.wait_s.has_value()) {
    // However little was asked for is not nothing.
    wait = std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(*arguments.wait_s));
    *request.mutable_wait() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(wait.count());
  }
  MEMORYD_ASSIGN_OR_RETURN(const v1::PutResponse response,
                           connection.Call(&Service::Put, request, wait));
  if (printer.json()) {
    printer.PrintMessage(response);
    return absl::OkStatus();
  }
  if (response.message_ids().empty() || response.positions().empty()) {
    return absl::InternalError("put: the server does not say what it stored");
  }
  printer.Print(fmt::format("stored {} at position {} of session {}\n",
                            EscapeForTerminal(response.message_ids(0)), response.positions(0),
                            EscapeForTerminal(arguments.session_id)));
  for (const v1::OpenJob& job : response.open_jobs()) {
    printer.Print(fmt::format("job {} of block {}: {} {}\n", EscapeForTerminal(job.job_id()),
                              EscapeForTerminal(job.block()), EscapeForTerminal(job.state()),
                              EscapeForTerminal(job.error())));
  }
  return absl::OkStatus();
}

absl::Status Get(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::GetRequest request;
  request.set_session_id(arguments.session_id);
  if (!arguments.text.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(*request.mutable_input(), GivenText(arguments));
  }
  request.set_explain(arguments.explain);
  MEMORYD_ASSIGN_OR_RETURN(const v1::GetResponse response, connection.Call(&Service::Get, request));
  if (response.revision() == 0) return NoSession();
  if (printer.json()) {
    printer.PrintMessage(response);
    return absl::OkStatus();
  }
  for (const v1::Message& message : response.messages()) {
    printer.Print(ConversationLines(message, printer.colour()));
  }
  printer.Print(fmt::format("\n{}, {} of {} tokens\n", Messages(response.messages_size()),
                            response.token_count(), response.limit()));
  Print(printer, "blocks used", response.blocks_used());
  Print(printer, "blocks left out", response.blocks_dropped());
  Print(printer, response.missing_blocks());
  if (response.has_explanation()) {
    printer.Print(ExplanationLines(response.explanation(), printer.width(), printer.colour()));
  }
  return absl::OkStatus();
}

std::vector<std::string> RowOf(const v1::QueryResult& result) {
  const std::string score = fmt::format("{:.2f}", result.score());
  switch (result.item_case()) {
    case v1::QueryResult::kMessage: {
      const v1::Message& message = result.message();
      return {score, message.role(), message.message_id(), TimeText(message.ingest_time()),
              result.passage().empty() ? TextOf(message) : result.passage()};
    }
    case v1::QueryResult::kContent: {
      const v1::Content& content = result.content();
      return {score, "content", content.content_id(), TimeText(content.ingest_time()),
              result.passage().empty() ? TextOf(content) : result.passage()};
    }
    case v1::QueryResult::kBlockItem: {
      const v1::BlockItem& item = result.block_item();
      if (item.has_fact()) {
        return {score, item.block(), fmt::to_string(item.fact().fact_id()),
                TimeText(item.fact().last_time()), item.fact().text()};
      }
      if (item.has_entity()) {
        return {score, item.block(), item.entity().name(), TimeText(item.entity().last_time()),
                item.entity().text()};
      }
      return {score, item.block(), "", "", item.text()};
    }
    case v1::QueryResult::ITEM_NOT_SET:
      break;
  }
  return {score, "", "", "", ""};
}

absl::Status Query(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::QueryRequest request;
  request.set_session_id(arguments.session_id);
  MEMORYD_ASSIGN_OR_RETURN(*request.mutable_query(), GivenText(arguments));
  request.set_top_k(arguments.top);
  request.set_neighbours(arguments.neighbours);
  request.set_passages(arguments.passages);
  request.set_parts_of_score(arguments.parts_of_score);
  for (const std::string& role : arguments.roles) request.mutable_filter()->add_roles(role);
  MEMORYD_ASSIGN_OR_RETURN(const v1::QueryResponse response,
                           connection.Call(&Service::Query, request));
  if (response.revision() == 0) return NoSession();
  if (printer.json()) {
    printer.PrintMessage(response);
    return absl::OkStatus();
  }
  if (response.results().empty()) {
    printer.Print("nothing found\n");
  } else {
    Table table({"SCORE", "FROM", "ID", "STORED", "TEXT"}, printer.width(), printer.colour());
    for (const v1::QueryResult& result : response.results()) {
      table.Add(RowOf(result));
      for (const v1::Message& neighbour : result.neighbours()) {
        table.Add({"", neighbour.role(), neighbour.message_id(), TimeText(neighbour.ingest_time()),
                   TextOf(neighbour)});
      }
    }
    printer.Print(table.Take());
  }
  Print(printer, "notices", response.notices());
  Print(printer, response.missing_blocks());
  return absl::OkStatus();
}

absl::Status Context(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::GetAllRequest active;
  active.set_session_id(arguments.session_id);
  active.set_status(v1::MESSAGE_STATUS_ACTIVE);
  v1::UpdateContextRequest request;
  MEMORYD_RETURN_IF_ERROR(
      ReadPages(connection, &Service::GetAll, active, 0, [&](const v1::GetAllResponse& page) {
        request.mutable_messages()->MergeFrom(page.messages());
        return page.messages_size();
      }));
  if (request.messages().empty()) {
    MEMORYD_RETURN_IF_ERROR(GetSession(connection, arguments.session_id).status());
  }
  request.set_session_id(arguments.session_id);
  request.set_alternate_roles(arguments.alternate_roles);
  v1::Message& message = *request.add_messages();
  message.set_role(arguments.role);
  MEMORYD_ASSIGN_OR_RETURN(*message.mutable_text(), GivenText(arguments));
  MEMORYD_ASSIGN_OR_RETURN(const v1::UpdateContextResponse response,
                           connection.Call(&Service::UpdateContext, request));
  if (printer.json()) {
    printer.PrintMessage(response);
    return absl::OkStatus();
  }
  for (const v1::Message& shown : response.messages()) {
    printer.Print(ConversationLines(shown, printer.colour()));
  }
  printer.Print(fmt::format("\n{}, {} inserted by memory\n", Messages(response.messages_size()),
                            response.insertions_size()));
  Print(printer, "blocks used", response.blocks_used());
  Print(printer, "blocks left out", response.blocks_dropped());
  return absl::OkStatus();
}

}  // namespace

void AddConversation(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    CLI::App& command = AddCommand(app, name, help, invocation,
                                   [arguments, run](Connection& connection, Printer& printer) {
                                     return run(connection, printer, *arguments);
                                   });
    command.group("Put in and read");
    command.add_option("SESSION", arguments->session_id, "The session.")->required();
    return command;
  };
  const auto add_text = [&](CLI::App& command, const char* help) {
    command.add_option("TEXT", arguments->text, help)->required();
  };
  CLI::App& put = add("put", "Stores a message; creates the session if it does not exist.", &Put);
  add_text(put, "The message's text; - reads standard input.");
  put.add_option("--role", arguments->role, "The message's role: user, assistant, system … [user].")
      ->check(OfferingRoles());
  put.add_option("--name", arguments->name, "The speaker's name.");
  put.add_option("--id", arguments->message_id, "The message's id; none: the server makes one.");
  put.add_option("--metadata", arguments->metadata_json, "Metadata, as a JSON object.")
      ->type_name("JSON");
  put.add_option("--thread", arguments->thread, "The message's thread.");
  put.add_option("--template", arguments->session_template,
                 "The server's template for a new session, see memoryd info; an existing session "
                 "must have it.");
  put.add_option("--wait", arguments->wait_s,
                 "Seconds to wait for blocks to be fed, in addition to --timeout.")
      ->type_name("SECONDS")
      ->check(Between(0, 3600));
  CLI::App& get =
      add("get",
          "Shows the context for the next model call: short-term memory and the blocks' knowledge.",
          &Get);
  get.add_option("--input", arguments->text,
                 "The user's next message, by which blocks may choose; - reads standard input.");
  get.add_flag("--explain", arguments->explain,
               "Show also the tokens of each block, what was left out and why, and the limits.");
  CLI::App& query = add("query", "Searches the session by words and by meaning.", &Query);
  add_text(query, "The text to search for; - reads standard input.");
  query.add_option("--top", arguments->top, "The most results; 0: 10 [0].")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""));
  query
      .add_option("--neighbours", arguments->neighbours,
                  "Messages to show before and after each result, 0 to 10 [0].")
      ->type_name("N");
  AddRepeatable(query, "--role", arguments->roles, "Only messages of this role; repeatable.")
      .check(OfferingRoles());
  query.add_flag("--passages", arguments->passages, "Show only the best passage of long texts.");
  query.add_flag("--parts-of-score", arguments->parts_of_score,
                 "Show the parts of each score; with --json.");
  CLI::App& context = add("context",
                          "Shows the context for the next model call with a new message: the "
                          "active messages, the new one, and inserted memory. Stores nothing.",
                          &Context);
  add_text(context, "The new message; - reads standard input.");
  context.add_option("--role", arguments->role, "Who says it [user].")->check(OfferingRoles());
  context.add_flag("--alternate-roles", arguments->alternate_roles,
                   "As Anthropic's interface wants them: a human's and the assistant's in turn.");
}

}  // namespace memoryd::cli
