#include "core/reads/session_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks/usage_state.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

std::uint64_t HashOf(std::string_view text) { return std::hash<std::string_view>()(text); }

// Of entries as well, which are added and taken out with the state.
std::uint64_t KnowledgeOf(const BlockState& state) {
  if (state.state.empty() && state.next_entry == 1) return 0;
  const std::uint64_t entries =
      state.entry_generation ^ static_cast<std::uint64_t>(state.next_entry);
  return (HashOf(state.state) ^ (entries * 0x9E3779B97F4A7C15ULL)) | 1;
}

std::int64_t MessagesOf(const SessionRow& row) { return row.active_count + row.archived_count; }

// Whether a message left short-term memory that was in it, or was put meanwhile. Pinned ones stay,
// though the watermark passes them.
bool HaveLeft(const SessionRow& before, const SessionRow& after) {
  const auto pinned =
      std::count_if(after.pinned.begin(), after.pinned.end(), [&](std::int64_t position) {
        return position >= before.watermark && position < after.watermark;
      });
  return after.watermark - before.watermark > pinned;
}

class Comparison {
 public:
  Comparison(const SessionState& before, const SessionState& after)
      : before_(before), after_(after) {}

  StateChanges Run() {
    if (!after_.exists() || after_.row.create_us != before_.row.create_us) {
      Add(StateChange::kDeleted);
      return std::move(changes_);
    }
    Messages();
    if (after_.row.edit_revision > before_.row.edit_revision) Add(StateChange::kItemsEdited);
    Contents();
    Blocks();
    if (after_.config != before_.config) Add(StateChange::kConfig);
    return std::move(changes_);
  }

 private:
  void Add(StateChange change) { changes_.changes.push_back(change); }

  void Messages() {
    const SessionRow& before = before_.row;
    const SessionRow& after = after_.row;
    if (after.generation != before.generation) {
      Add(StateChange::kMessagesReplaced);
      return;
    }
    const std::int64_t put = after.next_position - before.next_position;
    if (put > 0) {
      Add(StateChange::kMessagesPut);
      changes_.first_new_position = before.next_position;
    }
    if (HaveLeft(before, after)) Add(StateChange::kMessagesArchived);
    // What was deleted by itself is an edit; where it may be that, the floor tells of the rest.
    const bool fewer = MessagesOf(after) < MessagesOf(before) + std::max<std::int64_t>(0, put);
    const bool edited = after.edit_revision > before.edit_revision;
    if (after.floor > before.floor || (fewer && !edited)) Add(StateChange::kMessagesRemoved);
  }

  void Contents() {
    const SessionRow& before = before_.row;
    const SessionRow& after = after_.row;
    if (after.content_generation != before.content_generation) {
      Add(before.content_generation == 0 ? StateChange::kContentsPut
                                         : StateChange::kContentsReplaced);
    } else if (after.next_content > before.next_content) {
      Add(StateChange::kContentsPut);
    }
  }

  // Both lists are by name.
  void Blocks() {
    static const SessionState::Block kNone;
    const bool anew = after_.row.block_generation != before_.row.block_generation;
    bool jobs = false;
    const auto compare = [&](const SessionState::Block& before, const SessionState::Block& after,
                             const std::string& name) {
      if (before.knowledge != after.knowledge || (anew && before.knowledge != 0)) {
        changes_.blocks.push_back(name);
      }
      jobs |= before.done != after.done || before.next != after.next || (anew && before.next > 1);
    };
    auto before = before_.blocks.begin();
    auto after = after_.blocks.begin();
    while (before != before_.blocks.end() || after != after_.blocks.end()) {
      if (after == after_.blocks.end() ||
          (before != before_.blocks.end() && before->name < after->name)) {
        compare(*before, kNone, before->name);
        ++before;
      } else if (before == before_.blocks.end() || after->name < before->name) {
        compare(kNone, *after, after->name);
        ++after;
      } else {
        compare(*before, *after, after->name);
        ++before;
        ++after;
      }
    }
    if (!changes_.blocks.empty()) Add(StateChange::kBlocks);
    if (jobs) Add(StateChange::kJobs);
  }

  const SessionState& before_;
  const SessionState& after_;
  StateChanges changes_;
};

}  // namespace

std::size_t SessionState::ByteSize() const {
  std::size_t bytes = sizeof(SessionState) + row.pinned.size() * sizeof(std::int64_t) +
                      row.subject.size() + blocks.size() * sizeof(Block);
  for (const Block& block : blocks) bytes += block.name.size();
  return bytes;
}

SessionState StateOf(const SessionRow& row,
                     const std::vector<std::shared_ptr<const BlockState>>& blocks) {
  SessionState state;
  state.row = row;
  state.config = HashOf(row.config);
  state.stored_bytes = StoredUsage(row).bytes;
  state.row.config = SharedString();
  for (const std::shared_ptr<const BlockState>& block : blocks) {
    if (block->name == kUsageBlock) continue;
    state.blocks.push_back({block->name, KnowledgeOf(*block), block->done, block->next});
  }
  std::sort(
      state.blocks.begin(), state.blocks.end(),
      [](const SessionState::Block& a, const SessionState::Block& b) { return a.name < b.name; });
  return state;
}

StateChanges ChangesBetween(const SessionState& before, const SessionState& after) {
  return Comparison(before, after).Run();
}

}  // namespace memoryd
