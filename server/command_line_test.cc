#include "server/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/server_command.h"
#include "core/storage/stores.h"
#include "server/config.h"
#include "server/ops/span_exporter.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Environment = std::map<std::string, std::string>;

// One for all tests: nothing of one line is left in the next.
CommandLineParser& Parser() {
  static CommandLineParser parser;
  return parser;
}

absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& arguments,
                                  const Environment& environment = {}) {
  std::vector<const char*> argv = {"memoryd"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return Parser().Parse(static_cast<int>(argv.size()), argv.data(), environment);
}

// Expects one line that names every one of `words`.
void ExpectRefused(const absl::StatusOr<CommandLine>& line, const std::vector<std::string>& words) {
  EXPECT_TRUE(absl::IsInvalidArgument(line.status())) << line.status();
  const std::string message(line.status().message());
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  for (const std::string& word : words) EXPECT_THAT(message, HasSubstr(word));
}

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The path of a file that holds `yaml`.
  std::string File(const std::string& yaml) {
    const std::filesystem::path path = folder_ / "memoryd.yaml";
    std::ofstream(path) << yaml;
    return path.string();
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(ConfigTest, WithoutSettingsItServesOnLoopbackFromAFile) {
  const auto line = Parse({});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command, Command::kServe);
  EXPECT_THAT(line->config.listen, ElementsAre("127.0.0.1:50051"));
  EXPECT_THAT(line->config.store, ::testing::StartsWith("sqlite:"));
  EXPECT_EQ(line->config.coherence, Coherence::kExclusive);
  EXPECT_FALSE(line->config.allow_plaintext);
}

TEST_F(ConfigTest, AFlagWinsOverTheEnvironmentAndThatOverTheFile) {
  const std::string file = File("readers: 7\ncommitters: 7\ndrain_seconds: 7\n");
  const Environment environment = {{"MEMORYD_READERS", "8"}, {"MEMORYD_COMMITTERS", "8"}};
  const auto line = Parse({"--config", file, "--readers=9"}, environment);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.readers, 9);
  EXPECT_EQ(line->config.committers, 8);
  EXPECT_EQ(line->config.drain_seconds, 7);
  EXPECT_EQ(line->config.store_timeout_ms, 5000);
}

TEST_F(ConfigTest, TheFileMayBeNamedByTheEnvironment) {
  const auto line = Parse({}, {{"MEMORYD_CONFIG", File("readers: 7\n")}});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.readers, 7);
  EXPECT_TRUE(Parse({"--config", File("")}).ok()) << "an empty file sets nothing";
}

TEST_F(ConfigTest, VariablesOfOthersMayStandBesideOurs) {
  EXPECT_TRUE(Parse({}, {{"MEMORYD_TARGET", "localhost:50051"},
                         {"MEMORYD_ADDRESS", "localhost:50051"},
                         {"MEMORYD_URI", "memoryd://localhost:50051"},
                         {"MEMORYD_BINARY", "/usr/bin/memoryd"},
                         {"MEMORYD_CA_FILE", "/ca.pem"},
                         {"MEMORYD_TOKEN_FILE", "/token"},
                         {"MEMORYD_CLIENT_CERT_FILE", "/client.pem"},
                         {"MEMORYD_CLIENT_KEY_FILE", "/client.key"},
                         {"MEMORYD_PORT", "tcp://10.0.0.1:50051"},
                         {"MEMORYD_SERVICE_HOST", "10.0.0.1"}})
                  .ok());
}

TEST_F(ConfigTest, AnUnknownKeyIsNamedWithItsPlace) {
  const std::string file = File("reader: 7\n");
  ExpectRefused(Parse({"--config", file}), {"reader", file});
  ExpectRefused(Parse({}, {{"MEMORYD_READER", "7"}}), {"MEMORYD_READER"});
  ExpectRefused(Parse({"--reader=7"}), {"--reader"});
  ExpectRefused(Parse({"serve"}), {"serve"});
  ExpectRefused(Parse({"--config", File("\"two\\nlines\": 7\n")}), {"unknown key two lines"});
  ExpectRefused(Parse({"--listen=a\nb:1"}), {"a b:1"});
}

TEST_F(ConfigTest, WhatIsNotUtf8IsRefusedWithItsPlace) {
  const std::string file = File("readers: 7\nlisten: unix:/\x8E\n");
  ExpectRefused(Parse({"--config", file}), {file + ":2: is not UTF-8"});
  ExpectRefused(Parse({}, {{"MEMORYD_LISTEN", "unix:/\x8E"}}), {"listen", "MEMORYD_LISTEN"});
  ExpectRefused(Parse({"--credentials=/\xED\xA0\x80"}), {"credentials", "--credentials"});
  EXPECT_TRUE(Parse({"--config", File("listen: unix:/größe\n")}).ok());
}

TEST_F(ConfigTest, AFileThatCannotBeReadIsRefused) {
  ExpectRefused(Parse({"--config=/nowhere/memoryd.yaml"}), {"/nowhere/memoryd.yaml: No such file"});
}

TEST_F(ConfigTest, ABadValueIsNamedWithItsPlace) {
  const std::string file = File("readers: many\n");
  ExpectRefused(Parse({"--config", file}), {"readers", file, "1 to 64"});
  ExpectRefused(Parse({}, {{"MEMORYD_READERS", "0"}}), {"readers", "MEMORYD_READERS"});
  ExpectRefused(Parse({"--readers=65"}), {"readers", "--readers"});
  ExpectRefused(Parse({"--readers=6x"}), {"readers"});
  ExpectRefused(Parse({"--readers="}), {"readers"});
  ExpectRefused(Parse({"--allow-plaintext=yes"}), {"allow_plaintext"});
  ExpectRefused(Parse({"--reflection=maybe"}), {"reflection", "auto"});
  ExpectRefused(Parse({"--store=mysql://h/d"}), {"store", "sqlite:"});
  ExpectRefused(Parse({"--store=sqlite://"}), {"store", "sqlite:///memory.db"});
  ExpectRefused(Parse({"--store=/var/lib/m.db"}), {"store", "sqlite:/var/lib/m.db"});
  ExpectRefused(Parse({"--coherence=loose"}), {"coherence"});
  ExpectRefused(Parse({"--log-level=loud"}), {"log_level"});
}

TEST_F(ConfigTest, AFileThatIsNoMapOfValuesIsRefused) {
  ExpectRefused(Parse({"--config", "/nonexistent/memoryd.yaml"}), {"/nonexistent/memoryd.yaml"});
  ExpectRefused(Parse({"--config", File("- readers\n")}), {"map"});
  ExpectRefused(Parse({"--config", File("readers: [1, 2]\n")}), {"readers"});
  ExpectRefused(Parse({"--config", File("readers: {\n")}), {"YAML"});
  ExpectRefused(Parse({"--config", File("readers: 1\nreaders: 2\n")}), {"readers", "twice"});
}

TEST_F(ConfigTest, TheLimitsOfNumbersAreAllowed) {
  for (const char* flag :
       {"--readers=1", "--readers=64", "--committers=16", "--drain-seconds=0",
        "--store-timeout-ms=100", "--max-pending-calls=1", "--cache-mib=1048576"}) {
    EXPECT_TRUE(Parse({flag}).ok()) << flag;
  }
}

TEST_F(ConfigTest, AddressesAreHostAndPortOrASocket) {
  const auto line = Parse({"--listen=127.0.0.1:0,[::1]:50051,localhost:1,unix:/run/m.sock"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->config.listen,
              ElementsAre("127.0.0.1:0", "[::1]:50051", "localhost:1", "unix:/run/m.sock"));
  for (const char* bad : {"", "127.0.0.1", ":50051", "127.0.0.1:", "127.0.0.1:65536",
                          "127.0.0.1:-1", "127.0.0.1:x", "unix:", "127.0.0.1:1,"}) {
    ExpectRefused(Parse({std::string("--listen=") + bad}), {"listen"});
  }
}

TEST_F(ConfigTest, OriginsAreWrittenAsBrowsersWriteThem) {
  for (const char* bad : {"app.example", "https://", "https://App.example", "https://app.example/",
                          "*", "null", "https://a.example,,https://b.example", "https://a@b"}) {
    ExpectRefused(Parse({std::string("--http-allowed-origins=") + bad}), {"http_allowed_origins"});
  }
  const auto line = Parse({"--http-allowed-origins=https://app.example,http://localhost:3000"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.http_allowed_origins,
            (std::vector<std::string>{"https://app.example", "http://localhost:3000"}));
}

TEST_F(ConfigTest, ServingOtherMachinesWithoutTlsMustBeAskedFor) {
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "10.0.0.1:1", "example.org:1"}) {
    ExpectRefused(Parse({std::string("--listen=127.0.0.1:1,") + address}),
                  {address, "allow_plaintext"});
    EXPECT_TRUE(Parse({std::string("--listen=") + address, "--allow-plaintext=true"}).ok());
  }
}

TEST_F(ConfigTest, WithTlsAnyAddressMayBeServed) {
  const auto line = Parse({"--listen=0.0.0.0:1", "--tls-cert=/c", "--tls-key=/k"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->config.UsesTls());
  EXPECT_FALSE(line->config.ListensInPlaintext());
}

TEST_F(ConfigTest, SettingsOfTlsNeedEachOther) {
  ExpectRefused(Parse({"--tls-cert=/c"}), {"tls_cert", "tls_key"});
  ExpectRefused(Parse({"--tls-key=/k"}), {"tls_key", "tls_cert"});
  ExpectRefused(Parse({"--tls-client-ca=/ca"}), {"tls_client_ca", "tls_cert"});
  ExpectRefused(Parse({"--jwks-file=/j", "--jwt-audience=a"}), {"jwks_file", "jwt_issuer"});
  ExpectRefused(Parse({"--jwks-file=/j", "--jwt-issuer=i"}), {"jwks_file", "jwt_audience"});
  ExpectRefused(Parse({"--jwt-issuer=i"}), {"jwt_issuer", "jwks_file"});
  ExpectRefused(Parse({"--jwt-audience=a"}), {"jwt_audience", "jwks_file"});
  ExpectRefused(Parse({"--jwt-subject-claim=sub"}), {"jwt_subject_claim", "jwks_file"});
  ExpectRefused(Parse({}, {{"MEMORYD_JWT_TENANT_CLAIM", ""}}), {"jwt_tenant_claim", "empty"});
  EXPECT_TRUE(Parse({"--tls-client-ca=/ca", "--tls-cert=/c", "--tls-key=/k"}).ok());
}

TEST_F(ConfigTest, PlaintextIsOnlyWhatOtherMachinesCanReach) {
  EXPECT_FALSE(Parse({"--allow-plaintext=true"})->config.ListensInPlaintext());
  EXPECT_TRUE(
      Parse({"--allow-plaintext=true", "--listen=unix:/s,0.0.0.0:1"})->config.ListensInPlaintext());
}

TEST_F(ConfigTest, HealthMayBeServedInPlaintextAnywhere) {
  EXPECT_THAT(Parse({})->config.health_listen, ::testing::IsEmpty());
  const auto line = Parse({"--health-listen=0.0.0.0:50052,unix:/h"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->config.health_listen, ElementsAre("0.0.0.0:50052", "unix:/h"));
  ExpectRefused(Parse({"--health-listen=50052"}), {"health_listen"});
}

TEST_F(ConfigTest, AddressesThatOnlyLookLocalAreNot) {
  for (const char* address : {"127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1", "unix:/x"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* address : {"127.example.org:1", "127.0.0.1.example.org:1",
                              "localhost.example.org:1", "0.0.0.0:1", "[::]:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

TEST_F(ConfigTest, CoherenceFollowsTheStoreUnlessSet) {
  EXPECT_EQ(Parse({"--store=postgresql://h/d"})->config.coherence, Coherence::kShared);
  EXPECT_EQ(Parse({"--store=postgresql://h/d", "--coherence=exclusive"})->config.coherence,
            Coherence::kExclusive);
  EXPECT_EQ(Parse({"--coherence=shared"})->config.coherence, Coherence::kShared);
  EXPECT_EQ(Parse({"--store=postgres://h/d"})->config.coherence, Coherence::kShared);
  EXPECT_EQ(Parse({"--store=postgresql+asyncpg://h/d"})->config.coherence, Coherence::kShared);
  EXPECT_EQ(Parse({"--store=sqlite+aiosqlite:///d"})->config.coherence, Coherence::kExclusive);
}

TEST_F(ConfigTest, ThePrintedConfigurationNamesOriginsAndHidesPasswords) {
  const auto line = Parse({"--print-config",
                           "--store=postgresql://user:hunter2@host/db"
                           "?sslpassword=hunter3&password=hunter4&connect_timeout=9"},
                          {{"MEMORYD_READERS", "8"}});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command, Command::kPrintConfig);
  EXPECT_THAT(line->text, Not(HasSubstr("hunter")));
  EXPECT_THAT(line->text, HasSubstr("user:***@host/db"));
  EXPECT_THAT(line->text, HasSubstr("connect_timeout=9"));
  EXPECT_THAT(line->text, HasSubstr("readers: 8  # MEMORYD_READERS\n"));
  EXPECT_THAT(line->text, HasSubstr("# --store\n"));
  EXPECT_THAT(line->text, HasSubstr("committers: 1  # default\n"));
}

TEST_F(ConfigTest, WhatIsPrintedReadsBackAsTheSameConfiguration) {
  const auto line = Parse({"--print-config", "--store=sqlite:a: b # c", "--readers=9"});
  ASSERT_TRUE(line.ok()) << line.status();
  const auto again = Parse({"--config", File(line->text)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->config.store, "sqlite:a: b # c");
  EXPECT_EQ(again->config.readers, 9);
}

// Rows of a table of the reference, by their keys.
std::map<std::string, std::string> ReferenceRows(const std::string& text) {
  std::map<std::string, std::string> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find("` |");
    if (line.starts_with("| `")) rows.emplace(line.substr(3, end - 3), line);
  }
  return rows;
}

TEST_F(ConfigTest, TheReferenceSaysOfEachSettingWhatItMayBe) {
  const auto line = Parse({"--print-reference"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command, Command::kPrintReference);
  const auto rows = ReferenceRows(line->text);
  EXPECT_THAT(rows.at("readers"), HasSubstr("| `4` | 1 to 64 | Threads"));
  EXPECT_THAT(rows.at("store_timeout_ms"), HasSubstr("| `5000` | 100 to 60000 ms | "));
  EXPECT_THAT(rows.at("reflection"), HasSubstr("| `auto` | one of auto, on, off | "));
  EXPECT_THAT(rows.at("tls_key"), HasSubstr("| `tls_key` | | | PEM file"));
  // Those of `models` beside them.
  EXPECT_THAT(rows.at("batch_size"), HasSubstr("| `64` | 1 to 2048 | Of the kind `embedding`. "));
  EXPECT_THAT(rows.at("timeout_ms"), HasSubstr("| `60000` | 1 to 3600000 ms | "));
  for (const auto& [key, row] : rows)
    EXPECT_FALSE(row.ends_with("| |")) << key << " has no meaning";
}

TEST_F(ConfigTest, EverySettingForTenantsMayBeOtherwiseForSome) {
  const auto printed = Parse({"--print-config"});
  ASSERT_TRUE(printed.ok()) << printed.status();
  std::istringstream lines(printed->text);
  int settings = 0;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kPrefix = "tenant_";
    if (!line.starts_with(kPrefix)) continue;
    ++settings;
    const std::string entry = line.substr(kPrefix.size());
    const auto read = Parse({"--config", File("tenants:\n  - name: a\n    " + entry + "\n")});
    EXPECT_TRUE(read.ok()) << read.status();
  }
  EXPECT_GT(settings, 0);
}

TEST_F(ConfigTest, AnItemMustFitIntoARequest) {
  const auto bytes = [](const std::vector<std::string>& arguments) {
    const auto parsed = Parse(arguments);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? ItemBytes(parsed->config) : 0;
  };
  EXPECT_EQ(bytes({}), 32 << 20);
  EXPECT_EQ(bytes({"--max-item-mib=1"}), 1 << 20);
  EXPECT_EQ(bytes({"--max-item-mib=59", "--max-request-mib=60"}), 59 << 20);
  EXPECT_EQ(bytes({"--max-item-mib=3", "--max-request-mib=4"}), 3 << 20);
  EXPECT_EQ(bytes({"--max-request-mib=4"}), 3 << 20) << "nobody has asked for more";
  ExpectRefused(Parse({"--max-item-mib=36"}),
                {"max_item_mib", "36 MiB", "max_request_mib", "35 or less", "to 37"});
  ExpectRefused(Parse({"--max-item-mib=4", "--max-request-mib=4"}), {"max_item_mib", "3 or less"});
  ExpectRefused(Parse({"--max-item-mib=0"}), {"max_item_mib"});
  ExpectRefused(Parse({"--max-item-mib=60", "--max-request-mib=60"}), {"max_item_mib"});
}

TEST_F(ConfigTest, CommandsAreTold) {
  EXPECT_EQ(Parse({"--version"})->command, Command::kVersion);
  EXPECT_EQ(Parse({"--check-config"})->command, Command::kCheckConfig);
  EXPECT_EQ(Parse({"migrate"})->command, Command::kMigrate);
  EXPECT_EQ(Parse({"migrate", "--readers=9"})->config.readers, 9);
  const auto help = Parse({"--help"});
  EXPECT_EQ(help->command, Command::kHelp);
  EXPECT_TRUE(std::ranges::any_of(Parser().Options(), [](const CommandLineOption& option) {
    return option.name == "--store-timeout-ms" && option.takes_value;
  }));
  ExpectRefused(Parse({"--check-config", "--readers=0"}), {"readers"});
}

TEST_F(ConfigTest, AnEndpointForSpansIsAnUrlWithoutCredentials) {
  for (const char* value : {"localhost:4318", "ftp://localhost", "http://", "http:///v1/traces",
                            "http://a b/", "https://user:secret@localhost/v1/traces"}) {
    const std::vector<std::string> words = {"otlp_endpoint",
                                            "must be off or the URL of a collector"};
    for (const auto& line :
         {Parse({std::string("--otlp-endpoint=") + value}),
          Parse({"--print-config"}, {{"MEMORYD_OTLP_ENDPOINT", value}}),
          Parse({"--print-config", "--config", File(std::string("otlp_endpoint: ") + value)})}) {
      ExpectRefused(line, words);
      EXPECT_THAT(std::string(line.status().message()), Not(HasSubstr("secret")));
    }
  }
  const auto off = Parse({"--otlp-endpoint=off"});
  ASSERT_TRUE(off.ok()) << off.status();
  EXPECT_EQ(off->config.otlp_endpoint, "");
}

TEST_F(ConfigTest, AnEndpointForSpansIsRefusedWhereNoneCanBeExported) {
  const std::string url = "https://collector.example:4318/v1/traces";
  const auto line = Parse({"--otlp-endpoint=" + url});
  if (CanExportSpans()) {
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->config.otlp_endpoint, url);
  } else {
    ExpectRefused(line, {"otlp_endpoint", "this build has no OpenTelemetry"});
  }
}

}  // namespace
}  // namespace memoryd
