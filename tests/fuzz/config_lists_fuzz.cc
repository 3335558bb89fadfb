// Any text as a file of credentials, and as the lists of the configuration file: it is taken, or
// refused on one line that says where.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/credential_table.h"
#include "server/access/tenant_limits.h"
#include "server/settings/model_config.h"
#include "server/settings/yaml_text.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

const std::string kPath = "file.yaml";

// `file.yaml:LINE: REASON`, of a line that the file has.
void RequireOneLine(const absl::Status& status, std::string_view text) {
  Require(absl::IsInvalidArgument(status));
  const std::string whole(status.message());
  std::string_view message = whole;
  Require(std::none_of(message.begin(), message.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
  Require(message.starts_with(kPath + ":"));
  message.remove_prefix(kPath.size() + 1);
  std::ptrdiff_t line = 0;
  const auto read = std::from_chars(message.data(), message.data() + message.size(), line);
  Require(read.ec == std::errc() && std::string_view(read.ptr, 2) == ": ");
  // A line may end with CR, LF or both.
  const auto ends =
      std::count_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; });
  Require(line >= 1 && line <= ends + 1);
}

void RunCredentials(const std::string& text) {
  const auto table = CredentialTable::Parse(text, kPath);
  if (!table.ok()) return RequireOneLine(table.status(), text);
  Require(table->size() <= text.size());
}

void RunLists(const std::string& text) {
  const absl::StatusOr<YAML::Node> loaded = LoadYaml(text, kPath);
  if (!loaded.ok()) return RequireOneLine(loaded.status(), text);
  try {
    const YAML::Node& root = *loaded;
    if (const auto tenants = ParseTenants(root, kPath); !tenants.ok()) {
      RequireOneLine(tenants.status(), text);
    }
    const auto models = ParseModels(root, kPath);
    if (!models.ok()) return RequireOneLine(models.status(), text);
    // What is shown of them is the same but for the values of headers.
    const auto shown = ParseModels(YAML::Load(YAML::Dump(MaskedModels(root))), kPath);
    Require(shown.ok() && shown->size() == models->size());
    for (std::size_t i = 0; i < models->size(); ++i) {
      Require((*shown)[i].name == (*models)[i].name && (*shown)[i].url == (*models)[i].url);
      Require((*shown)[i].headers.size() == (*models)[i].headers.size());
      for (const auto& [name, value] : (*shown)[i].headers) Require(value == "***");
    }
  } catch (const YAML::Exception&) {
    // As ParseModels says.
  }
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  memoryd::RunCredentials(text);
  memoryd::RunLists(text);
  return 0;
}
