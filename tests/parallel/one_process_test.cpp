// A single process, and errors of all communicators.
#include "parallel/one_process.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"

using namespace tandem;
using namespace tandem::parallel;
using Catch::Matchers::Contains;

namespace {

constexpr double kDeadline = 1.0;
using Counts = std::vector<std::size_t>;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

}  // namespace

TEST_CASE("one process has what it gave", "[parallel]") {
  OneProcess alone;
  CHECK(alone.rank() == 0);
  CHECK(alone.size() == 1);
  CHECK(alone.description() == "one process");
  std::vector<float> values{1, 2, 3}, result(3);
  for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
    alone.all_reduce(values, reduction, kDeadline);
    CHECK(values == std::vector<float>{1, 2, 3});
  }
  CHECK(alone.all_reduce_value(std::int64_t{7}, Reduction::max, kDeadline) == 7);
  alone.reduce_scatter(values, Counts{3}, result, Reduction::sum, kDeadline);
  CHECK(result == values);
  alone.reduce_scatter(values, Counts{3}, values, Reduction::sum, kDeadline);  // in its place
  CHECK(result == values);
  result.assign(3, 0);
  alone.all_gather(values, result, kDeadline);
  CHECK(result == values);
  result.assign(3, 0);
  alone.all_to_all(values, Counts{3}, result, Counts{3}, kDeadline);
  CHECK(result == values);
  alone.broadcast(values, 0, kDeadline);
  alone.barrier(kDeadline);
  const std::vector<std::vector<std::byte>> gathered{bytes_of("abc")};
  CHECK(alone.gather_bytes(bytes_of("abc"), kDeadline) == gathered);
  CHECK(alone.all_gather_bytes(bytes_of("abc"), kDeadline) == gathered);
  CHECK(alone.all_gather_bytes({}, kDeadline) == std::vector<std::vector<std::byte>>{{}});
}

TEST_CASE("a collective of a single process ends at once", "[parallel]") {
  OneProcess alone;
  std::vector<double> values{1};
  Pending pending = alone.start_all_reduce(values, Reduction::sum);
  CHECK(pending.test());
  pending.wait(kDeadline);
  CHECK(Pending().test());
  CHECK_THROWS_AS(pending.wait(0), UserError);
}

TEST_CASE("arguments that do not fit are refused", "[parallel]") {
  OneProcess alone;
  std::vector<float> values{1, 2, 3}, two(2);
  std::vector<double> doubles(3);
  std::vector<std::int32_t> numbers(3);
  CHECK_THROWS_WITH(alone.all_reduce(values, Reduction::sum, 0),
                    "[all_reduce] a deadline must be a positive number of seconds, got 0");
  CHECK_THROWS_AS(alone.barrier(-1), UserError);
  CHECK_THROWS_AS(alone.barrier(std::numeric_limits<double>::quiet_NaN()), UserError);
  CHECK_THROWS_WITH(alone.all_reduce(numbers, Reduction::sum, kDeadline), Contains("i32 cannot be reduced"));
  CHECK_THROWS_WITH(alone.broadcast(values, 1, kDeadline), Contains("1 is not a rank: there are 1"));
  CHECK_THROWS_WITH(alone.reduce_scatter(values, Counts{2}, two, Reduction::sum, kDeadline),
                    Contains("add up to 2, the buffer has 3"));
  CHECK_THROWS_WITH(alone.reduce_scatter(values, Counts{3}, two, Reduction::sum, kDeadline),
                    Contains("rank 0 has 3 elements by the counts, its buffer has 2"));
  CHECK_THROWS_WITH(alone.all_gather(values, Counts{3, 0}, values, kDeadline),
                    Contains("got 2 counts for 1 ranks"));
  CHECK_THROWS_WITH(alone.all_gather(values, doubles, kDeadline),
                    Contains("one buffer is f32, the other f64"));
  CHECK_THROWS_WITH(alone.all_to_all(values, Counts{3}, two, Counts{2}, kDeadline),
                    Contains("sends 3 elements to itself and expects 2"));
  CHECK_THROWS_WITH(alone.all_to_all(values, Counts{2}, two, Counts{2}, kDeadline),
                    Contains("add up to 2 sent"));
}

TEST_CASE("elements are of vectors, arrays and spans", "[parallel]") {
  std::array<BFloat16, 4> array{};
  const Elements elements = array;
  CHECK(elements.data == array.data());
  CHECK(elements.dtype == DType::bf16);
  CHECK(elements.bytes() == 8);
  const std::vector<std::byte> bytes(3);
  CHECK(ConstElements(bytes).dtype == DType::u8);
  CHECK(ConstElements(std::span(bytes).first(2)).count == 2);
}
