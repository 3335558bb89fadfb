#include "server/access/jwt_keys.h"

#include <cjose/error.h>
#include <cjose/header.h>
#include <cjose/jwk.h>
#include <cjose/jws.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/json_check.h"
#include "server/access/jwt_failure.h"
#include "server/wire/field_checks.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMinRsaBits = 2048;
constexpr std::size_t kMaxRsaBits = 8192;  // A larger one makes each check slow.

struct ReleaseSignature {
  void operator()(cjose_jws_t* signature) const { cjose_jws_release(signature); }
};

std::string StringOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Those that a key of such a type and curve can make; empty for what is not taken.
std::vector<std::string_view> AlgorithmsOf(const Json& key) {
  const std::string type = StringOf(key, "kty");
  const std::string curve = StringOf(key, "crv");
  std::vector<std::string_view> algorithms;
  if (type == "RSA") {
    algorithms = {CJOSE_HDR_ALG_RS256, CJOSE_HDR_ALG_RS384, CJOSE_HDR_ALG_RS512,
                  CJOSE_HDR_ALG_PS256, CJOSE_HDR_ALG_PS384, CJOSE_HDR_ALG_PS512};
  } else if (type == "EC" && curve == "P-256") {
    algorithms = {CJOSE_HDR_ALG_ES256};
  } else if (type == "EC" && curve == "P-384") {
    algorithms = {CJOSE_HDR_ALG_ES384};
  } else if (type == "EC" && curve == "P-521") {
    algorithms = {CJOSE_HDR_ALG_ES512};
  }
  if (key.contains("alg")) {
    const std::string only = StringOf(key, "alg");
    std::erase_if(algorithms, [&only](std::string_view algorithm) { return algorithm != only; });
  }
  return algorithms;
}

bool Has(cjose_header_t* header, const char* name) {
  cjose_err error;
  // It allocates what it returns, in the C library's way.
  const std::unique_ptr<char, decltype(&std::free)> value(
      cjose_header_get_raw(header, name, &error), &std::free);
  return value != nullptr;
}

// Empty for what may be the key of one who only verifies.
std::string_view WhyNoVerifiersKey(const Json& key) {
  if (!key.is_object()) return "must be an object";
  if (StringOf(key, "kty") == "oct") {
    return "is symmetric: who can check its tokens could make them; use RSA or EC";
  }
  if (key.contains("d")) return "is a private key: only its public part belongs here";
  return {};
}

// Empty for a size that is taken.
std::string WrongSize(cjose_jwk_t* key) {
  cjose_err error;
  if (cjose_jwk_get_kty(key, &error) != CJOSE_JWK_KTY_RSA) return {};
  const std::size_t bits = cjose_jwk_get_keysize(key, &error);
  if (bits >= kMinRsaBits && bits <= kMaxRsaBits) return {};
  return fmt::format("has {} bits; {} to {} are taken", bits, kMinRsaBits, kMaxRsaBits);
}

}  // namespace

void JwtKeys::ReleaseKey::operator()(_cjose_jwk_int* key) const { cjose_jwk_release(key); }

absl::StatusOr<JwtKeys> JwtKeys::Parse(const std::string& json, const std::string& path) {
  const auto bad = [&path](std::string_view message) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, message));
  };
  if (const absl::Status status = CheckJsonObject(json); !status.ok()) {
    return bad(fmt::format("is not the JSON of a JWKS: {}", std::string(status.message())));
  }
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto list = root.find("keys");
  if (list == root.end() || !list->is_array()) return bad("must have a list `keys`");
  if (list->size() > kMaxKeys) return bad(fmt::format("has more than {} keys", kMaxKeys));
  JwtKeys keys;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& key = (*list)[i];
    const auto bad_key = [&bad, i](std::string_view message) {
      return bad(fmt::format("keys[{}]: {}", i, message));
    };
    if (const std::string_view why = WhyNoVerifiersKey(key); !why.empty()) return bad_key(why);
    if (key.contains("use") && StringOf(key, "use") != "sig") continue;
    Key taken;
    taken.algorithms = AlgorithmsOf(key);
    if (taken.algorithms.empty()) continue;
    taken.id = StringOf(key, "kid");
    if (!CheckId("kid", taken.id, kMaxIdBytes).ok()) {
      return bad_key(fmt::format("kid: must be 1 to {} bytes without controls", kMaxIdBytes));
    }
    if (!ids.insert(taken.id).second) return bad_key("kid: another key of this file has the same");
    const std::string text = key.dump();
    cjose_err error;
    taken.jwk.reset(cjose_jwk_import(text.data(), text.size(), &error));
    if (taken.jwk == nullptr) return bad_key("can't be read as a public key");
    if (const std::string why = WrongSize(taken.jwk.get()); !why.empty()) return bad_key(why);
    keys.keys_.push_back(std::move(taken));
  }
  if (keys.keys_.empty()) return bad("has no RSA or EC key for signatures");
  return keys;
}

JwtResult<std::string> JwtKeys::Verify(std::string_view token) const {
  cjose_err error;
  const std::unique_ptr<cjose_jws_t, ReleaseSignature> signature(
      cjose_jws_import(token.data(), token.size(), &error));
  if (signature == nullptr) return JwtFailure::kMalformed;
  cjose_header_t* const header = cjose_jws_get_protected(signature.get());
  // RFC 7515, section 4.1.11: what must be understood is not.
  if (header == nullptr || Has(header, "crit")) return JwtFailure::kMalformed;
  const char* const algorithm = cjose_header_get(header, CJOSE_HDR_ALG, &error);
  if (algorithm == nullptr) return JwtFailure::kAlgorithm;
  const char* const id = cjose_header_get(header, CJOSE_HDR_KID, &error);
  const auto key = std::ranges::find_if(
      keys_, [id](const Key& candidate) { return id != nullptr && candidate.id == id; });
  if (key == keys_.end()) return JwtFailure::kKey;
  // Before the library looks: it chooses how to verify by what the token says.
  if (std::ranges::find(key->algorithms, std::string_view(algorithm)) == key->algorithms.end()) {
    return JwtFailure::kAlgorithm;
  }
  std::uint8_t* payload = nullptr;
  std::size_t size = 0;
  if (!cjose_jws_verify(signature.get(), key->jwk.get(), &error) ||
      !cjose_jws_get_plaintext(signature.get(), &payload, &size, &error)) {
    return JwtFailure::kSignature;
  }
  return std::string(reinterpret_cast<const char*>(payload), size);
}

}  // namespace memoryd
