#include "cli/embeddings.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/printer.h"
#include "cli/terminal_text.h"
#include "cli/watch.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/block_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

struct Arguments {
  std::string session_id;
  std::string block = ".retrieval";
  Watch watch;
};

std::string NameOf(const v1::EmbeddingSource& source) {
  return source.model().empty() ? source.embedder()
                                : fmt::format("{} ({})", source.model(), source.embedder());
}

std::string LineOf(const v1::EmbeddingSource* source, const v1::NextEmbeddings* next) {
  std::string line = source != nullptr ? NameOf(*source) : "no embeddings";
  if (next != nullptr) {
    line += fmt::format(" -> {}: {} of {}", NameOf(next->source()), next->done_count(),
                        next->total_count());
  }
  return EscapeForTerminal(line);
}

// Embeddings of messages and the entries of a block both have these.
template <typename Known>
std::string LineOf(const Known& known) {
  return LineOf(known.has_source() ? &known.source() : nullptr,
                known.has_next() ? &known.next() : nullptr);
}

absl::Status Show(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::GetBlockRequest request;
  request.set_session_id(arguments.session_id);
  request.set_block(arguments.block);
  std::string shown;
  return Repeat(arguments.watch, printer, [&]() -> absl::StatusOr<bool> {
    MEMORYD_ASSIGN_OR_RETURN(const v1::GetBlockResponse response,
                             connection.Call(&v1::BlockService::Stub::GetBlock, request));
    const bool of_messages = response.has_embeddings();
    if (!of_messages && !response.has_entries()) {
      return absl::InvalidArgumentError(
          fmt::format("embeddings: block {} has none", arguments.block));
    }
    std::string line = of_messages ? LineOf(response.embeddings()) : LineOf(response.entries());
    if (line != shown) {
      if (!printer.json()) {
        printer.Print(line + "\n");
      } else if (of_messages) {
        printer.PrintJson("embeddings", response.embeddings());
      } else {
        printer.PrintJson("entries", response.entries());
      }
      printer.Flush();
      shown = std::move(line);
    }
    return of_messages ? response.embeddings().has_next() : response.entries().has_next();
  });
}

}  // namespace

void AddEmbeddings(CLI::App& app, Invocation& invocation) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command =
      AddCommand(app, "embeddings",
                 "Shows the model of a session's embeddings, and the progress of re-embedding.",
                 invocation, [arguments](Connection& connection, Printer& printer) {
                   return Show(connection, printer, *arguments);
                 });
  command.add_option("SESSION", arguments->session_id, "The session.")->required();
  command.add_option("BLOCK", arguments->block, "A block of kind vector; none: the messages.");
  AddWatch(command, arguments->watch, "until re-embedding has ended");
}

}  // namespace memoryd::cli
