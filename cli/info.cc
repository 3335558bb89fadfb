#include "cli/info.h"

#include "absl/status/status.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/printer.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/server_service.grpc.pb.h"

namespace memoryd::cli {

void AddInfo(CLI::App& app, Invocation& invocation) {
  AddCommand(app, "info", "Shows the server's version, store and limits.", invocation,
             [](Connection& connection, Printer& printer) -> absl::Status {
               MEMORYD_ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info,
                                        connection.Call(&v1::ServerService::Stub::GetServerInfo,
                                                        v1::GetServerInfoRequest()));
               printer.PrintMessage(info);
               return absl::OkStatus();
             });
}

}  // namespace memoryd::cli
