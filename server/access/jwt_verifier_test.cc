#include "server/access/jwt_verifier.h"

#include <cjose/base64.h>
#include <cjose/error.h>
#include <cjose/header.h>
#include <cjose/jwk.h>
#include <cjose/jws.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/access/jwt_failure.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr std::int64_t kNow = 1'600'000'000;

std::string Base64Url(std::string_view bytes) {
  char* text = nullptr;
  std::size_t size = 0;
  cjose_err error;
  EXPECT_TRUE(cjose_base64url_encode(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                     bytes.size(), &text, &size, &error));
  std::string result(text, size);
  std::free(text);
  return result;
}

// A pair of keys that signs tokens, as an issuer has it.
class SigningKey {
 public:
  SigningKey(std::string id, cjose_jwk_t* jwk) : id_(std::move(id)), jwk_(jwk) {}
  SigningKey(SigningKey&& other) noexcept
      : id_(other.id_), jwk_(std::exchange(other.jwk_, nullptr)) {}
  ~SigningKey() { cjose_jwk_release(jwk_); }

  static SigningKey Rsa(std::string id, std::size_t bits = 2048) {
    const std::uint8_t exponent[] = {1, 0, 1};
    cjose_err error;
    return {std::move(id), cjose_jwk_create_RSA_random(bits, exponent, 3, &error)};
  }
  static SigningKey Ec(std::string id, cjose_jwk_ec_curve curve = CJOSE_JWK_EC_P_256) {
    cjose_err error;
    return {std::move(id), cjose_jwk_create_EC_random(curve, &error)};
  }

  Json Jwk(bool with_private = false) const {
    cjose_err error;
    char* const text = cjose_jwk_to_json(jwk_, with_private, &error);
    Json jwk = Json::parse(text);
    std::free(text);
    jwk["kid"] = id_;
    return jwk;
  }

  // `claims` as they are: not only JSON.
  std::string Sign(const std::string& claims, const char* algorithm, const Json& more = {}) const {
    cjose_err error;
    cjose_header_t* const header = cjose_header_new(&error);
    cjose_header_set(header, "alg", algorithm, &error);
    cjose_header_set(header, "kid", id_.c_str(), &error);
    for (const auto& [name, value] : more.items()) {
      cjose_header_set_raw(header, name.c_str(), value.dump().c_str(), &error);
    }
    cjose_jws_t* const jws = cjose_jws_sign(
        jwk_, header, reinterpret_cast<const std::uint8_t*>(claims.data()), claims.size(), &error);
    EXPECT_NE(jws, nullptr) << algorithm;
    const char* text = nullptr;
    EXPECT_TRUE(cjose_jws_export(jws, &text, &error));
    std::string token = text;
    cjose_jws_release(jws);
    cjose_header_release(header);
    return token;
  }

 private:
  std::string id_;
  cjose_jwk_t* jwk_;
};

Json Claims() {
  return {{"iss", "https://issuer.example"},
          {"aud", "memoryd"},
          {"sub", "alice"},
          {"tenant", "team"},
          {"scope", "openid memoryd:read memoryd:write"},
          {"iat", kNow - 10},
          {"exp", kNow + 300}};
}

Json With(const std::string& name, const Json& value) {
  Json claims = Claims();
  claims[name] = value;
  return claims;
}

Json Without(const std::string& name) {
  Json claims = Claims();
  claims.erase(name);
  return claims;
}

class JwtVerifierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    settings_.jwks_file = (folder_ / "jwks.json").string();
    settings_.issuer = "https://issuer.example";
    settings_.audience = "memoryd";
    settings_.tenant_claim = "tenant";
    settings_.rights_claim = "scope";
    path_ = settings_.jwks_file;
    verifier_ = std::make_unique<JwtVerifier>(settings_, [this] { return now_; });
    Publish({rsa_.Jwk(), ec_.Jwk()});
    ASSERT_TRUE(verifier_->Reload().ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Publish(const std::vector<Json>& keys) {
    std::ofstream(path_) << Json{{"keys", keys}}.dump();
  }

  std::string Token(const Json& claims) const { return ec_.Sign(claims.dump(), "ES256"); }

  void ExpectRefused(const std::string& token, JwtFailure failure) {
    const std::uint64_t before = verifier_->refused(failure);
    EXPECT_FALSE(verifier_->Verify(token).has_value()) << token;
    EXPECT_EQ(verifier_->refused(failure), before + 1) << NameOf(failure) << ": " << token;
  }

  void ExpectUnusable(const std::vector<Json>& keys, const std::string& word) {
    Publish(keys);
    const absl::Status status = verifier_->Reload();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string message(status.message());
    EXPECT_THAT(message, ::testing::StartsWith("jwks_file: " + path_));
    EXPECT_THAT(message, HasSubstr(word));
  }

  const SigningKey rsa_ = SigningKey::Rsa("rsa");
  const SigningKey ec_ = SigningKey::Ec("ec");
  std::filesystem::path folder_;
  std::string path_;
  JwtSettings settings_;
  absl::Time now_ = absl::FromUnixSeconds(kNow);
  std::unique_ptr<JwtVerifier> verifier_;
};

TEST_F(JwtVerifierTest, ATokenSaysWhoAndWhatForHowLong) {
  const auto grant = verifier_->Verify(Token(Claims()));
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->tenant, "team");
  EXPECT_EQ(grant->principal, "jwt:alice");
  EXPECT_TRUE(grant->rights.Has(Right::kRead));
  EXPECT_TRUE(grant->rights.Has(Right::kWrite));
  EXPECT_FALSE(grant->rights.Has(Right::kAdmin));
  EXPECT_EQ(grant->expires, absl::FromUnixSeconds(kNow + 300 + 60));
}

TEST_F(JwtVerifierTest, AClaimMayNameTheSubject) {
  EXPECT_EQ(verifier_->Verify(Token(With("user", "ada")))->subject, "");
  settings_.subject_claim = "user";
  verifier_ = std::make_unique<JwtVerifier>(settings_, [this] { return now_; });
  ASSERT_TRUE(verifier_->Reload().ok());
  EXPECT_EQ(verifier_->Verify(Token(With("user", "ada")))->subject, "ada");
  // Never a token of all.
  ExpectRefused(Token(Claims()), JwtFailure::kClaims);
  for (const Json& bad : {Json(""), Json(7), Json(nullptr), Json::array({"ada"}), Json("a\u3164"),
                          Json(std::string(257, 'a'))}) {
    ExpectRefused(Token(With("user", bad)), JwtFailure::kClaims);
  }
}

TEST_F(JwtVerifierTest, TakesEveryAlgorithmOfItsKeys) {
  const SigningKey p384 = SigningKey::Ec("p384", CJOSE_JWK_EC_P_384);
  const SigningKey p521 = SigningKey::Ec("p521", CJOSE_JWK_EC_P_521);
  Publish({rsa_.Jwk(), p384.Jwk(), p521.Jwk()});
  ASSERT_TRUE(verifier_->Reload().ok());
  for (const char* algorithm : {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}) {
    EXPECT_TRUE(verifier_->Verify(rsa_.Sign(Claims().dump(), algorithm)).has_value()) << algorithm;
  }
  EXPECT_TRUE(verifier_->Verify(p384.Sign(Claims().dump(), "ES384")).has_value());
  EXPECT_TRUE(verifier_->Verify(p521.Sign(Claims().dump(), "ES512")).has_value());
}

TEST_F(JwtVerifierTest, AKeyMakesNoTokensOfAnotherAlgorithm) {
  const std::string payload = Base64Url(Claims().dump());
  const auto unsigned_token = [&payload](const Json& header) {
    return Base64Url(header.dump()) + "." + payload + ".";
  };
  // Algorithms that nobody knows are malformed to the library.
  for (const char* algorithm : {"none", "None", "NONE", "", "rs256", "EdDSA", "HS256"}) {
    const std::string token = unsigned_token({{"alg", algorithm}, {"kid", "rsa"}});
    EXPECT_FALSE(verifier_->Verify(token).has_value()) << algorithm;
    EXPECT_FALSE(verifier_->Verify(token + Base64Url("x")).has_value()) << algorithm;
  }
  ExpectRefused(unsigned_token({{"alg", "none"}, {"kid", "rsa"}}), JwtFailure::kAlgorithm);
  // The public key as the secret of an HMAC: who takes the token's word for the algorithm is had.
  for (const char* kid : {"rsa", "ec"}) {
    const std::string signing_input =
        Base64Url(Json{{"alg", "HS256"}, {"kid", kid}}.dump()) + "." + payload;
    const std::string secret = rsa_.Jwk().dump();
    unsigned char mac[32];
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(signing_input.data()), signing_input.size(), mac,
         nullptr);
    ExpectRefused(
        signing_input + "." + Base64Url({reinterpret_cast<const char*>(mac), sizeof(mac)}),
        JwtFailure::kAlgorithm);
  }
  // A key that says for what it is.
  Json only = rsa_.Jwk();
  only["alg"] = "PS256";
  Publish({only});
  ASSERT_TRUE(verifier_->Reload().ok());
  EXPECT_TRUE(verifier_->Verify(rsa_.Sign(Claims().dump(), "PS256")).has_value());
  ExpectRefused(rsa_.Sign(Claims().dump(), "RS256"), JwtFailure::kAlgorithm);
}

TEST_F(JwtVerifierTest, ItIsTheKeyOfTheTokensId) {
  ExpectRefused(SigningKey::Ec("stranger").Sign(Claims().dump(), "ES256"), JwtFailure::kKey);
  ExpectRefused(SigningKey::Ec("ec").Sign(Claims().dump(), "ES256"), JwtFailure::kSignature);
  const std::string token = Token(Claims());
  const std::size_t payload = token.find('.') + 1;
  const std::size_t signature = token.rfind('.') + 1;
  ExpectRefused(token.substr(0, payload) + Base64Url(With("tenant", "other").dump()) +
                    token.substr(signature - 1),
                JwtFailure::kSignature);
  ExpectRefused(token.substr(0, signature) + Base64Url(std::string(64, '\0')),
                JwtFailure::kSignature);
  EXPECT_TRUE(verifier_->Verify(token).has_value());
}

TEST_F(JwtVerifierTest, WhatIsNoTokenIsNoToken) {
  const std::string token = Token(Claims());
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string(".."), std::string("a.b.c"), token + ".x",
        token.substr(0, token.rfind('.')), "=" + token, std::string(4096, '.'),
        Base64Url("[]") + "." + Base64Url("{}") + "." + Base64Url("x")}) {
    EXPECT_FALSE(verifier_->Verify(bad).has_value()) << bad;
  }
  ExpectRefused(ec_.Sign("no JSON", "ES256"), JwtFailure::kMalformed);
  ExpectRefused(ec_.Sign("[]", "ES256"), JwtFailure::kMalformed);
  ExpectRefused(ec_.Sign(R"({"tenant": "a", "tenant": "b"})", "ES256"), JwtFailure::kMalformed);
  ExpectRefused(ec_.Sign(Claims().dump(), "ES256", {{"crit", Json::array({"b64"})}}),
                JwtFailure::kMalformed);
}

TEST_F(JwtVerifierTest, ItIsOfTheIssuerAndForThisServer) {
  ExpectRefused(Token(With("iss", "https://other.example")), JwtFailure::kIssuer);
  ExpectRefused(Token(With("iss", Json::array({"https://issuer.example"}))), JwtFailure::kIssuer);
  ExpectRefused(Token(Without("iss")), JwtFailure::kIssuer);
  ExpectRefused(Token(With("aud", "other")), JwtFailure::kAudience);
  ExpectRefused(Token(With("aud", Json::array({"other", 1}))), JwtFailure::kAudience);
  ExpectRefused(Token(Without("aud")), JwtFailure::kAudience);
  EXPECT_TRUE(verifier_->Verify(Token(With("aud", Json::array({"other", "memoryd"})))).has_value());
}

TEST_F(JwtVerifierTest, TimesAreKeptToWithinAMinute) {
  ExpectRefused(Token(With("exp", kNow - 60)), JwtFailure::kExpired);
  EXPECT_TRUE(verifier_->Verify(Token(With("exp", kNow - 59))).has_value());
  EXPECT_TRUE(verifier_->Verify(Token(With("exp", kNow - 59.5))).has_value());
  EXPECT_TRUE(verifier_->Verify(Token(With("exp", 1e300))).has_value());
  for (const char* name : {"nbf", "iat"}) {
    ExpectRefused(Token(With(name, kNow + 61)), JwtFailure::kNotYet);
    ExpectRefused(Token(With(name, "now")), JwtFailure::kClaims);
    EXPECT_TRUE(verifier_->Verify(Token(With(name, kNow + 60))).has_value());
  }
  ExpectRefused(Token(Without("exp")), JwtFailure::kClaims);
  ExpectRefused(Token(With("exp", "never")), JwtFailure::kClaims);
  EXPECT_TRUE(verifier_->Verify(Token(Without("iat"))).has_value());
}

TEST_F(JwtVerifierTest, ARememberedTokenExpiresToo) {
  const std::string token = Token(Claims());
  EXPECT_TRUE(verifier_->Verify(token).has_value());
  now_ = absl::FromUnixSeconds(kNow + 359);
  EXPECT_TRUE(verifier_->Verify(token).has_value());
  now_ = absl::FromUnixSeconds(kNow + 360);
  ExpectRefused(token, JwtFailure::kExpired);
}

TEST_F(JwtVerifierTest, WhoAndWhoseMustBeNamed) {
  for (const char* name : {"tenant", "sub"}) {
    ExpectRefused(Token(Without(name)), JwtFailure::kClaims);
    for (const Json& value : {Json(1), Json(""), Json("a\n"), Json(std::string(257, 'x'))}) {
      ExpectRefused(Token(With(name, value)), JwtFailure::kClaims);
    }
  }
}

TEST_F(JwtVerifierTest, RightsAreWordsOfOurOwn) {
  const auto granted = [this](const Json& scope) {
    const auto grant = verifier_->Verify(Token(With("scope", scope)));
    std::string rights;
    for (const Right right : {Right::kRead, Right::kWrite, Right::kAdmin, Right::kWorker}) {
      if (grant->rights.Has(right)) rights += NameOf(right)[0];
    }
    return rights;
  };
  EXPECT_EQ(granted("memoryd:admin"), "a");
  EXPECT_EQ(granted(Json::array({"memoryd:read", "memoryd:write memoryd:admin", 7})), "r");
  EXPECT_EQ(granted("read write  memoryd:none memoryd: other:read MEMORYD:read"), "");
  EXPECT_EQ(granted(7), "");
  EXPECT_FALSE(verifier_->Verify(Token(Without("scope")))->rights.Has(Right::kRead));
}

TEST_F(JwtVerifierTest, AWordOfTheRightsMakesItUntrusted) {
  EXPECT_FALSE(verifier_->Verify(Token(Claims()))->untrusted);
  EXPECT_TRUE(
      verifier_->Verify(Token(With("scope", "memoryd:write memoryd:untrusted")))->untrusted);
}

TEST_F(JwtVerifierTest, RolesAreAnyUnlessSomeAreNamed) {
  EXPECT_TRUE(verifier_->Verify(Token(Claims()))->roles.Has("system"));
  const auto grant =
      verifier_->Verify(Token(With("scope", "memoryd:write memoryd:role:user memoryd:role:tool")));
  EXPECT_TRUE(grant->roles.Has("user"));
  EXPECT_TRUE(grant->roles.Has("tool"));
  EXPECT_FALSE(grant->roles.Has("system"));
  EXPECT_FALSE(grant->roles.Has("User"));
}

TEST_F(JwtVerifierTest, KeysRotateAndTakeTheirTokensAlong) {
  const SigningKey next = SigningKey::Ec("next");
  const std::string old_token = Token(Claims());
  const std::string new_token = next.Sign(Claims().dump(), "ES256");
  EXPECT_TRUE(verifier_->Verify(old_token).has_value());
  ExpectRefused(new_token, JwtFailure::kKey);
  Publish({ec_.Jwk(), next.Jwk()});
  ASSERT_TRUE(verifier_->Reload().ok());
  EXPECT_TRUE(verifier_->Verify(old_token).has_value());
  EXPECT_TRUE(verifier_->Verify(new_token).has_value());
  Publish({next.Jwk()});
  ASSERT_TRUE(verifier_->Reload().ok());
  ExpectRefused(old_token, JwtFailure::kKey);
  EXPECT_TRUE(verifier_->Verify(new_token).has_value());
}

TEST_F(JwtVerifierTest, ABadFileChangesNothing) {
  Json nameless = ec_.Jwk();
  nameless.erase("kid");
  Json foreign = ec_.Jwk();
  foreign["kty"] = "OKP";
  Json encryption = ec_.Jwk();
  encryption["use"] = "enc";
  Json broken = ec_.Jwk();
  broken["x"] = "AAAA";
  ExpectUnusable({}, "no RSA or EC key");
  ExpectUnusable({foreign, encryption}, "no RSA or EC key");
  ExpectUnusable({ec_.Jwk(), ec_.Jwk()}, "keys[1]: kid");
  ExpectUnusable({nameless}, "keys[0]: kid");
  ExpectUnusable({broken}, "keys[0]: can't be read");
  ExpectUnusable({ec_.Jwk(true)}, "private");
  ExpectUnusable({Json{{"kty", "oct"}, {"kid", "s"}, {"k", "c2VjcmV0"}}}, "symmetric");
  ExpectUnusable({SigningKey::Rsa("small", 1024).Jwk()}, "1024 bits");
  ExpectUnusable(std::vector<Json>(65, encryption), "64 keys");
  ExpectUnusable({Json(7)}, "keys[0]: must be an object");
  for (const char* text : {"", "[]", "{", "{}", R"({"keys": {}})", R"({"keys": [], "keys": []})"}) {
    std::ofstream(path_) << text;
    EXPECT_FALSE(verifier_->Reload().ok()) << text;
  }
  EXPECT_TRUE(verifier_->Verify(Token(Claims())).has_value());
}

}  // namespace
}  // namespace memoryd
