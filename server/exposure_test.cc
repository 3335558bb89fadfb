#include "server/exposure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config.h"

namespace memoryd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Config Local() {
  Config config;
  config.listen = {"127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/s"};
  config.health_listen = {"127.0.0.1:2"};
  config.http_listen = {"127.0.0.1:4"};
  config.metrics_listen = "127.0.0.1:3";
  return config;
}

TEST(ExposureTest, WhatThisMachineAloneReachesNeedsNoGuard) {
  EXPECT_THAT(UnguardedListeners(Local()), IsEmpty());
  EXPECT_THAT(UnguardedListeners(Config()), IsEmpty());
}

TEST(ExposureTest, NamesTheAddressesThatOthersReachAndWhatIsMissing) {
  Config config = Local();
  config.listen.emplace_back("0.0.0.0:1");
  EXPECT_THAT(UnguardedListeners(config),
              ElementsAre(AllOf(StartsWith("listen: 0.0.0.0:1: no credentials"),
                                Not(HasSubstr("127.0.0.1"))),
                          AllOf(HasSubstr("allow_plaintext"), Not(HasSubstr("tokens")))));
  config.tls_cert = "/c";
  EXPECT_THAT(UnguardedListeners(config), ElementsAre(HasSubstr("no credentials")));
  config.tls_client_ca = "/ca";
  EXPECT_THAT(UnguardedListeners(config), IsEmpty());
}

TEST(ExposureTest, CredentialsInPlaintextCanBeRead) {
  Config config = Local();
  config.listen = {"[::]:1"};
  config.credentials = "/c";
  EXPECT_THAT(UnguardedListeners(config), ElementsAre(HasSubstr("and the tokens with them")));
  config.credentials.clear();
  config.jwt.jwks_file = "/j";
  EXPECT_THAT(UnguardedListeners(config), ElementsAre(HasSubstr("and the tokens with them")));
  config.tls_cert = "/c";
  EXPECT_THAT(UnguardedListeners(config), IsEmpty());
}

TEST(ExposureTest, NamesWhatGuardsNoAddressOfHttp) {
  Config config = Local();
  config.http_listen.emplace_back("0.0.0.0:4");
  EXPECT_THAT(UnguardedListeners(config),
              ElementsAre(StartsWith("http_listen: 0.0.0.0:4: no credentials"),
                          StartsWith("http_listen: 0.0.0.0:4: allow_plaintext")));
  config.credentials = "/c";
  config.tls_cert = "/c";
  EXPECT_THAT(UnguardedListeners(config), IsEmpty());
}

TEST(ExposureTest, HealthAndMetricsAreNeverGuarded) {
  Config config = Local();
  config.credentials = "/c";
  config.tls_cert = "/c";
  config.health_listen.emplace_back("10.0.0.1:2");
  config.metrics_listen = "[::]:3";
  EXPECT_THAT(UnguardedListeners(config), ElementsAre(StartsWith("health_listen: 10.0.0.1:2: "),
                                                      StartsWith("metrics_listen: [::]:3: ")));
}

}  // namespace
}  // namespace memoryd
