// Shards with values that round, and their sum by the definition of the tree.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace tandem::test {

// A number of (shard, element) with all bits of T in use, and of both signs.
template <class T>
T shard_value(int shard, std::size_t element) {
  auto bits = static_cast<unsigned>(shard * 7919 + static_cast<int>(element) * 104729 + 12345);
  bits = (bits ^ (bits >> 15)) * 2246822519u;
  bits = (bits ^ (bits >> 13)) * 3266489917u;
  return static_cast<T>(static_cast<double>(bits) / 1234567.0 - 1739.0) / T(3);
}

template <class T>
std::vector<T> shard_values(int shard, std::size_t length) {
  std::vector<T> values(length);
  for (std::size_t i = 0; i < length; ++i) values[i] = shard_value<T>(shard, i);
  return values;
}

// Of shards first … first + count - 1, recursively.
template <class T>
std::vector<T> tree_sum(int first, int count, std::size_t length) {
  if (count == 1) return shard_values<T>(first, length);
  int left = 1;
  while (left * 2 < count) left *= 2;
  std::vector<T> sum = tree_sum<T>(first, left, length);
  const std::vector<T> right = tree_sum<T>(first + left, count - left, length);
  for (std::size_t i = 0; i < length; ++i) sum[i] = sum[i] + right[i];
  return sum;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace tandem::test
