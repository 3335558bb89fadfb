#include "cli/erase.h"

#include <fmt/format.h>

#include <memory>
#include <string>

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

absl::Status Erase(Connection& connection, Printer& printer, const Arguments& arguments) {
  if (arguments.dry_run || !arguments.yes) {
    MEMORYD_ASSIGN_OR_RETURN(const Response counts, Call(connection, arguments, true));
    if (arguments.dry_run) {
      if (printer.json()) {
        printer.PrintMessage(counts);
      } else {
        printer.Print(fmt::format("would erase {}\n", CountsText(counts)));
      }
      return absl::OkStatus();
    }
    MEMORYD_RETURN_IF_ERROR(Confirm(
        false, fmt::format("Erase subject {} with {}?", arguments.subject, CountsText(counts))));
  }
  Response erased;
  do {
    MEMORYD_ASSIGN_OR_RETURN(const Response response, Call(connection, arguments, false));
    erased = Sum(erased, response);
  } while (erased.left_reason() == "DEADLINE");
  if (printer.json()) {
    printer.PrintMessage(erased);
  } else {
    printer.Print(fmt::format("erased {}\n", CountsText(erased)));
  }
  if (erased.purged()) return absl::OkStatus();
  return absl::AbortedError(
      "erase: sessions of the subject are still being written; stop that and repeat the command");
}

}  // namespace

void AddErase(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command =
      AddCommand(app, "erase", "Removes all sessions of a subject, and what they left.", invocation,
                 [arguments](Connection& connection, Printer& printer) {
                   return Erase(connection, printer, *arguments);
                 });
  command.add_option("--subject", arguments->subject, "The subject.")->required();
  command.add_flag("--dry-run", arguments->dry_run, "Count what there is, and change nothing.");
  command.add_flag("--yes", arguments->yes, "Do not ask.");
}

}  // namespace memoryd::cli
