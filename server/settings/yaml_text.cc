#include "server/settings/yaml_text.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/utf8_decode.h"
#include "server/settings/setting_value.h"

namespace memoryd {
namespace {

int LineOf(const YAML::Mark& mark) { return mark.line < 0 ? 1 : mark.line + 1; }

// Where the last document began.
class DocumentStart final : public YAML::EventHandler {
 public:
  const YAML::Mark& mark() const { return mark_; }

  void OnDocumentStart(const YAML::Mark& mark) override { mark_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  YAML::Mark mark_;
};

// Where a second document begins. YAML::LoadAll() never ends on some texts that are no YAML.
std::optional<YAML::Mark> SecondDocument(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  DocumentStart start;
  if (!parser.HandleNextDocument(start) || !parser.HandleNextDocument(start)) return std::nullopt;
  return start.mark();
}

}  // namespace

absl::StatusOr<YAML::Node> LoadYaml(const std::string& yaml, const std::string& path) {
  const auto bad = [&path](int line, std::string_view what) {
    return absl::InvalidArgumentError(OnOneLine(fmt::format("{}:{}: {}", path, line, what)));
  };
  // yaml-cpp would read other characters than were written.
  if (const std::size_t good = Utf8Bytes(yaml); good != yaml.size()) {
    const auto end = yaml.begin() + static_cast<std::ptrdiff_t>(good);
    return bad(1 + static_cast<int>(std::count(yaml.begin(), end, '\n')), "is not UTF-8");
  }
  try {
    if (const std::optional<YAML::Mark> second = SecondDocument(yaml)) {
      return bad(LineOf(*second), "a second YAML document begins; a file may have one alone");
    }
    return YAML::Load(yaml);
  } catch (const YAML::DeepRecursion& error) {
    return bad(LineOf(error.mark), "is nested too deeply");
  } catch (const YAML::Exception& error) {
    return bad(LineOf(error.mark), fmt::format("can't be read as YAML: {}", error.msg));
  }
}

}  // namespace memoryd
