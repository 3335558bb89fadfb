// Any bytes as what is stored in JSON, the states of blocks and the settings of a session: what is
// read is written so that it is read again the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/summary_block.h"
#include "core/model/session_config.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

template <typename T>
void Run(std::string_view stored) {
  const auto value = T::FromJson(stored);
  if (!value.ok()) {
    Require(absl::IsDataLoss(value.status()));
    return;
  }
  const auto again = T::FromJson(value->ToJson());
  Require(again.ok() && *again == *value);
}

void RunUndo(std::string_view stored) {
  auto state = FactState::FromJson(stored);
  if (!state.ok()) return;
  const FactState before = *state;
  const auto undone = UndoChange(*state, 1, {"job", 1});
  Require(undone.ok() || *state == before);
}

void RunSettings(std::string_view stored) {
  const auto settings = SessionSettings::FromJson(stored);
  if (!settings.ok()) return;
  Require(settings->With({}) == *settings);
  const auto config = SessionConfig::Resolve(*settings);
  if (!config.ok()) {
    Require(absl::IsInvalidArgument(config.status()));
    return;
  }
  Require(config->token_limit >= 1 && config->token_flush_size <= config->token_limit);
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view stored(reinterpret_cast<const char*>(data), size);
  memoryd::Run<memoryd::FactState>(stored);
  memoryd::Run<memoryd::EntityState>(stored);
  memoryd::Run<memoryd::SummaryState>(stored);
  memoryd::Run<memoryd::SessionSettings>(stored);
  memoryd::RunUndo(stored);
  memoryd::RunSettings(stored);
  return 0;
}
