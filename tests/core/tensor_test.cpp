// Tensor: construction, views, host copies, and errors.
#include "core/tensor.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/errors.h"
#include "tests/support/tensors.h"

using namespace tandem;
using tandem::test::tensor_of;

TEST_CASE("an absent tensor", "[tensor]") {
  const Tensor absent;
  CHECK_FALSE(absent.defined());
  CHECK(to_string(absent) == "absent");
  CHECK_FALSE(absent.requires_grad());
  CHECK_FALSE(absent.shares_storage(absent));
  CHECK_FAILS(UserError, absent.item(), "absent");
  CHECK_FAILS(UserError, absent.to_vector<float>(), "absent");
  CHECK_FAILS(UserError, absent.clone(), "absent");
  CHECK_FAILS(UserError, absent.to(Device{}), "absent");
  CHECK_FAILS(UserError, absent.viewed({1}), "absent");
}

TEST_CASE("tensors are made of any dtype", "[tensor]") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    INFO(name_of(dtype));
    const Tensor full = Tensor::full({2, 3}, 1.0, {.dtype = dtype});
    CHECK(full.dtype() == dtype);
    CHECK(full.bytes() == 6 * size_of(dtype));
    CHECK(full.to_vector<double>() == std::vector<double>(6, 1.0));
    CHECK(Tensor::zeros({4}, {.dtype = dtype}).to_vector<double>() == std::vector<double>(4, 0.0));
    CHECK(tensor_of({1, 0, 1}, {3}, dtype).to_vector<double>() == std::vector<double>{1, 0, 1});
  }
  CHECK(Tensor::scalar(2.5).rank() == 0);
  CHECK(Tensor::scalar(2.5).item() == 2.5);
  CHECK(Tensor::scalar(7, {.dtype = DType::i64}).item() == 7.0);
  CHECK(Tensor::full({1}, 0.1, {.dtype = DType::f64}).item() == 0.1);
}

TEST_CASE("values go in and come out in row-major order", "[tensor]") {
  const Tensor t = Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(t.shape() == Shape{2, 3});
  CHECK(t.dtype() == DType::f32);
  CHECK(t.device() == Device{});
  CHECK(t.data<float>()[4] == 5.0f);
  CHECK(t.to_vector<double>() == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(t.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6});
  CHECK(t.to_vector<Half>()[1].bits == 0x4000);
  CHECK(to_string(t) == "f32[2,3]");
  const Tensor flags = Tensor::from(std::vector<bool>{true, false}, {2});
  CHECK(flags.dtype() == DType::boolean);
  CHECK(flags.to_vector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("sizes by axis", "[tensor]") {
  const Tensor t = Tensor::empty({2, 3, 5});
  CHECK(t.size(0) == 2);
  CHECK(t.size(-1) == 5);
  CHECK(t.rank() == 3);
  CHECK(t.numel() == 30);
  CHECK_FAILS(UserError, t.size(3), "axis 3");
}

TEST_CASE("empty tensors are tensors", "[tensor]") {
  const Tensor none = Tensor::empty({0, 4});
  CHECK(none.defined());
  CHECK(none.numel() == 0);
  CHECK(none.to_vector<float>().empty());
  CHECK(none.clone().shape() == Shape{0, 4});
  CHECK(none.viewed({4, 0}).shape() == Shape{4, 0});
  CHECK(none.rows(0, 0).numel() == 0);
  CHECK(Tensor::full({3, 0}, 2.0).numel() == 0);
  CHECK(Tensor::from(std::vector<float>{}, {0}).numel() == 0);
  CHECK_FAILS(UserError, none.item(), "f32[0,4] does not have exactly one element");
}

TEST_CASE("copies share, clones do not", "[tensor]") {
  const Tensor t = Tensor::from({1, 2}, {2});
  const Tensor copy = t;
  const Tensor clone = t.clone();
  t.data<float>()[0] = 9.0f;
  CHECK(copy.data<float>()[0] == 9.0f);
  CHECK(clone.data<float>()[0] == 1.0f);
  CHECK(copy.is_same(t));
  CHECK_FALSE(clone.shares_storage(t));
  CHECK(t.to(Device{}).is_same(t));
}

TEST_CASE("a view is another shape over the same elements", "[tensor]") {
  const Tensor t = Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor view = t.viewed({3, 2});
  CHECK(view.shape() == Shape{3, 2});
  CHECK(view.is_same(t));
  CHECK(view.to_vector<double>() == t.to_vector<double>());
  CHECK_FAILS(UserError, t.viewed({4}), "[view] [2,3] cannot be viewed as [4]: 6 elements against 4");
}

TEST_CASE("rows are a range of the outermost axis", "[tensor]") {
  const Tensor t = Tensor::from({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor middle = t.rows(1, 1);
  CHECK(middle.shape() == Shape{1, 2});
  CHECK(middle.to_vector<double>() == std::vector<double>{3, 4});
  CHECK(middle.shares_storage(t));
  CHECK_FALSE(middle.is_same(t));
  CHECK(middle.offset() == 2 * sizeof(float));
  CHECK(t.rows(1, 2).rows(1, 1).to_vector<double>() == std::vector<double>{5, 6});
  CHECK(t.rows(3, 0).numel() == 0);
  middle.data<float>()[0] = 30.0f;
  CHECK(t.to_vector<double>()[2] == 30.0);
  CHECK_FAILS(UserError, t.rows(2, 2), "[rows] 2 rows from 2 on lie outside [3,2]");
  CHECK_FAILS(UserError, t.rows(-1, 1), "lie outside");
  CHECK_FAILS(UserError, t.rows(0, -1), "lie outside");
  CHECK_FAILS(UserError, t.rows(2, std::numeric_limits<Index>::max()), "lie outside");
  CHECK_FAILS(UserError, Tensor::scalar(1).rows(0, 1), "lie outside");
}

TEST_CASE("a number of values that does not fill the shape is refused", "[tensor]") {
  CHECK_FAILS(UserError, Tensor::from({1, 2, 3}, {2}), "[tensor] 3 values do not fill shape [2]");
}

TEST_CASE("bytes that do not fit are refused", "[tensor]") {
  CHECK_FAILS(UserError, Tensor::empty({Index{1} << 61}, {.dtype = DType::f64}), "bytes");
  CHECK_FAILS(UserError, Tensor::empty({Index{1} << 50}), "not plausible");
}

TEST_CASE("item asks for one element", "[tensor]") {
  CHECK(Tensor::from({4}, {1, 1}).item() == 4.0);
  CHECK_FAILS(UserError, Tensor::from({4, 5}, {2}).item(), "[item] f32[2] does not have exactly one element");
}

TEST_CASE("elements are read as what they are", "[tensor]") {
  const Tensor t = Tensor::from({1}, {1});
  CHECK_FAILS(InternalError, t.data<double>(), "[tensor] elements read as f64, the tensor is f32[1]");
}

TEST_CASE("a tensor over a storage stays inside it", "[tensor]") {
  const Tensor buffer = Tensor::zeros({8});
  const Tensor part = Tensor::over(buffer.storage(), 4 * sizeof(float), {2, 2}, DType::f32);
  part.data<float>()[0] = 5.0f;
  CHECK(buffer.to_vector<double>()[4] == 5.0);
  CHECK_FAILS(InternalError, Tensor::over(buffer.storage(), 5 * sizeof(float), {2, 2}, DType::f32),
              "exceeds a storage of 32 bytes");
}

TEST_CASE("memory is counted under the kind that was asked for", "[tensor]") {
  const auto live = [](MemoryKind kind) {
    return host_allocator().figures().live_by_kind[static_cast<int>(kind)];
  };
  const std::size_t before = live(MemoryKind::optimizer);
  {
    const Tensor moments = Tensor::zeros({1000}, {.kind = MemoryKind::optimizer});
    CHECK(live(MemoryKind::optimizer) >= before + 4000);
    CHECK(moments.clone(MemoryKind::optimizer).defined());
  }
  CHECK(live(MemoryKind::optimizer) == before);
}

TEST_CASE("a device without a backend is refused by name", "[tensor]") {
  CHECK_FAILS(UserError, Tensor::empty({1}, {.device = {DeviceType::cuda, 1}}),
              "[device] cuda:1 is not available");
  CHECK_FAILS(UserError, Tensor::from({1}, {1}).to({DeviceType::cuda, 0}), "cuda:0 is not available");
}
