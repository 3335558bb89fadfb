#include "server/rpc/write_only_reply.h"

#include <string>
#include <utility>

#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

// The reply as `hide` leaves it; empty for one that can't be read.
template <typename Reply, typename Hide>
std::string Hidden(const std::string& bytes, const Hide& hide) {
  Reply reply;
  if (!reply.ParseFromString(bytes)) return {};
  hide(reply);
  return reply.SerializeAsString();
}

void HideConfig(auto& reply) { reply.mutable_session()->clear_config(); }

// Whom the session is about is all that a request says beside a template.
void HideTemplate(v1::Session& session, const v1::SessionConfig* sent) {
  if (session.template_().empty()) return;
  v1::SessionConfig config;
  if (sent != nullptr && sent->has_subject()) config.set_subject(sent->subject());
  if (sent != nullptr && sent->has_time_zone()) config.set_time_zone(sent->time_zone());
  session.clear_config();
  if (config.has_subject() || config.has_time_zone()) *session.mutable_config() = std::move(config);
}

void HideError(auto& reply) { reply.mutable_job()->clear_last_error(); }
void HideWriter(auto& reply) { reply.mutable_fact()->clear_writer(); }

void HideFact(v1::Fact& fact) {
  fact.clear_text();
  fact.clear_writer();
}

}  // namespace

std::string WithoutStoredText(Method method, std::string reply, const v1::SessionConfig* sent) {
  switch (method) {
    case Method::kPut:
      return Hidden<v1::PutResponse>(reply, [](v1::PutResponse& put) {
        for (v1::OpenJob& job : *put.mutable_open_jobs()) job.clear_error();
      });
    case Method::kCreateSession:
      return Hidden<v1::CreateSessionResponse>(reply, [sent](v1::CreateSessionResponse& create) {
        HideTemplate(*create.mutable_session(), sent);
      });
    case Method::kImportSession:
      return Hidden<v1::ImportSessionResponse>(reply, [](v1::ImportSessionResponse& import) {
        HideTemplate(*import.mutable_session(), nullptr);
      });
    case Method::kUpdateSession:
      return Hidden<v1::UpdateSessionResponse>(reply, [](auto& update) { HideConfig(update); });
    case Method::kForkSession:
      return Hidden<v1::ForkSessionResponse>(reply, [](auto& fork) { HideConfig(fork); });
    case Method::kUpdateNamespace:
      return Hidden<v1::UpdateNamespaceResponse>(
          reply, [](auto& update) { update.mutable_namespace_()->clear_config(); });
    case Method::kImportNamespace:
      return Hidden<v1::ImportNamespaceResponse>(
          reply, [](auto& import) { import.mutable_namespace_()->clear_config(); });
    case Method::kRetryJob:
      return Hidden<v1::RetryJobResponse>(reply, [](auto& retry) { HideError(retry); });
    case Method::kCancelJob:
      return Hidden<v1::CancelJobResponse>(reply, [](auto& cancel) { HideError(cancel); });
    case Method::kAddFact:
      return Hidden<v1::AddFactResponse>(reply, [](auto& add) { HideWriter(add); });
    case Method::kUpdateFact:
      return Hidden<v1::UpdateFactResponse>(reply, [](auto& update) { HideWriter(update); });
    case Method::kDeleteFact:
      return Hidden<v1::DeleteFactResponse>(
          reply, [](v1::DeleteFactResponse& gone) { HideFact(*gone.mutable_fact()); });
    case Method::kUndoBlockChange:
      return Hidden<v1::UndoBlockChangeResponse>(reply, [](v1::UndoBlockChangeResponse& undo) {
        for (v1::Fact& fact : *undo.mutable_facts()) HideFact(fact);
      });
    default:
      // Ids, counts and what the request brought, and nothing else.
      return reply;
  }
}

}  // namespace memoryd
