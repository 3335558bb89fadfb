#include "server/access/credential_table.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/visible_text.h"
#include "server/settings/setting_value.h"
#include "server/settings/yaml_text.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxCertificateName = 256;

// Either digit's case.
int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

template <std::size_t kSize>
bool ParseHex(std::string_view text, std::array<unsigned char, kSize>& bytes) {
  if (text.size() != 2 * kSize) return false;
  for (std::size_t i = 0; i < kSize; ++i) {
    const int high = HexDigit(text[2 * i]);
    const int low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

}  // namespace

// One file on its way into a table.
class CredentialParser {
 public:
  CredentialParser(const std::string& path, CredentialTable& table) : path_(path), table_(table) {}

  // Throws YAML::Exception.
  absl::Status Parse(const YAML::Node& root) {
    if (root.IsNull()) return Bad(root, "is empty; write [] when nobody shall have access");
    if (!root.IsSequence()) return Bad(root, "must be a list of credentials");
    for (const YAML::Node& entry : root) MEMORYD_RETURN_IF_ERROR(ParseEntry(entry));
    return absl::OkStatus();
  }

  absl::Status BadYaml(const YAML::Exception& error) const {
    return Bad(error.mark.line, fmt::format("can't be read as YAML: {}", error.msg));
  }

 private:
  absl::Status Bad(int line, std::string_view message) const {
    return absl::InvalidArgumentError(
        OnOneLine(fmt::format("{}:{}: {}", path_, line < 0 ? 1 : line + 1, message)));
  }
  absl::Status Bad(const YAML::Node& node, std::string_view message) const {
    return Bad(node.Mark().line, message);
  }

  // One credential while its keys are read.
  struct Entry {
    Grant grant;
    Sha256Digest digest{};
    std::string certificate;
    std::string name;
  };

  absl::Status ParseEntry(const YAML::Node& node) {
    if (!node.IsMap()) return Bad(node, "must be a map with tenant, rights and a credential");
    Entry entry;
    std::set<std::string> keys;
    for (const auto& pair : node) {
      const auto key = pair.first.as<std::string>();
      if (!keys.insert(key).second) return Bad(pair.first, fmt::format("{}: is given twice", key));
      MEMORYD_RETURN_IF_ERROR(TakeKey(key, pair.first, pair.second, entry));
    }
    for (const char* key : {"tenant", "rights"}) {
      if (!keys.contains(key)) return Bad(node, fmt::format("{}: is missing", key));
    }
    if (keys.contains("token_sha256") == keys.contains("certificate")) {
      return Bad(node, "give either token_sha256 or certificate");
    }
    return Add(node, std::move(entry));
  }

  absl::Status TakeKey(const std::string& key, const YAML::Node& key_node, const YAML::Node& value,
                       Entry& entry) const {
    if (key == "rights") return ParseRights(value, entry.grant.rights);
    if (key == "roles") return ParseRoles(value, entry.grant.roles);
    if (!value.IsScalar()) return Bad(key_node, fmt::format("{}: must be a single value", key));
    if (key == "tenant") return TakeId(key, value, kMaxTenant, entry.grant.tenant);
    if (key == "certificate") return TakeId(key, value, kMaxCertificateName, entry.certificate);
    if (key == "name") return TakeId(key, value, kMaxIdBytes, entry.name);
    if (key == "subject") {
      if (!ShowsAllCharacters(value.Scalar())) {
        return Bad(value, "subject: must not hold characters that do not show");
      }
      return TakeId(key, value, kMaxSubjectBytes, entry.grant.subject);
    }
    if (key == "token_sha256") {
      if (ParseHex(value.Scalar(), entry.digest)) return absl::OkStatus();
      return Bad(value, "token_sha256: must be 64 hexadecimal digits: the SHA-256 of the token");
    }
    if (key == "untrusted") {
      if (YAML::convert<bool>::decode(value, entry.grant.untrusted)) return absl::OkStatus();
      return Bad(value, "untrusted: must be true or false");
    }
    if (key == "expires") {
      std::string error;
      if (absl::ParseTime(absl::RFC3339_full, value.Scalar(), &entry.grant.expires, &error)) {
        return absl::OkStatus();
      }
      return Bad(value, "expires: must be a time such as 2030-01-31T00:00:00Z");
    }
    return Bad(key_node, fmt::format("unknown key {}", key));
  }

  absl::Status TakeId(const std::string& key, const YAML::Node& value, std::size_t most_bytes,
                      std::string& id) const {
    const absl::Status status = CheckId(key, value.Scalar(), most_bytes);
    if (!status.ok()) return Bad(value, std::string(status.message()));
    id = value.Scalar();
    return absl::OkStatus();
  }

  absl::Status Add(const YAML::Node& node, Entry entry) {
    const bool is_token = entry.certificate.empty();
    Grant& grant = entry.grant;
    if (is_token) {
      grant.principal = "token:" + (entry.name.empty() ? ShortHash(entry.digest) : entry.name);
    } else {
      grant.principal = "certificate:" + (entry.name.empty() ? entry.certificate : entry.name);
    }
    const bool added =
        is_token ? table_.tokens_.emplace(entry.digest, std::move(grant)).second
                 : table_.certificates_.emplace(entry.certificate, std::move(grant)).second;
    if (added) return absl::OkStatus();
    return Bad(node, fmt::format("{}: another entry of this file has the same",
                                 is_token ? "token_sha256" : "certificate"));
  }

  absl::Status ParseRights(const YAML::Node& list, Rights& rights) const {
    constexpr std::string_view kExpected = "rights: must be a list of read, write, admin, worker";
    if (!list.IsSequence() || list.size() == 0) return Bad(list, kExpected);
    for (const YAML::Node& item : list) {
      const std::optional<Right> right = RightOf(item.as<std::string>());
      if (!right.has_value()) return Bad(item, kExpected);
      rights.Add(*right);
    }
    return absl::OkStatus();
  }

  absl::Status ParseRoles(const YAML::Node& list, Roles& roles) const {
    if (!list.IsSequence() || list.size() == 0) return Bad(list, "roles: must be a list of roles");
    std::set<std::string, std::less<>> names;
    for (const YAML::Node& item : list) {
      auto name = item.as<std::string>();
      if (const absl::Status status = CheckId("roles", name, kMaxRoleBytes); !status.ok()) {
        return Bad(item, std::string(status.message()));
      }
      names.insert(std::move(name));
    }
    roles = Roles(std::move(names));
    return absl::OkStatus();
  }

  const std::string& path_;
  CredentialTable& table_;
};

absl::StatusOr<CredentialTable> CredentialTable::Parse(const std::string& yaml,
                                                       const std::string& path) {
  CredentialTable table;
  CredentialParser parser(path, table);
  MEMORYD_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(yaml, path));
  try {
    MEMORYD_RETURN_IF_ERROR(parser.Parse(root));
  } catch (const YAML::Exception& error) {
    return parser.BadYaml(error);
  }
  return table;
}

bool CredentialTable::HasTenant(std::string_view tenant) const {
  const auto is_of = [tenant](const auto& entry) { return entry.second.tenant == tenant; };
  return std::any_of(tokens_.begin(), tokens_.end(), is_of) ||
         std::any_of(certificates_.begin(), certificates_.end(), is_of);
}

const Grant* CredentialTable::FindToken(std::string_view token) const {
  // A hash map does not take the same time for all keys, but all that its time can tell is how much
  // of the digest agrees with a stored one. Nobody can choose tokens by their digest, and a digest
  // known in full opens nothing.
  const auto found = tokens_.find(Sha256(token));
  return found == tokens_.end() ? nullptr : &found->second;
}

const Grant* CredentialTable::FindCertificate(std::string_view name) const {
  const auto found = certificates_.find(name);
  return found == certificates_.end() ? nullptr : &found->second;
}

}  // namespace memoryd
