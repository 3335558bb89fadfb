#include "server/ops/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/engine/engine.h"
#include "core/llm/configured_models.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/storage/observed_store.h"
#include "core/storage/store.h"
#include "core/workers/worker_registry.h"
#include "server/access/tenant_limiter.h"
#include "server/ops/call_stats.h"
#include "server/ops/calls_in_flight.h"
#include "server/ops/log.h"
#include "server/ops/memory_watch.h"
#include "server/ops/span_exporter.h"
#include "server/wire/method.h"
#include "server/wire/stored_body.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_store.h"

namespace memoryd {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    real_ = *std::move(store);
    store_ = std::make_unique<ObservedStore>(real_.get());
    EngineOptions engine_options;
    engine_options.bodies = &bodies_;
    engine_options.memory = &budget_;
    engine_options.clock = &clock_;
    engine_options.random = &random_;
    engine_ = std::make_unique<Engine>(store_.get(), engine_options);
    metrics_ =
        MakeMetrics({"1.2.3",       "abc",
                     1'500'000,     &calls_,
                     &in_flight_,   {},
                     &memory_,      &tenants_,
                     engine_.get(), store_.get(),
                     &log_,         nullptr,
                     &workers_,     nullptr,
                     nullptr,       nullptr,
                     nullptr,       nullptr,
                     &budget_,      [](std::string_view tenant) { return tenant == "named"; }});
  }

  // The metric with these labels in a new scrape.
  ClientMetric Find(const std::string& name, const Labels& labels = {}) {
    for (const MetricFamily& family : metrics_->Collect()) {
      if (family.name != name) continue;
      for (const ClientMetric& metric : family.metric) {
        if (metric.label == labels) return metric;
      }
    }
    ADD_FAILURE() << "no such metric: " << name;
    return {};
  }

  CallStats calls_;
  CallsInFlight in_flight_;
  MemoryBudget budget_{0};
  MemoryWatch memory_{0, [] { return std::int64_t{4096}; }, &budget_};
  TenantLimiter tenants_{TenantLimitTable()};
  Log log_{LogOptions()};
  WorkerRegistry workers_;
  const StoredBodyReader bodies_{};
  const FakeClock clock_{[] { return std::int64_t{1'000'000}; }};
  FakeRandom random_{[] { return std::uint64_t{1}; }};
  std::unique_ptr<Store> real_;
  std::unique_ptr<ObservedStore> store_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<prometheus::Collectable> metrics_;
};

TEST_F(MetricsTest, NamesAreUniqueAndFollowTheConventions) {
  std::set<std::string> names;
  for (const MetricFamily& family : metrics_->Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(family.name.starts_with("memoryd_") || family.name.starts_with("process_"));
    EXPECT_EQ(family.name.ends_with("_total"), family.type == MetricType::Counter) << family.name;
    EXPECT_TRUE(family.help.ends_with(".")) << family.name;
    EXPECT_FALSE(family.metric.empty()) << family.name;
    std::set<Labels> labels;
    for (const ClientMetric& metric : family.metric) {
      EXPECT_TRUE(labels.insert(metric.label).second) << family.name;
    }
  }
}

TEST_F(MetricsTest, MemoryIsHeldByUseAndByNamedTenants) {
  const MemoryBudget::Hold request = budget_.Count("named", MemoryUse::kRequests, 100);
  const MemoryBudget::Hold job = budget_.Count("from a caller", MemoryUse::kJobs, 20);
  const MemoryBudget::Hold answer = budget_.Count("from another", MemoryUse::kJobs, 3);
  EXPECT_EQ(Find("memoryd_memory_held_bytes", {{"use", "requests"}}).gauge.value, 100);
  EXPECT_EQ(Find("memoryd_memory_held_bytes", {{"use", "jobs"}}).gauge.value, 23);
  const auto of_tenant = [this](const char* tenant, const char* use) {
    return Find("memoryd_tenant_memory_bytes", {{"tenant", tenant}, {"use", use}}).gauge.value;
  };
  EXPECT_EQ(of_tenant("named", "requests"), 100);
  EXPECT_EQ(of_tenant("named", "jobs"), 0);
  EXPECT_EQ(of_tenant("other", "jobs"), 23);
}

TEST_F(MetricsTest, ACallIsCountedByMethodAndCode) {
  calls_.Ended(Method::kPut, absl::StatusCode::kOk, std::chrono::milliseconds(3));
  calls_.Ended(Method::kPut, absl::StatusCode::kAborted, std::chrono::milliseconds(3));
  calls_.Ended(Method::kGet, static_cast<absl::StatusCode>(99), std::chrono::milliseconds(3));
  EXPECT_EQ(Find("memoryd_rpc_total", {{"method", "Put"}, {"code", "OK"}}).counter.value, 1);
  EXPECT_EQ(Find("memoryd_rpc_total", {{"method", "Put"}, {"code", "ABORTED"}}).counter.value, 1);
  EXPECT_EQ(Find("memoryd_rpc_total", {{"method", "Get"}, {"code", "UNKNOWN"}}).counter.value, 1);
  EXPECT_EQ(Find("memoryd_rpc_total", {{"method", "Set"}, {"code", "OK"}}).counter.value, 0);
}

TEST_F(MetricsTest, BucketsAreCumulativeAndEndAtInfinity) {
  calls_.Ended(Method::kPut, absl::StatusCode::kOk, std::chrono::microseconds(100));
  calls_.Ended(Method::kPut, absl::StatusCode::kOk, std::chrono::milliseconds(2));
  calls_.Ended(Method::kPut, absl::StatusCode::kOk, std::chrono::minutes(1));
  const auto histogram = Find("memoryd_rpc_seconds", {{"method", "Put"}}).histogram;
  EXPECT_EQ(histogram.sample_count, 3u);
  EXPECT_NEAR(histogram.sample_sum, 60.0021, 1e-9);
  EXPECT_DOUBLE_EQ(histogram.bucket.front().upper_bound, 0.0001);
  EXPECT_EQ(histogram.bucket.front().cumulative_count, 1u);
  EXPECT_DOUBLE_EQ(histogram.bucket[4].upper_bound, 0.0025);
  EXPECT_EQ(histogram.bucket[4].cumulative_count, 2u);
  EXPECT_TRUE(std::isinf(histogram.bucket.back().upper_bound));
  EXPECT_EQ(histogram.bucket.back().cumulative_count, 3u);
}

TEST_F(MetricsTest, ReasonsOfRefusalsHaveTheirOwnCounters) {
  calls_.RefusedDraining();
  calls_.AuthFailed("RIGHT_MISSING");
  EXPECT_EQ(Find("memoryd_admission_rejected_total", {{"reason", "draining"}}).counter.value, 1);
  EXPECT_EQ(Find("memoryd_admission_rejected_total", {{"reason", "bytes"}}).counter.value, 0);
  EXPECT_EQ(Find("memoryd_auth_failures_total", {{"reason", "RIGHT_MISSING"}}).counter.value, 1);
  EXPECT_EQ(Find("memoryd_auth_failures_total", {{"reason", "UNAUTHENTICATED"}}).counter.value, 0);
}

TEST_F(MetricsTest, GaugesSayWhatIsNow) {
  ASSERT_TRUE(in_flight_.Enter());
  EXPECT_EQ(Find("memoryd_rpc_in_flight").gauge.value, 1);
  in_flight_.Leave();
  EXPECT_EQ(Find("memoryd_rpc_in_flight").gauge.value, 0);
  EXPECT_EQ(Find("memoryd_build_info", {{"version", "1.2.3"}, {"revision", "abc"}}).gauge.value, 1);
  EXPECT_EQ(Find("process_start_time_seconds").gauge.value, 1.5);
}

TEST_F(MetricsTest, TheStoreIsUpAndItsDurabilityKnownOnceItHasAnswered) {
  EXPECT_EQ(Find("memoryd_store_up").gauge.value, 0);
  EXPECT_EQ(Find("memoryd_store_durability", {{"class", "NONE"}}).gauge.value, 0);
  ASSERT_TRUE(store_->Ping().ok());
  ASSERT_TRUE(store_->Describe().ok());
  EXPECT_EQ(Find("memoryd_store_up").gauge.value, 1);
  EXPECT_EQ(Find("memoryd_store_durability", {{"class", "NONE"}}).gauge.value, 1);
  EXPECT_EQ(Find("memoryd_store_durability", {{"class", "LOCAL"}}).gauge.value, 0);
}

TEST_F(MetricsTest, CallsToModelsAreCountedByModel) {
  ModelSettings settings;
  settings.name = "m";
  settings.url = "https://h";
  // Every call is one too many, and ends at once.
  settings.max_calls = 0;
  settings.max_waiting = 0;
  const auto models = ConfiguredModels::Make({settings});
  ASSERT_TRUE(models.ok()) << models.status();
  MetricSources sources{"1",   "abc",    0,         &calls_,       &in_flight_,
                        {},    &memory_, &tenants_, engine_.get(), store_.get(),
                        &log_, nullptr,  &workers_};
  sources.models = models->get();
  metrics_ = MakeMetrics(sources);
  const auto model = (*models)->FindChatModel("", "", "m");
  ASSERT_TRUE(model.ok()) << model.status();
  (*model)->Complete({}, {}, ModelDeadline::max(), [](const absl::StatusOr<ChatReply>&) {});
  const auto ended = [this](const char* code) {
    return Find("memoryd_model_calls_total", {{"model", "m"}, {"code", code}}).counter.value;
  };
  EXPECT_EQ(ended("OK"), 0);
  EXPECT_EQ(ended("RESOURCE_EXHAUSTED"), 1);
  EXPECT_EQ(Find("memoryd_model_seconds", {{"model", "m"}}).histogram.sample_count, 1u);
  EXPECT_EQ(Find("memoryd_model_attempts_total", {{"model", "m"}}).counter.value, 0);
  EXPECT_EQ(Find("memoryd_model_retries_total", {{"model", "m"}}).counter.value, 0);
  EXPECT_EQ(Find("memoryd_model_tokens_total", {{"model", "m"}, {"kind", "prompt"}}).counter.value,
            0);
  EXPECT_EQ(Find("memoryd_model_calls_open", {{"model", "m"}}).gauge.value, 0);
}

class CountedSpans final : public SpanExporter {
 public:
  void Export(CallSpan /*span*/) override {}
  void Shutdown(std::chrono::steady_clock::time_point /*deadline*/) override {}
  SpanCounts counts() const override { return {3, 2, 1}; }
};

TEST_F(MetricsTest, SpansAreCountedWhereTheyAreExported) {
  const CountedSpans spans;
  MetricSources sources{"1",   "abc",    0,         &calls_,       &in_flight_,
                        {},    &memory_, &tenants_, engine_.get(), store_.get(),
                        &log_, nullptr,  &workers_};
  sources.spans = &spans;
  metrics_ = MakeMetrics(sources);
  EXPECT_EQ(Find("memoryd_spans_total", {{"result", "exported"}}).counter.value, 3);
  EXPECT_EQ(Find("memoryd_spans_total", {{"result", "failed"}}).counter.value, 2);
  EXPECT_EQ(Find("memoryd_spans_total", {{"result", "dropped"}}).counter.value, 1);
}

}  // namespace
}  // namespace memoryd
