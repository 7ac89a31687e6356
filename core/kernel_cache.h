// Plans: what a kernel resolves once per (op, shapes, dtypes, flags) and reuses in every step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace tandem {

// The identity of a plan, inline: looking one up touches no heap. Unused words are zero.
class KernelKey {
 public:
  static constexpr int kWords = 22;

  template <class... Values>
  explicit KernelKey(Values... values) : words_{static_cast<std::int64_t>(values)...} {
    static_assert(sizeof...(Values) <= kWords);
  }

  friend bool operator==(const KernelKey&, const KernelKey&) = default;

  struct Hash {
    std::size_t operator()(const KernelKey& key) const {
      std::uint64_t hash = 0x9e3779b97f4a7c15u;
      for (const std::int64_t word : key.words_) {
        hash ^= static_cast<std::uint64_t>(word);
        hash *= 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
      }
      return hash;
    }
  };

 private:
  std::array<std::int64_t, kWords> words_{};
};

// Used by the one thread that drives the device. Shapes that never repeat must not fill the memory: a full
// cache starts over.
template <class Plan>
class KernelCache {
 public:
  template <class Make>
  Plan& get(const KernelKey& key, Make&& make) {
    const auto it = plans_.find(key);
    if (it != plans_.end()) return *it->second;
    if (plans_.size() >= kCapacity) plans_.clear();
    return *plans_.emplace(key, make()).first->second;
  }

 private:
  static constexpr std::size_t kCapacity = 4096;
  std::unordered_map<KernelKey, std::unique_ptr<Plan>, KernelKey::Hash> plans_;
};

}  // namespace tandem
