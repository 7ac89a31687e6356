// Storage: who owns the bytes, versions and attachments.
#include "core/storage.h"

#include <catch2/catch.hpp>

using namespace tandem;

namespace {

struct Packed final : StorageAttachment {
  explicit Packed(int& destroyed) : destroyed(destroyed) {}
  ~Packed() override { ++destroyed; }
  int value = 0;
  int& destroyed;
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

TEST_CASE("attachments are made once per key and die with the storage", "[storage]") {
  int made = 0, destroyed = 0;
  {
    const Ref<Storage> storage = make_ref<Storage>(host_allocator(), 8, Device{}, MemoryKind::data);
    const auto make = [&] {
      ++made;
      return std::make_unique<Packed>(destroyed);
    };
    storage->attachment<Packed>(1, make).value = 7;
    CHECK(storage->attachment<Packed>(1, make).value == 7);
    CHECK(storage->attachment<Packed>(2, make).value == 0);
    CHECK(made == 2);
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
