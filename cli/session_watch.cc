#include "cli/session_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/Validators.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/call_error.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/diagnostic.h"
#include "cli/printer.h"
#include "cli/terminal_text.h"
#include "cli/time_text.h"
#include "core/base/status_macros.h"

namespace memoryd::cli {
namespace {

constexpr std::chrono::seconds kPause(1);

struct Arguments {
  std::string session_id;
  std::optional<std::int64_t> after_revision;
};

std::string Positions(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("message {}", first)
                       : fmt::format("messages {} to {}", first, last);
}

// Values that a later server sends are shown by their number.
std::string ChangeText(const v1::WatchSessionResponse& news, int change) {
  switch (change) {
    case v1::SESSION_CHANGE_RELOAD:
      return "changed since that revision";
    case v1::SESSION_CHANGE_MESSAGES_PUT:
      return Positions(news.first_new_position(), news.next_position() - 1) + " put";
    case v1::SESSION_CHANGE_MESSAGES_ARCHIVED:
      return fmt::format("messages left short-term memory, up to {}", news.watermark());
    case v1::SESSION_CHANGE_MESSAGES_REMOVED:
      return "messages removed";
    case v1::SESSION_CHANGE_MESSAGES_REPLACED:
      return "all messages replaced";
    case v1::SESSION_CHANGE_ITEMS_EDITED:
      return "a message or content edited or deleted";
    case v1::SESSION_CHANGE_CONTENTS_PUT:
      return "contents put";
    case v1::SESSION_CHANGE_CONTENTS_REPLACED:
      return "all contents replaced";
    case v1::SESSION_CHANGE_BLOCKS:
      return EscapeForTerminal(fmt::format("blocks changed: {}", fmt::join(news.blocks(), " ")));
    case v1::SESSION_CHANGE_JOBS:
      return "jobs made or ended";
    case v1::SESSION_CHANGE_CONFIG:
      return "configuration changed";
    case v1::SESSION_CHANGE_DELETED:
      return "deleted";
    default:
      return fmt::format("change {}", change);
  }
}

void Print(const v1::WatchSessionResponse& news, bool is_first, Printer& printer) {
  if (printer.json()) {
    printer.PrintMessage(news);
  } else if (const std::string text = NewsText(news); !text.empty() || is_first) {
    const v1::Session& session = news.session();
    const std::string when = session.has_update_time() ? TimeText(session.update_time()) + " " : "";
    const std::string revision =
        news.revision() > 0 ? fmt::format("revision {}: ", news.revision()) : "";
    printer.Print(fmt::format("{}{}{}\n", when, revision, text.empty() ? "watching" : text));
  }
  printer.Flush();
}

absl::Status Watch(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::WatchSessionRequest request;
  request.set_session_id(arguments.session_id);
  if (arguments.after_revision.has_value()) request.set_after_revision(*arguments.after_revision);
  bool began = false;
  std::string told;
  while (true) {
    absl::Status status =
        connection.WatchSession(request, [&](const v1::WatchSessionResponse& news) {
          Print(news, !began, printer);
          began = true;
          told.clear();
          request.set_after_revision(news.revision());
          return printer.status();
        });
    if (status.ok()) return status;
    MEMORYD_RETURN_IF_ERROR(printer.status());
    if (!began || ExitCodeOf(status) != kNotAnswered) return status;
    if (status.message() != told) {
      told = std::string(status.message());
      PrintWarning(fmt::format("{}; watching again", told), printer.json());
    }
    printer.Wait(kPause);
    MEMORYD_RETURN_IF_ERROR(printer.status());
  }
}

}  // namespace

std::string NewsText(const v1::WatchSessionResponse& news) {
  std::vector<std::string> texts;
  for (const int change : news.changes()) texts.push_back(ChangeText(news, change));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void AddSessionWatch(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& watch =
      AddCommand(app, "watch", "Shows what changes in a session, until it is deleted.", invocation,
                 [arguments](Connection& connection, Printer& printer) {
                   return Watch(connection, printer, *arguments);
                 });
  watch.group("Put in and read");
  watch.add_option("SESSION", arguments->session_id, "The session.")->required();
  watch
      .add_option("--after-revision", arguments->after_revision,
                  "Say also whether the session has changed since this revision.")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""));
}

}  // namespace memoryd::cli
