#include "server/rpc/server_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "core/storage/store.h"
#include "core/storage/stores.h"
#include "server/access/settings_in_force.h"
#include "server/access/tenant_limits.h"
#include "server/wire/method.h"
#include "tests/support/memory_store.h"

namespace memoryd {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ServerInfoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    real_ = *std::move(store);
    store_ = std::make_unique<ObservedStore>(real_.get());
    caller_.tenant = "a";
    caller_.rights = Rights::All();
  }

  v1::GetServerInfoResponse Info() {
    return ServerInfo({.version = "1.2.3",
                       .revision = "abc",
                       .start_us = 1'700'000'000'000'001,
                       .store_kind = "sqlite",
                       .takes_tokens = takes_tokens_,
                       .takes_certificates = takes_certificates_,
                       .options = options_,
                       .store = store_.get(),
                       .request_bytes = 36 << 20,
                       .item_bytes = 32 << 20,
                       .settings = &settings_},
                      caller_);
  }

  bool takes_tokens_ = false;
  bool takes_certificates_ = false;
  EngineOptions options_;
  Caller caller_;
  SettingsInForce settings_{{}};
  std::unique_ptr<Store> real_;
  std::unique_ptr<ObservedStore> store_;
};

TEST_F(ServerInfoTest, TellsWhatWasConfigured) {
  options_.coherence = Coherence::kExclusive;
  options_.max_pending_calls = 17;
  options_.cache_bytes = 1 << 20;
  const v1::GetServerInfoResponse info = Info();
  EXPECT_EQ(info.version(), "1.2.3");
  EXPECT_EQ(info.revision(), "abc");
  EXPECT_EQ(info.start_time().seconds(), 1'700'000'000);
  EXPECT_EQ(info.start_time().nanos(), 1000);
  EXPECT_EQ(info.store().coherence(), v1::COHERENCE_MODE_EXCLUSIVE);
  EXPECT_EQ(info.limits().pending_calls(), 17);
  EXPECT_EQ(info.limits().item_bytes(), 32 << 20);
  EXPECT_EQ(info.limits().cache_bytes(), 1 << 20);
  EXPECT_EQ(info.limits().request_id_retention().seconds(), 24 * 3600);
  EXPECT_THAT(info.profiles(), Contains("default"));
  EXPECT_THAT(info.tokenizers(), Contains("cl100k_base"));
  EXPECT_THAT(info.authentication(), IsEmpty());
}

TEST_F(ServerInfoTest, TellsTheTemplatesAndTheTenantsOwn) {
  TenantLimitTable tenants;
  tenants.exceptions["a"].default_template = "chat";
  settings_.Replace({tenants, {{"chat", nullptr}, {"big", nullptr}}});
  const v1::GetServerInfoResponse info = Info();
  EXPECT_THAT(info.templates(), ElementsAre("big", "chat"));
  EXPECT_EQ(info.default_template(), "chat");
  tenants.exceptions["a"].templates = {"chat"};
  settings_.Replace({tenants, {{"chat", nullptr}, {"big", nullptr}}});
  EXPECT_THAT(Info().templates(), ElementsAre("chat"));
}

TEST_F(ServerInfoTest, NoLimitIsMissing) {
  const v1::GetServerInfoResponse info = Info();
  const v1::Limits& limits = info.limits();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  limits.GetReflection()->ListFields(limits, &set);
  EXPECT_EQ(static_cast<int>(set.size()), v1::Limits::descriptor()->field_count());
}

TEST_F(ServerInfoTest, DurabilityIsNotClaimedBeforeTheStoreHasAnswered) {
  EXPECT_EQ(Info().store().kind(), "sqlite");
  EXPECT_EQ(Info().store().durability(), v1::DURABILITY_CLASS_UNSPECIFIED);
  ASSERT_TRUE(store_->Describe().ok());
  EXPECT_EQ(Info().store().durability(), v1::DURABILITY_CLASS_NONE);
  EXPECT_GE(Info().store().schema_version(), 1);
}

TEST_F(ServerInfoTest, TellsHowCallersMaySayWhoTheyAre) {
  takes_certificates_ = true;
  EXPECT_THAT(Info().authentication(), ElementsAre(v1::AUTHENTICATION_METHOD_CERTIFICATE));
  takes_tokens_ = true;
  EXPECT_THAT(Info().authentication(),
              ElementsAre(v1::AUTHENTICATION_METHOD_TOKEN, v1::AUTHENTICATION_METHOD_CERTIFICATE));
}

TEST_F(ServerInfoTest, TellsWhoCalls) {
  EXPECT_EQ(Info().caller().tenant(), "a");
  EXPECT_EQ(Info().caller().subject(), "");
  EXPECT_THAT(Info().caller().rights(), ElementsAre("read", "write", "admin", "worker"));

  caller_.subject = "ada";
  caller_.rights = {};
  caller_.rights.Add(Right::kWrite);
  EXPECT_EQ(Info().caller().subject(), "ada");
  EXPECT_THAT(Info().caller().rights(), ElementsAre("write"));
}

}  // namespace
}  // namespace memoryd
