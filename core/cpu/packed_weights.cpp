#include "core/cpu/packed_weights.h"

#include <unordered_map>

namespace tandem::cpu {

std::uint32_t layout_id(const KernelKey& key) {
  static std::unordered_map<KernelKey, std::uint32_t, KernelKey::Hash> ids;
  return ids.try_emplace(key, static_cast<std::uint32_t>(ids.size())).first->second;
}

}  // namespace tandem::cpu
