#include "core/guard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"

namespace tandem::guard {

namespace {

// Not the bits of 0, 1, an infinity or a NaN in any type.
constexpr unsigned char kPattern = 0xa5;

const unsigned char* pattern() {
  static const auto bytes = [] {
    std::array<unsigned char, kGuard> filled{};
    filled.fill(kPattern);
    return filled;
  }();
  return bytes.data();
}

bool asked_for() {
  const char* value = std::getenv("TANDEM_GUARD");
  return value && *value != '\0' && std::string_view(value) != "0";
}

std::atomic<bool>& state() {
  static std::atomic<bool> on{asked_for()};
  return on;
}

bool untouched(const unsigned char* from, std::size_t count) {
  for (; count > kGuard; from += kGuard, count -= kGuard)
    if (std::memcmp(from, pattern(), kGuard) != 0) return false;
  return std::memcmp(from, pattern(), count) == 0;
}

struct Guarded {
  std::size_t bytes;
  Extent extent;
  MemoryKind kind;

  Overrun overrun(const void* data) const {
    const auto* begin = static_cast<const unsigned char*>(data);
    const auto* end = begin + bytes;
    Overrun found;
    if (!untouched(begin - extent.before, extent.before)) {
      const auto* first = std::find_if(begin - extent.before, begin, [](auto b) { return b != kPattern; });
      found.before = static_cast<std::size_t>(begin - first);
    }
    if (!untouched(end, extent.behind)) {
      found.behind = extent.behind;
      while (end[found.behind - 1] == kPattern) --found.behind;
    }
    found.at_least = (found.before != 0 && found.before == extent.before) ||
                     (found.behind != 0 && found.behind == extent.behind);
    return found;
  }

  std::string describe(const Overrun& found) const {
    return fmt::format("{} a block of {} bytes ({}) were overwritten", to_string(found), bytes,
                       name_of(kind));
  }
};

struct Registry {
  std::mutex mutex;
  std::map<const void*, Guarded> blocks;
  std::string damage;  // the first damage; empty without any

  void note(const void* data, const Guarded& block) {
    if (!damage.empty()) return;
    if (const Overrun found = block.overrun(data)) damage = block.describe(found);
  }
};

// Never destroyed, like host_allocator().
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

}  // namespace

bool on() { return state().load(std::memory_order_relaxed); }
bool turn(bool on) { return state().exchange(on); }

Extent around(MemoryKind kind) {
  if (on()) return {kGuard, kGuard};
  return {0, kind == MemoryKind::workspace ? kMargin : 0};
}

std::string to_string(const Overrun& overrun) {
  std::string text = overrun.at_least ? "at least " : "";
  if (overrun.before) text += fmt::format("{} bytes before", overrun.before);
  if (overrun.before && overrun.behind) text += " and ";
  if (overrun.behind) text += fmt::format("{} bytes behind", overrun.behind);
  return text;
}

void lay(void* data, std::size_t bytes, Extent extent, MemoryKind kind) {
  auto* begin = static_cast<unsigned char*>(data);
  std::memset(begin - extent.before, kPattern, extent.before);
  std::memset(begin + bytes, kPattern, extent.behind);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.blocks.insert_or_assign(data, Guarded{bytes, extent, kind});
}

void lift(void* data) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto it = all.blocks.find(data);
  if (it == all.blocks.end()) return;
  all.note(data, it->second);
  all.blocks.erase(it);
}

Overrun overrun(const void* data) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto it = all.blocks.find(data);
  return it == all.blocks.end() ? Overrun{} : it->second.overrun(data);
}

void check(std::string_view where) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const auto& [data, block] : all.blocks) {
    if (!all.damage.empty()) break;
    all.note(data, block);
  }
  if (all.damage.empty()) return;
  throw InternalError(where,
                      fmt::format("{}: that data is lost, and later results cannot be trusted{}", all.damage,
                                  on() ? "" : "; with TANDEM_GUARD=1 the run names the kernel"));
}

std::optional<std::string> forget() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.damage.empty()) return {};
  return std::exchange(all.damage, {});
}

}  // namespace tandem::guard
