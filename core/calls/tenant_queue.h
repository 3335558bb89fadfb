// A queue in which tenants take turns, by what each has cost so far.
#ifndef MEMORYD_CORE_CALLS_TENANT_QUEUE_H_
#define MEMORYD_CORE_CALLS_TENANT_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/string_hash.h"

namespace memoryd {

// The items of one tenant leave in the order they came. Between tenants, the next item is one of
// the tenant that has cost least since it last had nothing in the queue; at the same cost, of the
// tenant that has waited longest. A tenant that returns begins at what tenants have cost by then,
// so it does not save up. That grows with all that is served, also for tenants with one item each
// (the virtual time of weighted fair queueing, with equal weights): who always comes back does not
// go before those who wait.
//
// A tenant takes memory only while it has items or open turns. An exception of Push() or PutBack()
// leaves the queue without the item, and otherwise as it was. Not safe for several threads.
template <typename T>
class TenantQueue {
 private:
  struct Tenant {
    std::deque<T> items;
    std::int64_t cost = 0;
    std::uint64_t place = 0;  // Among tenants of the same cost.
    std::size_t turns = 0;    // Begun and not ended.
  };
  using Tenants = StringMap<Tenant>;

 public:
  // A tenant whose item was taken, until EndTurn() or PutBack().
  using Turn = typename Tenants::value_type*;

  void Push(std::string_view tenant, T item) {
    auto found = tenants_.find(tenant);
    if (found == tenants_.end()) found = tenants_.try_emplace(std::string(tenant)).first;
    Tenant& known = found->second;
    if (known.items.empty()) known.cost = std::max(known.cost, served_cost_);
    Insert(*found, [&item](std::deque<T>& items) { items.push_back(std::move(item)); });
  }

  // Takes the next item. The queue must not be empty.
  std::pair<Turn, T> Take() {
    auto place = waiting_.begin();
    if (next_ != nullptr) {
      place = waiting_.find({next_->second.cost, next_->second.place, next_});
      next_ = nullptr;
    }
    auto node = waiting_.extract(place);
    const Turn turn = std::get<Turn>(node.value());
    Tenant& tenant = turn->second;
    served_cost_ = std::max(served_cost_, tenant.cost);
    T item = std::move(tenant.items.front());
    tenant.items.pop_front();
    --size_;
    ++tenant.turns;
    if (!tenant.items.empty()) {
      // The node is used again: this is done for every item.
      node.value() = NextPlace(*turn);
      waiting_.insert(std::move(node));
    }
    return {turn, std::move(item)};
  }

  // The item has cost so much, in units of the caller's; at least 0.
  void EndTurn(Turn turn, std::int64_t cost) {
    Tenant& tenant = turn->second;
    --tenant.turns;
    if (!tenant.items.empty()) {
      auto node = waiting_.extract({tenant.cost, tenant.place, turn});
      tenant.cost += cost;
      std::get<0>(node.value()) = tenant.cost;
      waiting_.insert(std::move(node));
    } else if (tenant.turns > 0) {
      tenant.cost += cost;
    } else {
      // The tenant's own cost is forgotten. What it took from each of the others is not.
      served_cost_ += cost / static_cast<std::int64_t>(waiting_.size() + 1);
      tenants_.erase(tenants_.find(turn->first));
    }
  }

  // Ends a turn that has cost nothing: the item is the tenant's first again. With `next` the tenant
  // also goes before all others once, whatever it has cost.
  void PutBack(Turn turn, T item, bool next = false) {
    --turn->second.turns;
    Insert(*turn, [&item](std::deque<T>& items) { items.push_front(std::move(item)); });
    if (next) next_ = turn;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t SizeOf(std::string_view tenant) const {
    const auto found = tenants_.find(tenant);
    return found == tenants_.end() ? 0 : found->second.items.size();
  }
  // Tenants that have items.
  std::size_t WaitingTenants() const { return waiting_.size(); }
  // Tenants that take memory.
  std::size_t KnownTenants() const { return tenants_.size(); }

 private:
  using Key = std::tuple<std::int64_t, std::uint64_t, Turn>;  // Cost, place.

  // Where the tenant waits from now on.
  Key NextPlace(typename Tenants::value_type& tenant) {
    tenant.second.place = ++last_place_;
    return {tenant.second.cost, tenant.second.place, &tenant};
  }

  // Adds an item by `add`, and has the tenant wait if it is its only one.
  template <typename Add>
  void Insert(typename Tenants::value_type& tenant, const Add& add) {
    std::deque<T>& items = tenant.second.items;
    const bool waits = !items.empty();
    try {
      add(items);
      if (!waits) waiting_.insert(NextPlace(tenant));
    } catch (...) {
      if (!waits) {
        items.clear();
        if (tenant.second.turns == 0) tenants_.erase(tenants_.find(tenant.first));
      }
      throw;
    }
    ++size_;
  }

  Tenants tenants_;
  std::set<Key> waiting_;  // Those that have items.
  std::size_t size_ = 0;
  Turn next_ = nullptr;           // Has an item, and goes first.
  std::int64_t served_cost_ = 0;  // Where a tenant that returns begins.
  std::uint64_t last_place_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_TENANT_QUEUE_H_
