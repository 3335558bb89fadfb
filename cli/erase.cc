#include "cli/erase.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/printer.h"
#include "cli/progress.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Response = v1::EraseSubjectResponse;

struct Arguments {
  std::string subject;
  bool dry_run = false;
  bool yes = false;
};

std::string CountsText(const Response& counts) {
  return fmt::format(
      "{} sessions, {} messages, {} contents, {} blocks, {} entries, {} jobs, {} replies",
      counts.session_count(), counts.message_count(), counts.content_count(), counts.block_count(),
      counts.entry_count(), counts.job_count(), counts.reply_count());
}

absl::StatusOr<Response> Call(Connection& connection, const Arguments& arguments, bool dry_run) {
  v1::EraseSubjectRequest request;
  request.set_subject(arguments.subject);
  request.set_dry_run(dry_run);
  return connection.Call(&v1::SessionService::Stub::EraseSubject, request);
}

// What both calls removed, and how the second one ended.
Response Sum(const Response& before, Response last) {
  last.set_session_count(before.session_count() + last.session_count());
  last.set_message_count(before.message_count() + last.message_count());
  last.set_content_count(before.content_count() + last.content_count());
  last.set_block_count(before.block_count() + last.block_count());
  last.set_entry_count(before.entry_count() + last.entry_count());
  last.set_job_count(before.job_count() + last.job_count());
  last.set_reply_count(before.reply_count() + last.reply_count());
  return last;
}

// Repeats the call until nothing is left, or nothing more can be done. What has gone is shown after
// each, beside `total` where that is known.
absl::StatusOr<Response> EraseAll(Connection& connection, const Arguments& arguments,
                                  const std::optional<Response>& total) {
  Progress progress;
  Response erased;
  do {
    progress.Show([&] {
      if (!total.has_value()) return fmt::format("erased {}", CountsText(erased));
      return fmt::format("erased {} of {} sessions, {} of {} messages", erased.session_count(),
                         total->session_count(), erased.message_count(), total->message_count());
    });
    MEMORYD_ASSIGN_OR_RETURN(const Response response, Call(connection, arguments, false));
    erased = Sum(erased, response);
  } while (erased.left_reason() == "DEADLINE");
  return erased;
}

absl::Status Erase(Connection& connection, Printer& printer, const Arguments& arguments) {
  std::optional<Response> total;
  if (arguments.dry_run || !arguments.yes) {
    MEMORYD_ASSIGN_OR_RETURN(total, Call(connection, arguments, true));
    if (arguments.dry_run) {
      if (printer.json()) {
        printer.PrintMessage(*total);
      } else {
        printer.Print(fmt::format("would erase {}\n", CountsText(*total)));
      }
      return absl::OkStatus();
    }
    MEMORYD_RETURN_IF_ERROR(Confirm(
        false, fmt::format("Erase subject {} with {}?", arguments.subject, CountsText(*total))));
  } else if (Progress::IsShown()) {
    // What is too large to be counted within one call is erased all the same.
    auto counted = Call(connection, arguments, true);
    if (counted.ok()) total = *std::move(counted);
  }
  MEMORYD_ASSIGN_OR_RETURN(const Response erased, EraseAll(connection, arguments, total));
  if (printer.json()) {
    printer.PrintMessage(erased);
  } else {
    printer.Print(fmt::format("erased {}\n", CountsText(erased)));
    if (!erased.left_elsewhere().empty()) {
      printer.Print(fmt::format("left to the store's operator: {}\n", erased.left_elsewhere()));
    }
  }
  if (erased.purged()) return absl::OkStatus();
  if (erased.left_reason() == "LOG_READ") {
    return absl::AbortedError(
        "erase: another program reads the log of the store's file (fuser PATH); end that, or let "
        "it "
        "end, and repeat the command");
  }
  return absl::AbortedError(
      "erase: sessions of the subject are still being written; stop that and repeat the command");
}

}  // namespace

void AddErase(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command =
      AddCommand(app, "erase", "Removes all sessions and items of a subject, and their traces.",
                 invocation, [arguments](Connection& connection, Printer& printer) {
                   return Erase(connection, printer, *arguments);
                 });
  command.add_option("--subject", arguments->subject, "The subject.")->required();
  command.add_flag("--dry-run", arguments->dry_run, "Count the data and change nothing.");
  command.add_flag("--yes", arguments->yes, "Do not ask for confirmation.");
}

}  // namespace memoryd::cli
