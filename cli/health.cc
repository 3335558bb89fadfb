#include "cli/health.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/printer.h"
#include "core/base/status_macros.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace memoryd::cli {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

absl::Status Check(Connection& connection, Printer& printer, const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  MEMORYD_ASSIGN_OR_RETURN(const HealthCheckResponse response,
                           connection.Call(&grpc::health::v1::Health::Stub::Check, request));
  if (response.status() == HealthCheckResponse::SERVING) {
    printer.PrintMessage(response);
    return absl::OkStatus();
  }
  return absl::UnavailableError(HealthCheckResponse::ServingStatus_Name(response.status()));
}

}  // namespace

void AddHealth(CLI::App& app, Invocation& invocation) {
  const auto service = std::make_shared<std::string>();
  CLI::App& command =
      AddCommand(app, "health", "Checks whether the server serves; its health port answers too.",
                 invocation, [service](Connection& connection, Printer& printer) {
                   return Check(connection, printer, *service);
                 });
  command
      .add_option("--service", *service,
                  "`liveness`: whether the process runs, even without its store.")
      ->check(Offering({"liveness"}));
}

}  // namespace memoryd::cli
