// Cache of prepared kernels: resolved once per (op, shapes, dtypes, flags) and reused in every step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace tandem {

// Key of a prepared kernel, stored inline: lookups do not allocate. Unused words are zero.
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

// For the thread that drives the device. A full cache starts over, so that ever new shapes cannot exhaust
// memory.
template <class Prepared>
class KernelCache {
 public:
  template <class Make>
  Prepared& get(const KernelKey& key, Make&& make) {
    const auto it = prepared_.find(key);
    if (it != prepared_.end()) return *it->second;
    if (prepared_.size() >= kCapacity) prepared_.clear();
    return *prepared_.emplace(key, make()).first->second;
  }

 private:
  static constexpr std::size_t kCapacity = 4096;
  std::unordered_map<KernelKey, std::unique_ptr<Prepared>, KernelKey::Hash> prepared_;
};

}  // namespace tandem
