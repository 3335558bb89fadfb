#include "cli/run.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/erase.h"
#include "cli/export.h"
#include "cli/facts.h"
#include "cli/health.h"
#include "cli/import.h"
#include "cli/info.h"
#include "cli/jobs.h"
#include "cli/messages.h"
#include "cli/sessions.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

void AddCommands(CLI::App& app, Invocation& invocation) {
  AddSessions(app, invocation);
  AddMessages(app, invocation);
  AddJobs(app, invocation);
  AddFacts(app, invocation);
  AddErase(app, invocation);
  AddExport(app, invocation);
  AddImport(app, invocation);
  AddHealth(app, invocation);
  AddInfo(app, invocation);
  app.require_subcommand(1);
}

int Fail(const absl::Status& status) {
  fmt::print(stderr, "memoryd: {}\n", EscapeForTerminal(std::string(status.message())));
  return ExitCodeOf(status);
}

absl::Status RunInvocation(const Invocation& invocation) {
  MEMORYD_ASSIGN_OR_RETURN(const auto connection, Connection::Open(invocation.connection));
  Printer printer(invocation.json);
  const absl::Status status = invocation.run(*connection, printer);
  const absl::Status printed = printer.Finish();
  return status.ok() ? printed : status;
}

}  // namespace

bool IsCommand(int argc, const char* const* argv) {
  // A server's start is not to wait until all commands are declared.
  if (argc < 2 || *argv[1] == '-') return false;
  Invocation invocation;
  CLI::App app;
  AddCommands(app, invocation);
  return std::ranges::any_of(app.get_subcommands(nullptr), [&](const CLI::App* command) {
    return command->get_name() == argv[1];
  });
}

int Run(int argc, const char* const* argv) {
  Invocation invocation;
  CLI::App app("memoryd: commands for operators of a running server.", "memoryd");
  AddCommands(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kDone;
  } catch (const CLI::ParseError& error) {
    return Fail(absl::InvalidArgumentError(error.what()));
  }
  const absl::Status status = RunInvocation(invocation);
  return status.ok() ? kDone : Fail(status);
}

std::string Summary() {
  Invocation invocation;
  CLI::App app;
  AddCommands(app, invocation);
  std::string text =
      "\nCommands for operators of a running server; --help behind one tells more:\n";
  for (const CLI::App* const command : app.get_subcommands(nullptr)) {
    text += fmt::format("  {:<27} {}\n", command->get_name(), command->get_description());
  }
  return text;
}

}  // namespace memoryd::cli
