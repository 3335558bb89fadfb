#include "cli/jobs.h"

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cli/pages.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/job_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::JobService::Stub;

struct Arguments {
  std::string session_id;
  std::string job_id;
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
};

const std::map<std::string, v1::JobState>& States() {
  static const auto* const states =
      new std::map<std::string, v1::JobState>{{"open", v1::JOB_STATE_OPEN},
                                              {"done", v1::JOB_STATE_DONE},
                                              {"failed", v1::JOB_STATE_FAILED},
                                              {"cancelled", v1::JOB_STATE_CANCELLED}};
  return *states;
}

std::string StateName(v1::JobState state) {
  for (const auto& [name, value] : States()) {
    if (value == state) return name;
  }
  return fmt::to_string(static_cast<int>(state));
}

// Prints jobs as they come: in a table a page at a time, so that the columns of many sessions are
// aligned.
class JobList {
 public:
  JobList(Connection& connection, Printer& printer, v1::JobState state)
      : connection_(connection), printer_(printer), state_(state) {}

  absl::Status Add(const std::string& session_id) {
    v1::ListJobsRequest request;
    request.set_session_id(session_id);
    request.set_state(state_);
    return ReadPages(connection_, &Service::ListJobs, request, 0,
                     [&](const v1::ListJobsResponse& page) {
                       for (const v1::Job& job : page.jobs()) Add(session_id, job);
                       if (table_.size() >= kPageSize) printer_.Print(table_.Take());
                       return page.jobs_size();
                     });
  }

  void Finish() {
    if (!printer_.json()) printer_.Print(table_.Take());
  }

 private:
  void Add(const std::string& session_id, const v1::Job& job) {
    if (printer_.json()) {
      printer_.PrintJson("job", job, session_id);
      return;
    }
    table_.Add({session_id, job.job_id(), job.block(), StateName(job.state()),
                fmt::to_string(job.attempts()),
                fmt::format("{}-{}", job.begin_position(), job.end_position() - 1),
                TimeText(job.update_time()), TimeText(job.due_time()), job.last_error()});
  }

  Connection& connection_;
  Printer& printer_;
  const v1::JobState state_;
  Table table_{
      {"SESSION", "JOB", "BLOCK", "STATE", "ATTEMPTS", "POSITIONS", "UPDATED", "DUE", "ERROR"},
      printer_.width()};
};

absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  JobList list(connection, printer, arguments.state);
  if (!arguments.session_id.empty()) {
    MEMORYD_RETURN_IF_ERROR(list.Add(arguments.session_id));
  } else {
    absl::Status status;
    const absl::Status listed =
        ReadPages(connection, &v1::SessionService::Stub::ListSessions, v1::ListSessionsRequest(), 0,
                  [&](const v1::ListSessionsResponse& page) {
                    for (const v1::Session& session : page.sessions()) {
                      // No session holds jobs that has no blocks, and many have none.
                      if (status.ok() && session.config().blocks_size() > 0) {
                        status = list.Add(session.session_id());
                      }
                    }
                    return page.sessions_size();
                  });
    MEMORYD_RETURN_IF_ERROR(status);
    MEMORYD_RETURN_IF_ERROR(listed);
  }
  list.Finish();
  return absl::OkStatus();
}

// GetJob, RetryJob and CancelJob: each names a job, and answers with one.
template <typename Request, typename Response>
auto AnswerWithJob(grpc::Status (Service::*method)(grpc::ClientContext*, const Request&,
                                                   Response*)) {
  return [method](Connection& connection, Printer& printer,
                  const Arguments& arguments) -> absl::Status {
    Request request;
    request.set_session_id(arguments.session_id);
    request.set_job_id(arguments.job_id);
    MEMORYD_ASSIGN_OR_RETURN(const Response response, connection.Call(method, request));
    printer.PrintNamed("job", response.job(), arguments.session_id);
    return absl::OkStatus();
  };
}

}  // namespace

void AddJobs(CLI::App& app, Invocation& invocation) {
  CLI::App& jobs = AddGroup(app, "jobs", "Lists, shows, retries and cancels jobs.");
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    return AddCommand(jobs, name, help, invocation,
                      [arguments, run](Connection& connection, Printer& printer) {
                        return run(connection, printer, *arguments);
                      });
  };
  CLI::App& list =
      add("list", "Lists jobs; of all sessions by a call for each that has blocks.", &List);
  list.add_option("ID", arguments->session_id, "The session; none: all.");
  list.add_option("--state", arguments->state, "open, done, failed or cancelled.")
      ->transform(CLI::CheckedTransformer(States()).description(""));
  const auto name_job = [&](CLI::App& command) {
    command.add_option("ID", arguments->session_id, "The session.")->required();
    command.add_option("JOB_ID", arguments->job_id, "The job.")->required();
  };
  name_job(add("show", "Shows a job.", AnswerWithJob(&Service::GetJob)));
  name_job(add("retry", "Feeds the messages of a job that failed or was cancelled, by a new job.",
               AnswerWithJob(&Service::RetryJob)));
  name_job(
      add("cancel", "Gives up the first open job of a block.", AnswerWithJob(&Service::CancelJob)));
}

}  // namespace memoryd::cli
