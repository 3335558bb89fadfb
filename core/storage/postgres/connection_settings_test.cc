#include "core/storage/postgres/connection_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error_cause.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/stores.h"

namespace memoryd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const StoreOptions& options) {
  const auto settings = MakeConnectionSettings(options);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return settings.ok() ? settings->ConnectionString() : "";
}

TEST(ConnectionSettingsTest, LooksForThePrimaryAndBoundsEveryWait) {
  StoreOptions options;
  options.url = "postgresql://a,b/db";
  options.timeout_ms = 4000;
  EXPECT_THAT(Text(options),
              AllOf(HasSubstr("host='a,b'"), HasSubstr("target_session_attrs='read-write'"),
                    HasSubstr("connect_timeout='2'"), HasSubstr("tcp_user_timeout='8000'"),
                    HasSubstr("statement_timeout=2000 "), HasSubstr("lock_timeout=500 ")));
}

TEST(ConnectionSettingsTest, ASingleHostHasTheWholeCallToAnswer) {
  StoreOptions options;
  options.timeout_ms = 4000;
  for (const char* url : {"postgresql://a/db", "postgresql:///db"}) {
    options.url = url;
    EXPECT_THAT(Text(options), HasSubstr("connect_timeout='4'")) << url;
  }
}

TEST(ConnectionSettingsTest, TheUrlsOwnParametersWin) {
  StoreOptions options;
  options.url =
      "postgresql://h/db?connect_timeout=9&target_session_attrs=any&options=-c%20lock_timeout%3D1";
  const std::string text = Text(options);
  EXPECT_THAT(text, AllOf(HasSubstr("connect_timeout='9'"), HasSubstr("target_session_attrs='any'"),
                          HasSubstr("-c lock_timeout=1'")));
}

TEST(ConnectionSettingsTest, ATransactionPoolerGetsNoSessionState) {
  StoreOptions options;
  options.url = "postgresql://h/db";
  for (const Pooling pooling : {Pooling::kNamed, Pooling::kUnnamed}) {
    options.transaction_pooling = pooling;
    EXPECT_THAT(Text(options), Not(HasSubstr("options=")));
    EXPECT_TRUE(MakeConnectionSettings(options)->names->pooled());
    EXPECT_EQ(MakeConnectionSettings(options)->names->used(), pooling == Pooling::kNamed);
  }
}

TEST(ConnectionSettingsTest, ValuesAreQuoted) {
  StoreOptions options;
  options.url = "postgresql://u:p%27%5Cw@h/db";
  EXPECT_THAT(Text(options), HasSubstr(R"(password='p\'\\w')"));
}

TEST(ConnectionSettingsTest, ABadUrlIsRefusedWithoutBeingQuoted) {
  StoreOptions options;
  options.url = "postgresql://u:secret@h/db?nonsense=1";
  const absl::Status status = MakeConnectionSettings(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

TEST(ConnectionSettingsTest, SpellingsOfOthersAreTheSameConnection) {
  StoreOptions options;
  options.url = "postgresql://u@h:5433/db?sslmode=require";
  const std::string text = Text(options);
  for (const char* scheme :
       {"postgres", "postgresql+psycopg", "postgresql+asyncpg", "postgres+psycopg2"}) {
    options.url = std::string(scheme) + "://u@h:5433/db?sslmode=require";
    EXPECT_EQ(Text(options), text) << scheme;
  }
}

TEST(ConnectionSettingsTest, AParameterOfAnotherDriverIsNamed) {
  StoreOptions options;
  for (const char* url : {"postgresql+asyncpg://u:secret@h/db?ssl=require",
                          "postgresql+asyncpg://u:secret@h/db?connect_timeout=9&ssl=require"}) {
    options.url = url;
    const absl::Status status = MakeConnectionSettings(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_THAT(std::string(status.message()), HasSubstr("sslmode")) << url;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret"))) << url;
  }
}

TEST(ConnectionSettingsTest, APasswordThatIsTakenForAHostOrPortIsRefused) {
  StoreOptions options;
  for (const char* url : {"postgresql://u:sec@ret@h/db", "postgresql://u:sec/ret@h/db"}) {
    options.url = url;
    const absl::Status status = MakeConnectionSettings(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("ret"))) << url;
  }
  for (const char* url : {"postgresql://u:sec%40ret@h:5432/db", "postgresql://a:1,b:2/db",
                          "postgresql://u@%40abstract/db"}) {
    options.url = url;
    EXPECT_TRUE(MakeConnectionSettings(options).ok()) << url;
  }
}

TEST(SqlStateTest, OfValuesThatAreWrittenTheCauseIsTheCodeAlone) {
  for (const char* sqlstate : {"22P02", "23505", "21000", "P0001"}) {
    const ErrorCause cause = CauseOf(StatusForSqlState(sqlstate, "invalid input: secret"));
    EXPECT_EQ(cause.code, sqlstate);
    EXPECT_EQ(cause.text, "");
  }
  const ErrorCause full = CauseOf(
      StatusForSqlState("53100", "could not extend file: No space left on device\nDETAIL: row"));
  EXPECT_EQ(full.code, "53100");
  EXPECT_EQ(full.text, "could not extend file: No space left on device");
  const ErrorCause away = CauseOf(StatusForSqlState("", "a: refused\nb: refused\n"));
  EXPECT_EQ(away.code, "08006");
  EXPECT_EQ(away.text, "a: refused b: refused");
}

TEST(SqlStateTest, CodesFollowTheTable) {
  using Code = absl::StatusCode;
  const std::pair<const char*, Code> kTable[] = {{"", Code::kUnavailable},
                                                 {"08006", Code::kUnavailable},
                                                 {"57P01", Code::kUnavailable},
                                                 {"25006", Code::kUnavailable},
                                                 {"53300", Code::kUnavailable},
                                                 {"53100", Code::kResourceExhausted},
                                                 {"54000", Code::kResourceExhausted},
                                                 {"22021", Code::kInvalidArgument},
                                                 {"40001", Code::kUnavailable},
                                                 {"40P01", Code::kUnavailable},
                                                 {"55P03", Code::kUnavailable},
                                                 {"57014", Code::kUnavailable},
                                                 {"42703", Code::kInternal},
                                                 {"XX000", Code::kInternal}};
  for (const auto& [sqlstate, code] : kTable) {
    EXPECT_EQ(StatusForSqlState(sqlstate).code(), code) << sqlstate;
  }
}

}  // namespace
}  // namespace memoryd
