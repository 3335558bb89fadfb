#include "server/rpc/server_service.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/model/session_config.h"
#include "core/reads/page.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "server/access/authenticator.h"
#include "server/access/settings_in_force.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/settings/limits.h"
#include "server/wire/convert.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

v1::DurabilityClass ToProto(Durability durability) {
  switch (durability) {
    case Durability::kNone:
      return v1::DURABILITY_CLASS_NONE;
    case Durability::kLocal:
      return v1::DURABILITY_CLASS_LOCAL;
    case Durability::kReplicated:
      return v1::DURABILITY_CLASS_REPLICATED;
  }
  return v1::DURABILITY_CLASS_UNSPECIFIED;
}

void SetLimits(const ServerFacts& facts, v1::Limits& limits) {
  const EngineOptions& options = facts.options;
  limits.set_request_bytes(facts.request_bytes);
  limits.set_item_bytes(facts.item_bytes);
  limits.set_messages_per_request(kMaxMessagesPerRequest);
  limits.set_session_id_bytes(static_cast<std::int32_t>(kMaxSessionId));
  limits.set_default_page_size(kDefaultPageSize);
  limits.set_max_page_size(kMaxPageSize);
  limits.set_page_bytes(PageRequest().max_bytes);
  limits.set_reply_bytes(static_cast<std::int64_t>(kMaxReplyBytes));
  limits.mutable_max_deadline()->set_seconds(kMaxDeadline.count());
  limits.set_pending_calls(options.max_pending_calls);
  limits.set_pending_bytes(options.max_pending_bytes);
  limits.mutable_request_id_retention()->set_seconds(
      std::chrono::seconds(options.keep_requests).count());
  limits.set_cache_bytes(static_cast<std::int64_t>(options.cache_bytes));
  limits.set_index_bytes(static_cast<std::int64_t>(options.index_bytes));
}

void Describe(const Caller& caller, v1::CallerDescription& description) {
  description.set_tenant(caller.tenant);
  description.set_subject(caller.subject);
  for (const Right right : {Right::kRead, Right::kWrite, Right::kAdmin, Right::kWorker}) {
    if (caller.rights.Has(right)) description.add_rights(std::string(NameOf(right)));
  }
}

}  // namespace

v1::GetServerInfoResponse ServerInfo(const ServerFacts& facts, const Caller& caller) {
  v1::GetServerInfoResponse info;
  info.set_version(std::string(facts.version));
  info.set_revision(std::string(facts.revision));
  SetTime(info.mutable_start_time(), facts.start_us);
  v1::StoreDescription& store = *info.mutable_store();
  const StoreInfo described = facts.store->info();
  store.set_kind(std::string(facts.store_kind));
  if (!described.kind.empty()) {
    store.set_schema_version(described.schema_version);
    store.set_durability(ToProto(described.durability));
  }
  store.set_coherence(facts.options.coherence == Coherence::kShared ? v1::COHERENCE_MODE_SHARED
                                                                    : v1::COHERENCE_MODE_EXCLUSIVE);
  SetLimits(facts, *info.mutable_limits());
  for (const std::string_view name : ProfileNames()) info.add_profiles(std::string(name));
  for (const std::string_view name : TokenizerNames()) info.add_tokenizers(std::string(name));
  info.set_has_word_vectors(facts.options.word_vectors != nullptr);
  info.set_plaintext_beyond_loopback(facts.plaintext_beyond_loopback);
  if (facts.takes_tokens) info.add_authentication(v1::AUTHENTICATION_METHOD_TOKEN);
  if (facts.takes_certificates) {
    info.add_authentication(v1::AUTHENTICATION_METHOD_CERTIFICATE);
  }
  const std::shared_ptr<const TenantSettings> settings = facts.settings->Now();
  for (std::string& name : settings->TemplateNames(caller.tenant))
    info.add_templates(std::move(name));
  info.set_default_template(std::string(settings->tenants.DefaultTemplateOf(caller.tenant)));
  Describe(caller, *info.mutable_caller());
  return info;
}

void ServerService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kGetServerInfo, this, &ServerService::GetServerInfo);
}

void ServerService::GetServerInfo(RpcCallPtr rpc) {
  using Call = std::shared_ptr<ParsedCall<v1::GetServerInfoRequest>>;
  RunUnary<v1::GetServerInfoRequest>(
      environment_, Method::kGetServerInfo, std::move(rpc), [this](const Call& call) {
        call->Succeed(ServerInfo(facts_, call->caller()).SerializeAsString());
        return absl::OkStatus();
      });
}

}  // namespace memoryd
