// Storage: ownership, versions and attached caches.
#include "core/storage.h"

#include <catch2/catch.hpp>
#include <string>

using namespace tandem;

namespace {

int destroyed = 0;

struct Packed final : KeptList {
  static constexpr Kept kKept = Kept::packed_weights;
  ~Packed() override { ++destroyed; }
  int value = 0;
};

struct Copies final : KeptList {
  static constexpr Kept kKept = Kept::working_copies;
  ~Copies() override { ++destroyed; }
  std::string value;
};

}  // namespace

TEST_CASE("the last handle returns the memory", "[storage]") {
  CachingAllocator& allocator = host_allocator();
  const std::size_t live = allocator.figures().live;
  {
    Ref<Storage> a = make_ref<Storage>(allocator, 1000, Device{}, MemoryKind::data);
    CHECK(a->use_count() == 1);
    CHECK(a->bytes() == 1000);
    const Ref<Storage> b = a;
    CHECK(a->use_count() == 2);
    a = nullptr;
    CHECK(b->use_count() == 1);
    CHECK(allocator.figures().live > live);
  }
  CHECK(allocator.figures().live == live);
}

TEST_CASE("an empty storage holds no memory", "[storage]") {
  const Ref<Storage> empty = make_ref<Storage>(host_allocator(), 0, Device{}, MemoryKind::data);
  CHECK(empty->data() == nullptr);
  CHECK(empty->bytes() == 0);
}

TEST_CASE("the version counts in-place writes", "[storage]") {
  const Ref<Storage> storage = make_ref<Storage>(host_allocator(), 8, Device{}, MemoryKind::data);
  CHECK(storage->version() == 0);
  storage->bump_version();
  storage->bump_version();
  CHECK(storage->version() == 2);
}

TEST_CASE("a list of each kind is kept with a storage and dies with it", "[storage]") {
  destroyed = 0;
  {
    const Ref<Storage> storage = make_ref<Storage>(host_allocator(), 8, Device{}, MemoryKind::data);
    CHECK(storage->find_kept<Packed>() == nullptr);
    storage->kept<Packed>().value = 7;
    CHECK(storage->find_kept<Copies>() == nullptr);
    storage->kept<Copies>().value = "seven";
    CHECK(storage->kept<Packed>().value == 7);
    CHECK(storage->find_kept<Packed>() == &storage->kept<Packed>());
    CHECK(storage->find_kept<Copies>()->value == "seven");
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 2);
}

TEST_CASE("references move, swap and compare", "[storage]") {
  Ref<Storage> a = make_ref<Storage>(host_allocator(), 8, Device{}, MemoryKind::data);
  Storage* object = a.get();
  Ref<Storage> b = std::move(a);
  CHECK_FALSE(a);
  CHECK(b.get() == object);
  CHECK(b->use_count() == 1);
  const Ref<RefCounted> base = b;
  CHECK(base.get() == object);
  CHECK(b->use_count() == 2);
  b = b;  // NOLINT: self-assignment keeps the object
  CHECK(b.get() == object);
}
