#include "data/text/packed_ids.h"

#include <algorithm>

namespace tandem::datasets {

namespace {

constexpr Index kBytes = Index{1} << 8, kShorts = Index{1} << 16;

Index bound_of(std::span<const std::int32_t> ids) {
  return ids.empty() ? 0 : Index{*std::ranges::max_element(ids)} + 1;
}

template <class List>
using Item = typename List::value_type;

}  // namespace

PackedIds::PackedIds(Index size) {
  if (size > kBytes) ids_.emplace<1>();
  if (size > kShorts) ids_.emplace<2>();
}

PackedIds::PackedIds(std::span<const std::int32_t> ids) : PackedIds(bound_of(ids)) {
  reserve(ids.size());
  append(ids);
}

std::size_t PackedIds::size() const {
  return std::visit([](const auto& list) { return list.size(); }, ids_);
}

std::size_t PackedIds::bytes() const {
  return std::visit([](const auto& list) { return list.size() * sizeof(list[0]); }, ids_);
}

void PackedIds::append(std::span<const std::int32_t> ids) {
  std::visit(
      [&]<class List>(List& list) {
        std::ranges::transform(ids, std::back_inserter(list),
                               [](std::int32_t id) { return static_cast<Item<List>>(id); });
      },
      ids_);
}

void PackedIds::reserve(std::size_t count) {
  std::visit([&](auto& list) { list.reserve(count); }, ids_);
}

PackedIds PackedIds::first(std::size_t count) const {
  PackedIds part = *this;
  std::visit([&](auto& list) { list.resize(std::min(count, list.size())); }, part.ids_);
  return part;
}

std::vector<std::int32_t> PackedIds::unpacked() const {
  return std::visit([](const auto& list) { return std::vector<std::int32_t>(list.begin(), list.end()); },
                    ids_);
}

}  // namespace tandem::datasets
