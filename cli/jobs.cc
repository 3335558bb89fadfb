#include "cli/jobs.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/pages.h"
#include "cli/printer.h"
#include "cli/progress.h"
#include "cli/sessions.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "cli/watch.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/job_service.grpc.pb.h"
#include "memoryd/v1/session_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::JobService::Stub;

struct Arguments {
  std::string session_id;
  std::string job_id;
  std::string state;
  Watch watch;
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

// Prints jobs as they come, those that it has not printed as they are: in a table a page at a time,
// so that the columns of many sessions are aligned.
class JobList {
 public:
  // `remembers`: whether it prints a job only when that has changed since the round before.
  JobList(Connection& connection, Printer& printer, v1::JobState state, bool remembers)
      : connection_(connection), printer_(printer), state_(state), remembers_(remembers) {}

  // Its jobs; in another round than the first only if they may have changed: those of a session
  // that has none open change with its revision.
  absl::Status Add(const v1::Session& session) {
    Seen& seen = seen_[session.session_id()];
    if (remembers_ && !seen.any_open && seen.generation == session.generation() &&
        seen.revision == session.revision()) {
      return absl::OkStatus();
    }
    if (!remembers_) {
      ++sessions_;
      progress_.Show([&] { return fmt::format("{} sessions with blocks", sessions_); });
    }
    const bool any_open = std::exchange(any_open_, false);
    absl::Status status = Add(session.session_id());
    seen = {session.generation(), status.ok() ? session.revision() : 0, any_open_};
    any_open_ |= any_open;
    return status;
  }

  absl::Status Add(const std::string& session_id) {
    v1::ListJobsRequest request;
    request.set_session_id(session_id);
    // A job that is watched may get another state.
    if (!remembers_) request.set_state(state_);
    return ReadPages(connection_, &Service::ListJobs, request, 0,
                     [&](const v1::ListJobsResponse& page) {
                       for (const v1::Job& job : page.jobs()) {
                         any_ = true;
                         any_open_ |= job.state() == v1::JOB_STATE_OPEN;
                         if (IsNews(session_id, job)) Add(session_id, job);
                       }
                       if (table_.size() >= kPageSize) Print(table_.Take());
                       return TakenOf(printer_, page.jobs_size());
                     });
  }

  // Whether there has been a job at all, with the state that was asked for.
  bool any() const { return any_; }

  // After the last session. Whether one of the jobs that were added since the last call is open.
  bool EndRound() {
    Print(table_.Take());
    printer_.Flush();
    return std::exchange(any_open_, false);
  }

 private:
  struct Seen {
    std::uint64_t generation = 0;
    std::int64_t revision = 0;  // That no session has.
    bool any_open = false;
  };

  void Print(const std::string& rows) {
    progress_.Clear();
    if (!printer_.json()) printer_.Print(rows);
  }

  bool IsNews(const std::string& session_id, const v1::Job& job) {
    if (!remembers_) return true;
    if (state_ != v1::JOB_STATE_UNSPECIFIED && job.state() != state_) return false;
    std::string now =
        fmt::format("{} {} {}", static_cast<int>(job.state()), job.attempts(), job.last_error());
    std::string& known = known_[{session_id, job.job_id()}];
    if (known == now) return false;
    known = std::move(now);
    return true;
  }

  void Add(const std::string& session_id, const v1::Job& job) {
    if (printer_.json()) {
      progress_.Clear();
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
  const bool remembers_;
  Progress progress_;
  std::int64_t sessions_ = 0;
  bool any_ = false;
  bool any_open_ = false;
  // How each session was when it was asked last.
  std::map<std::string, Seen> seen_;
  // How each job was when it was printed.
  std::map<std::pair<std::string, std::string>, std::string> known_;
  Table table_{
      {"SESSION", "JOB", "BLOCK", "STATE", "ATTEMPTS", "POSITIONS", "UPDATED", "DUE", "ERROR"},
      printer_.width(),
      printer_.colour()};
};

absl::Status AddAll(Connection& connection, JobList& list) {
  return ReadPages(connection, &v1::SessionService::Stub::ListSessions, v1::ListSessionsRequest(),
                   0, [&](const v1::ListSessionsResponse& page) -> absl::StatusOr<std::int64_t> {
                     for (const v1::Session& session : page.sessions()) {
                       // No session holds jobs that has no blocks, and many have none.
                       if (session.config().blocks_size() == 0) continue;
                       MEMORYD_RETURN_IF_ERROR(list.Add(session));
                     }
                     return page.sessions_size();
                   });
}

absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  JobList list(connection, printer,
               arguments.state.empty() ? v1::JOB_STATE_UNSPECIFIED : States().at(arguments.state),
               arguments.watch.on);
  return Repeat(arguments.watch, printer, [&]() -> absl::StatusOr<bool> {
    if (arguments.session_id.empty()) {
      MEMORYD_RETURN_IF_ERROR(AddAll(connection, list));
      return list.EndRound();
    }
    MEMORYD_RETURN_IF_ERROR(list.Add(arguments.session_id));
    // One that is not there has no jobs.
    if (!list.any()) {
      MEMORYD_RETURN_IF_ERROR(GetSession(connection, arguments.session_id).status());
    }
    return list.EndRound();
  });
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
  CLI::App& jobs = AddGroup(app, "jobs", "Jobs that feed blocks");
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help, auto run) -> CLI::App& {
    return AddCommand(jobs, name, help, invocation,
                      [arguments, run](Connection& connection, Printer& printer) {
                        return run(connection, printer, *arguments);
                      });
  };
  CLI::App& list =
      add("list", "Lists jobs; without SESSION, by a call for each session with blocks.", &List);
  list.add_option("SESSION", arguments->session_id, "The session; none: all.");
  list.add_option("--state", arguments->state, "open, done, failed or cancelled.")
      ->check(OneOf({"open", "done", "failed", "cancelled"}));
  AddWatch(list, arguments->watch, "until no job is open");
  const auto name_job = [&](CLI::App& command) {
    command.add_option("SESSION", arguments->session_id, "The session.")->required();
    command.add_option("JOB_ID", arguments->job_id, "The job.")->required();
  };
  name_job(add("show", "Shows a job.", AnswerWithJob(&Service::GetJob)));
  name_job(add("retry", "Makes a new job with the messages of a failed or cancelled one.",
               AnswerWithJob(&Service::RetryJob)));
  name_job(
      add("cancel", "Gives up the first open job of a block.", AnswerWithJob(&Service::CancelJob)));
}

}  // namespace memoryd::cli
