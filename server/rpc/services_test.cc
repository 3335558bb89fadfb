#include "server/rpc/services.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/storage/observed_store.h"
#include "core/storage/store.h"
#include "core/workers/worker_registry.h"
#include "server/access/settings_in_force.h"
#include "server/ops/model_usage.h"
#include "server/wire/method.h"
#include "server/wire/stored_body.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_store.h"

namespace memoryd {
namespace {

constexpr std::string_view kReflection =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

class ServicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    real_ = *std::move(store);
    store_ = std::make_unique<ObservedStore>(real_.get());
    engine_options_.bodies = &bodies_;
    engine_options_.memory = &budget_;
    engine_options_.clock = &clock_;
    engine_options_.random = &random_;
    engine_ = std::make_unique<Engine>(store_.get(), engine_options_);
  }

  // Nothing is called of them: they need no environment.
  std::unique_ptr<Services> Make(bool wants_reflection) {
    const ServicesOptions options{
        .engine = engine_.get(),
        .workers = &workers_,
        .model_usage = &usage_,
        .facts = {.version = "1.2.3",
                  .revision = "abc",
                  .store_kind = "sqlite",
                  .options = engine_options_,
                  .store = store_.get(),
                  .settings = &settings_},
        .wants_reflection = wants_reflection,
    };
    return std::make_unique<Services>(options, CallEnvironment());
  }

  const StoredBodyReader bodies_{};
  MemoryBudget budget_{0};
  WorkerRegistry workers_;
  SettingsInForce settings_{{}};
  const FakeClock clock_{[] { return std::int64_t{1'000'000}; }};
  ModelUsage usage_{[](std::string_view) { return ModelBudget(); },
                    [](std::string_view) { return false; }, &clock_};
  EngineOptions engine_options_;
  FakeRandom random_{[] { return std::uint64_t{1}; }};
  std::unique_ptr<Store> real_;
  std::unique_ptr<ObservedStore> store_;
  std::unique_ptr<Engine> engine_;
};

// MethodTest.TheServicesOfTheTableAreThoseOfTheProtos has that these are all services.
TEST_F(ServicesTest, EveryMethodOfTheProtosIsServed) {
  const std::unique_ptr<Services> services = Make(/*wants_reflection=*/false);
  for (const std::string& name : ServicesOfMethods()) {
    const auto* const service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string path = "/" + name + "/" + service->method(i)->name();
      EXPECT_NE(services->methods().Find(path), nullptr) << path << " is missing from AddTo()";
    }
  }
}

TEST_F(ServicesTest, HealthIsServedOnBothAddressesAndNothingElseOnItsOwn) {
  const std::unique_ptr<Services> services = Make(/*wants_reflection=*/true);
  for (const std::string_view path :
       {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    EXPECT_NE(services->methods().Find(path), nullptr) << path;
    EXPECT_NE(services->health_methods().Find(path), nullptr) << path;
  }
  for (const MethodTraits& method : kMethods) {
    EXPECT_EQ(services->health_methods().Find(PathOf(method)), nullptr) << PathOf(method);
  }
  EXPECT_EQ(services->health_methods().Find(kReflection), nullptr);
}

TEST_F(ServicesTest, ReflectionIsServedWhereItIsWanted) {
  EXPECT_EQ(Make(/*wants_reflection=*/false)->methods().Find(kReflection), nullptr);
  EXPECT_NE(Make(/*wants_reflection=*/true)->methods().Find(kReflection), nullptr);
}

}  // namespace
}  // namespace memoryd
