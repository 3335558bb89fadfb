#include "core/writes/command.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "core/blocks/fact_changes.h"
#include "core/writes/command_traits.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/facts.h"
#include "core/writes/commands/jobs.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/commands/staged.h"
#include "core/writes/commands/sweep.h"
#include "core/writes/found_messages.h"

namespace memoryd {
namespace {

using Finds = CommandTraits::Finds;
using Renews = CommandTraits::Renews;

// What is expected of each command. One that has no line here does not compile.
template <typename Kind>
constexpr CommandTraits kExpected = Kind::kHasNoLineHere;
template <>
constexpr CommandTraits kExpected<commands::Put>{.shares_commit = true, .takes_defaults = true};
template <>
constexpr CommandTraits kExpected<commands::Set>{.finds = Finds::kRoles, .takes_defaults = true};
template <>
constexpr CommandTraits kExpected<commands::Reset>{.finds = Finds::kRoles};
template <>
constexpr CommandTraits kExpected<commands::CreateSession>{.takes_defaults = true};
template <>
constexpr CommandTraits kExpected<commands::UpdateSession>{.takes_defaults = true,
                                                           .renews = Renews::kExpiryAndAges};
template <>
constexpr CommandTraits kExpected<commands::DeleteSession>{.finds = Finds::kRoles};
template <>
constexpr CommandTraits kExpected<commands::ForgetSession>{.is_forced = true};
template <>
constexpr CommandTraits kExpected<commands::UpdateMessage>{.finds = Finds::kNamed};
template <>
constexpr CommandTraits kExpected<commands::DeleteMessage>{.finds = Finds::kNamed};
template <>
constexpr CommandTraits kExpected<commands::UpdateContent>{.finds = Finds::kNamed};
template <>
constexpr CommandTraits kExpected<commands::DeleteContent>{.finds = Finds::kNamed};
template <>
constexpr CommandTraits kExpected<commands::UndoBlockChange>{};
template <>
constexpr CommandTraits kExpected<commands::EditFact>{.finds = Finds::kEvidence};
template <>
constexpr CommandTraits kExpected<commands::EndJob>{.is_forced = true, .renews = Renews::kNothing};
template <>
constexpr CommandTraits kExpected<commands::RetryJob>{};
template <>
constexpr CommandTraits kExpected<commands::StoreUsage>{.is_forced = true,
                                                        .renews = Renews::kNothing};
template <>
constexpr CommandTraits kExpected<commands::NoteEmbedder>{.renews = Renews::kNothing};
template <>
constexpr CommandTraits kExpected<commands::BeginStaged>{.is_staged = true};
template <>
constexpr CommandTraits kExpected<commands::AddStaged>{.is_forced = true, .is_staged = true};
template <>
constexpr CommandTraits kExpected<commands::PublishStaged>{
    .is_forced = true, .is_staged = true, .renews = Renews::kExpiryAndAges};
template <>
constexpr CommandTraits kExpected<commands::DropStaged>{.is_forced = true, .is_staged = true};
template <>
constexpr CommandTraits kExpected<commands::Sweep>{.renews = Renews::kNothing, .is_sweep = true};
template <>
constexpr CommandTraits kExpected<commands::TakeOutEntries>{.renews = Renews::kNothing,
                                                            .is_sweep = true};
template <>
constexpr CommandTraits kExpected<commands::ArchiveOldest>{.is_forced = true};

// Calls `look` with one of each command.
template <std::size_t... kIndex>
void ForEach(const auto& look, std::index_sequence<kIndex...> /*all*/) {
  (look(std::variant_alternative_t<kIndex, WriteCommand>()), ...);
}
void ForEachCommand(const auto& look) {
  ForEach(look, std::make_index_sequence<std::variant_size_v<WriteCommand>>());
}

TEST(CommandTest, EachHasTheTraitsThatAreExpected) {
  ForEachCommand([](auto command) {
    using Kind = decltype(command);
    static_assert(Kind::kTraits == kExpected<Kind>);
    EXPECT_EQ(TraitsOf(command), Kind::kTraits);
  });
}

TEST(CommandTest, OnlyPutsShareACommit) {
  ForEachCommand([](auto command) {
    EXPECT_EQ(TraitsOf(command).shares_commit, (std::is_same_v<decltype(command), commands::Put>));
  });
}

TEST(CommandTest, ADeletionIsForcedAsAStepOfAnErasure) {
  EXPECT_FALSE(IsForced(commands::DeleteSession()));
  EXPECT_TRUE(IsForced(commands::DeleteSession{"ada"}));
  ForEachCommand([](auto command) {
    using Kind = decltype(command);
    EXPECT_EQ(IsForced(command), Kind::kTraits.is_forced);
  });
}

TEST(CommandTest, OneWithoutItemsOrConfigurationHasNone) {
  EXPECT_EQ(ItemsOf(commands::DeleteSession()).count(), 0U);
  EXPECT_TRUE(ConfigOf(commands::Set()).empty());
  const WriteCommand put = commands::Put{{}, {{}, "chat"}, {}};
  EXPECT_EQ(&ItemsOf(put), &std::get<commands::Put>(put).items);
  EXPECT_EQ(ConfigOf(put).template_name, "chat");
}

TEST(CommandTest, ItsRowsAreWhatTheStoreWrites) {
  commands::Put put;
  put.items.messages.resize(2);
  put.items.contents.resize(1);
  EXPECT_EQ(RowsOf(std::move(put)), 3U);
  commands::AddStaged staged;
  staged.rows.messages.resize(4);
  staged.rows.contents.resize(3);
  staged.rows.entries.resize(2);
  EXPECT_EQ(RowsOf(std::move(staged)), 9U);
  commands::EndJob ended;
  ended.outcome.entries.resize(5);
  EXPECT_EQ(RowsOf(std::move(ended)), 5U);
  commands::TakeOutEntries taken_out;
  taken_out.removal.count = 250;
  EXPECT_EQ(RowsOf(std::move(taken_out)), 250U);
  EXPECT_EQ(RowsOf(commands::Reset()), 0U);
}

TEST(CommandTest, WhatWasFoundCompletesACommandThatAsksForIt) {
  commands::UpdateMessage update;
  update.edit = [](const FoundMessages& found, IncomingItems& items) {
    items.messages.resize(found.messages.size() + 1);
    return absl::OkStatus();
  };
  WriteCommand command = update;
  EXPECT_TRUE(Complete(command, {}).ok());
  EXPECT_EQ(ItemsOf(command).messages.size(), 1U);

  commands::EditFact edit;
  edit.judge = [](const FoundMessages&, FactEdit& fact) {
    fact.untrusted_evidence = true;
    return absl::OkStatus();
  };
  command = edit;
  EXPECT_TRUE(Complete(command, {}).ok());
  EXPECT_TRUE(std::get<commands::EditFact>(command).fact.untrusted_evidence);

  // Others take nothing from it.
  command = commands::DeleteMessage{"a"};
  EXPECT_TRUE(Complete(command, {}).ok());
}

}  // namespace
}  // namespace memoryd
