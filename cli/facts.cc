#include "cli/facts.h"

#include <fmt/format.h>

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
#include "cli/printer.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/block_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::BlockService::Stub;

struct Arguments {
  std::string session_id;
  std::string block;
  std::int64_t fact_id = 0;
  std::int64_t change = 0;
  std::string text;
  std::optional<double> trust;
  std::vector<std::string> message_ids;
  bool history = false;
  bool yes = false;
};

absl::StatusOr<v1::KnownFacts> GetFacts(Connection& connection, const Arguments& arguments) {
  v1::GetBlockRequest request;
  request.set_session_id(arguments.session_id);
  request.set_block(arguments.block);
  MEMORYD_ASSIGN_OR_RETURN(v1::GetBlockResponse response,
                           connection.Call(&Service::GetBlock, request));
  if (!response.has_facts()) {
    return absl::InvalidArgumentError(
        fmt::format("facts: block {} is of kind {}", arguments.block, response.block().kind()));
  }
  return std::move(*response.mutable_facts());
}

absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  MEMORYD_ASSIGN_OR_RETURN(const v1::KnownFacts known, GetFacts(connection, arguments));
  Table facts({"FACT", "TRUST", "SEEN", "LAST", "WRITER", "TEXT"}, printer.width(),
              printer.colour());
  Table history({"CHANGE", "END", "FACT", "WHEN", "WRITER", "TEXT"}, printer.width(),
                printer.colour());
  if (!arguments.history) {
    for (const v1::Fact& fact : known.facts()) {
      if (printer.json()) {
        printer.PrintJson("fact", fact);
      } else {
        facts.Add({fmt::to_string(fact.fact_id()), fmt::format("{:.2f}", fact.trust()),
                   fmt::to_string(fact.seen_count()), TimeText(fact.last_time()), fact.writer(),
                   fact.text()});
      }
    }
    if (!printer.json()) printer.Print(facts.Take());
    return absl::OkStatus();
  }
  for (const v1::PastFact& past : known.history()) {
    if (printer.json()) {
      printer.PrintJson("past_fact", past);
    } else {
      history.Add({fmt::to_string(past.change()), v1::FactEnd_Name(past.end()),
                   fmt::to_string(past.fact().fact_id()), TimeText(past.time()), past.writer(),
                   past.fact().text()});
    }
  }
  if (!printer.json()) printer.Print(history.Take());
  return absl::OkStatus();
}

template <typename Request>
Request RequestOf(const Arguments& arguments) {
  Request request;
  request.set_session_id(arguments.session_id);
  request.set_block(arguments.block);
  if constexpr (requires { request.fact_id(); }) request.set_fact_id(arguments.fact_id);
  if constexpr (requires { request.text(); }) request.set_text(arguments.text);
  return request;
}

absl::Status Add(Connection& connection, Printer& printer, const Arguments& arguments) {
  auto request = RequestOf<v1::AddFactRequest>(arguments);
  if (arguments.trust.has_value()) request.set_trust(*arguments.trust);
  for (const std::string& id : arguments.message_ids) request.add_message_ids(id);
  MEMORYD_ASSIGN_OR_RETURN(const auto response, connection.Call(&Service::AddFact, request));
  printer.PrintMessage(response);
  return absl::OkStatus();
}

absl::Status Update(Connection& connection, Printer& printer, const Arguments& arguments) {
  const auto request = RequestOf<v1::UpdateFactRequest>(arguments);
  MEMORYD_ASSIGN_OR_RETURN(const auto response, connection.Call(&Service::UpdateFact, request));
  printer.PrintMessage(response);
  return absl::OkStatus();
}

absl::Status Delete(Connection& connection, Printer& printer, const Arguments& arguments) {
  MEMORYD_RETURN_IF_ERROR(Confirm(
      arguments.yes, fmt::format("Delete fact {} of block {} of session {}?", arguments.fact_id,
                                 arguments.block, arguments.session_id)));
  const auto request = RequestOf<v1::DeleteFactRequest>(arguments);
  MEMORYD_ASSIGN_OR_RETURN(const auto response, connection.Call(&Service::DeleteFact, request));
  printer.PrintMessage(response);
  return absl::OkStatus();
}

absl::Status Undo(Connection& connection, Printer& printer, const Arguments& arguments) {
  auto request = RequestOf<v1::UndoBlockChangeRequest>(arguments);
  request.set_change(arguments.change);
  MEMORYD_RETURN_IF_ERROR(connection.Call(&Service::UndoBlockChange, request).status());
  return List(connection, printer, arguments);
}

}  // namespace

void AddFacts(CLI::App& app, Invocation& invocation) {
  CLI::App& facts = AddGroup(app, "facts", "Facts of a block");
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    CLI::App& command = AddCommand(facts, name, help, invocation,
                                   [arguments, run](Connection& connection, Printer& printer) {
                                     return run(connection, printer, *arguments);
                                   });
    command.add_option("SESSION", arguments->session_id, "The session.")->required();
    command.add_option("BLOCK", arguments->block, "The block's name.")->required();
    return command;
  };
  const auto name_fact = [&](CLI::App& command) {
    command.add_option("FACT_ID", arguments->fact_id, "The fact.")->required();
  };
  const auto give_text = [&](CLI::App& command) {
    command.add_option("TEXT", arguments->text, "The fact's text.")->required();
  };
  add("list", "Lists the facts that hold.", &List)
      .add_flag("--history", arguments->history,
                "List the facts that no longer hold, with the changes.");
  CLI::App& addition = add("add", "Adds a fact.", &Add);
  give_text(addition);
  addition.add_option("--trust", arguments->trust,
                      "The fact's trust, 0 to 1; the server may lower it.");
  AddRepeatable(addition, "--message", arguments->message_ids,
                "Id of a message that is its evidence; repeatable.");
  CLI::App& correction = add("update", "Corrects a fact.", &Update);
  name_fact(correction);
  give_text(correction);
  CLI::App& deletion = add("delete", "Deletes a fact.", &Delete);
  name_fact(deletion);
  deletion.add_flag("--yes", arguments->yes, "Do not ask for confirmation.");
  add("undo", "Undoes a change, and lists the facts that hold afterwards.", &Undo)
      .add_option("CHANGE", arguments->change, "Number of the change.")
      ->required();
}

}  // namespace memoryd::cli
