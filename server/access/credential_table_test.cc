#include "server/access/credential_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// SHA-256 of "abc", the example of FIPS 180-2, and of the empty string.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kEmpty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Expects an error in `line` that says `word`.
void ExpectRefused(const std::string& yaml, int line, const std::string& word) {
  const auto table = CredentialTable::Parse(yaml, "/c.yaml");
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << yaml;
  const std::string message(table.status().message());
  EXPECT_THAT(message, StartsWith(fmt::format("/c.yaml:{}: ", line))) << yaml;
  EXPECT_THAT(message, HasSubstr(word));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

std::string Entry(const std::string& more) { return "- tenant: a\n  rights: [read]\n" + more; }

TEST(CredentialTableTest, ATokenIsFoundByItsSha256) {
  const auto table = CredentialTable::Parse(
      fmt::format("- {{tenant: team a, rights: [read, admin], token_sha256: {}}}", kAbc), "");
  ASSERT_TRUE(table.ok()) << table.status();
  const Grant* const grant = table->FindToken("abc");
  ASSERT_NE(grant, nullptr);
  EXPECT_EQ(grant->tenant, "team a");
  EXPECT_TRUE(grant->rights.Has(Right::kRead));
  EXPECT_FALSE(grant->rights.Has(Right::kWrite));
  EXPECT_TRUE(grant->rights.Has(Right::kAdmin));
  EXPECT_TRUE(grant->rights.Has(Right::kNone));
  EXPECT_EQ(grant->expires, absl::InfiniteFuture());
  for (const char* other : {"", "ab", "abcd", "ABC", kAbc}) {
    EXPECT_EQ(table->FindToken(other), nullptr) << other;
  }
}

TEST(CredentialTableTest, ATenantMayHaveSeveralCredentialsInEitherCase) {
  std::string upper = kEmpty;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto table = CredentialTable::Parse(
      Entry(fmt::format("  token_sha256: {}\n", kAbc)) +
          Entry(fmt::format("  token_sha256: {}\n  expires: 2030-01-31T00:00:00+01:00\n", upper)) +
          Entry("  certificate: spiffe://x/agent\n"),
      "");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 3);
  EXPECT_NE(table->FindToken("abc"), nullptr);
  ASSERT_NE(table->FindToken(""), nullptr);
  EXPECT_EQ(absl::FormatTime(table->FindToken("")->expires, absl::UTCTimeZone()),
            "2030-01-30T23:00:00+00:00");
  EXPECT_NE(table->FindCertificate("spiffe://x/agent"), nullptr);
  EXPECT_EQ(table->FindCertificate("spiffe://x/agent2"), nullptr);
  EXPECT_EQ(table->FindCertificate(""), nullptr);
}

TEST(CredentialTableTest, ACredentialMayBeOfOneSubject) {
  const auto table = CredentialTable::Parse(
      Entry("  certificate: x\n  subject: ada\n") + Entry("  certificate: y\n"), "");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->FindCertificate("x")->subject, "ada");
  EXPECT_EQ(table->FindCertificate("y")->subject, "");
  // Nothing that could be taken for "of all".
  ExpectRefused(Entry("  certificate: x\n  subject: \"\"\n"), 4, "subject");
  ExpectRefused(Entry("  certificate: x\n  subject:\n"), 4, "subject");
  ExpectRefused(Entry("  certificate: x\n  subject: [ada]\n"), 4, "subject");
  ExpectRefused(Entry("  certificate: x\n  subject: \"a\\u3164\"\n"), 4, "subject");
  ExpectRefused(Entry("  certificate: x\n  subject: " + std::string(257, 'a') + "\n"), 4,
                "subject");
}

TEST(CredentialTableTest, NobodyHasAccessWhenTheListIsEmpty) {
  const auto table = CredentialTable::Parse("[]", "");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 0);
}

TEST(CredentialTableTest, AFileThatIsNoListIsRefused) {
  ExpectRefused("", 1, "empty");
  ExpectRefused("# nothing\n", 1, "empty");
  ExpectRefused("tenant: a\n", 1, "list");
  ExpectRefused("a\n", 1, "list");
  ExpectRefused("- a\n", 1, "map");
  ExpectRefused("- tenant: a\n  rights: [read\n", 3, "YAML");
}

TEST(CredentialTableTest, ABadEntryIsNamedByItsLine) {
  ExpectRefused(Entry(""), 1, "either token_sha256 or certificate");
  ExpectRefused(Entry("  certificate: x\n  token_sha256: ") + kAbc, 1, "either");
  ExpectRefused(Entry("  certificate: x\n  colour: red\n"), 4, "colour");
  ExpectRefused(Entry("  certificate: x\n  tenant: b\n"), 4, "tenant: is given twice");
  ExpectRefused(Entry("  certificate: \"\"\n"), 3, "certificate");
  ExpectRefused(Entry("  certificate: [x]\n"), 3, "certificate");
  ExpectRefused(Entry("  certificate: x\n  expires: tomorrow\n"), 4, "2030-01-31T00:00:00Z");
  ExpectRefused(Entry("  certificate: x\n  expires: 2030-01-31\n"), 4, "expires");
  ExpectRefused(Entry("  certificate: x\n  untrusted: maybe\n"), 4, "untrusted");
  ExpectRefused("- rights: [read]\n  certificate: x\n", 1, "tenant: is missing");
  ExpectRefused("- tenant: a\n  certificate: x\n", 1, "rights: is missing");
  ExpectRefused("- tenant: \"\"\n  rights: [read]\n  certificate: x\n", 1, "tenant");
  ExpectRefused("- tenant: \"a\\u200b\"\n  rights: [read]\n  certificate: x\n", 1, "tenant");
  ExpectRefused("- tenant: " + std::string(129, 'a') + "\n", 1, "tenant");
  for (const char* rights : {"read", "[]", "[Read]", "[read, all]", "{read: true}"}) {
    ExpectRefused(fmt::format("- tenant: a\n  rights: {}\n  certificate: x\n", rights), 2,
                  "rights");
  }
}

TEST(CredentialTableTest, ACredentialMayStandOnlyOnce) {
  const std::string token = fmt::format("  token_sha256: {}\n", kAbc);
  ExpectRefused(Entry(token) + "- tenant: b\n  rights: [write]\n" + token, 4, "token_sha256");
  ExpectRefused(Entry("  certificate: x\n") + Entry("  certificate: x\n"), 4, "certificate");
}

TEST(CredentialTableTest, AnErrorNeverRepeatsWhatMayBeASecret) {
  for (const char* secret :
       {"hunter2", "hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2!"}) {
    const auto table =
        CredentialTable::Parse(Entry(fmt::format("  token_sha256: {}\n", secret)), "/c.yaml");
    EXPECT_THAT(std::string(table.status().message()), Not(HasSubstr("hunter2")));
    EXPECT_THAT(std::string(table.status().message()), StartsWith("/c.yaml:3: token_sha256"));
  }
}

}  // namespace
}  // namespace memoryd
