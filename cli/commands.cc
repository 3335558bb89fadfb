#include "cli/commands.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <vector>

#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/embeddings.h"
#include "cli/erase.h"
#include "cli/export.h"
#include "cli/facts.h"
#include "cli/health.h"
#include "cli/import.h"
#include "cli/info.h"
#include "cli/items.h"
#include "cli/jobs.h"
#include "cli/messages.h"
#include "cli/program.h"
#include "cli/session_watch.h"
#include "cli/sessions.h"

namespace memoryd::cli {
namespace {

constexpr char kAbout[] = "memory for LLM agents: a server and its client commands.";

constexpr char kTry[] = R"(To begin with, and in another terminal:
  memoryd dev
  memoryd put s1 "My dog is called Bella."
  memoryd query s1 "What is the dog called?"

memoryd help COMMAND explains a command, memoryd serve --help the server's settings.
)";

}  // namespace

void AddCommands(CLI::App& app, Invocation& invocation, const Program& program) {
  app.name("memoryd");
  app.description(kAbout);
  app.require_subcommand(1);
  app.footer(kTry);
  const auto all = [&app] { return app.get_subcommands([](CLI::App*) { return true; }); };
  const auto grouped = [&all](const char* group, const auto& add) {
    const std::size_t before = all().size();
    add();
    const std::vector<CLI::App*> commands = all();
    for (std::size_t i = before; i < commands.size(); ++i) commands[i]->group(group);
  };
  AddServing(app, program);
  AddConversation(app, invocation);
  AddSessionWatch(app, invocation);
  grouped("Manage memory", [&] {
    AddSessions(app, invocation);
    AddMessages(app, invocation);
    AddFacts(app, invocation);
    AddItems(app, invocation);
    AddJobs(app, invocation);
    AddEmbeddings(app, invocation);
  });
  grouped("Export, import and erase", [&] {
    AddExport(app, invocation);
    AddImport(app, invocation);
    AddErase(app, invocation);
  });
  grouped("Inspect the server", [&] {
    AddHealth(app, invocation);
    AddInfo(app, invocation);
  });
  AddAbout(app, invocation, program);
  AddElsewhere(app, invocation);
}

}  // namespace memoryd::cli
