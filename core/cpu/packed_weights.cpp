#include "core/cpu/packed_weights.h"

#include <unordered_map>

namespace tandem::cpu {

std::uint32_t layout_id(const PlanKey& key) {
  static std::unordered_map<PlanKey, std::uint32_t, PlanKey::Hash> ids;
  return ids.try_emplace(key, static_cast<std::uint32_t>(ids.size())).first->second;
}

}  // namespace tandem::cpu
