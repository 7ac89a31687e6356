// Each collective against the result of one process from the values of all ranks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/convert.h"
#include "parallel/partition.h"
#include "tests/ranks/checking.h"

namespace tandem::test {

namespace {

using namespace tandem::parallel;
using Counts = std::vector<std::size_t>;

constexpr std::size_t kLengths[] = {0, 1, 2, 3, 7, 17, 1000, 65537, 300001};

// Small whole numbers: every sum of them is exact in every type, whatever its order.
int value_of(int rank, std::size_t i) {
  return static_cast<int>((i * 31 + static_cast<std::size_t>(rank) * 17) % 16) - 5;
}

template <class T>
T value(int rank, std::size_t i) {
  return convert<T>(static_cast<float>(value_of(rank, i)));
}

template <class T>
std::vector<T> values(int rank, std::size_t length) {
  std::vector<T> result(length);
  for (std::size_t i = 0; i < length; ++i) result[i] = value<T>(rank, i);
  return result;
}

int reduced(int ranks, std::size_t i, Reduction reduction) {
  int result = value_of(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int other = value_of(rank, i);
    result = reduction == Reduction::sum   ? result + other
             : reduction == Reduction::min ? std::min(result, other)
                                           : std::max(result, other);
  }
  return result;
}

template <class T>
void expect_reduced(const char* what, const std::vector<T>& result, std::size_t first, int ranks,
                    Reduction reduction) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const int wanted = reduced(ranks, first + i, reduction);
    expect(convert<float>(result[i]) == static_cast<float>(wanted), "{} of {}, element {}: {} for {}", what,
           name_of(dtype_of<T>()), first + i, convert<float>(result[i]), wanted);
  }
}

// Some parts are empty, and none as long as another.
Counts uneven(int ranks, std::size_t length) {
  Counts counts(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = r % 3 == 1 ? 0 : length + r;
  return counts;
}

std::size_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t begin_of(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

template <class T>
void check_reductions(Communicator& ranks) {
  for (const std::size_t length : kLengths) {
    for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      std::vector<T> data = values<T>(ranks.rank(), length);
      ranks.all_reduce(data, reduction, kDeadline);
      expect_reduced("all_reduce", data, 0, ranks.size(), reduction);
      for (const Counts& counts : {counts_of_ranks(length, ranks.size()), uneven(ranks.size(), length / 4)}) {
        std::vector<T> all = values<T>(ranks.rank(), total(counts));
        const std::size_t first = begin_of(counts, ranks.rank());
        std::vector<T> own(counts[static_cast<std::size_t>(ranks.rank())]);
        ranks.reduce_scatter(all, counts, own, reduction, kDeadline);
        expect_reduced("reduce_scatter", own, first, ranks.size(), reduction);
        ranks.reduce_scatter(all, counts, std::span(all).subspan(first, own.size()), reduction, kDeadline);
        std::vector<T> wanted = values<T>(ranks.rank(), all.size());
        std::copy(own.begin(), own.end(), wanted.begin() + static_cast<std::ptrdiff_t>(first));
        expect(std::memcmp(all.data(), wanted.data(), all.size() * sizeof(T)) == 0,
               "reduce_scatter in place leaves the rest alone");
      }
    }
  }
}

template <class T>
void check_movements(Communicator& ranks) {
  const auto size = static_cast<std::size_t>(ranks.size());
  for (const std::size_t length : kLengths) {
    for (int root = 0; root < ranks.size(); ++root) {
      std::vector<T> data = values<T>(ranks.rank(), length);
      ranks.broadcast(data, root, kDeadline);
      for (std::size_t i = 0; i < length; ++i)
        expect(convert<float>(data[i]) == static_cast<float>(value_of(root, i)), "broadcast, element {}", i);
    }
    for (const Counts& counts : {Counts(size, length), uneven(ranks.size(), length)}) {
      const std::vector<T> own = values<T>(ranks.rank(), counts[static_cast<std::size_t>(ranks.rank())]);
      std::vector<T> all(total(counts)), in_place(all.size());
      std::copy(own.begin(), own.end(),
                in_place.begin() + static_cast<std::ptrdiff_t>(begin_of(counts, ranks.rank())));
      ranks.all_gather(own, counts, all, kDeadline);
      ranks.all_gather(std::span(in_place).subspan(begin_of(counts, ranks.rank()), own.size()), counts,
                       in_place, kDeadline);
      for (int rank = 0; rank < ranks.size(); ++rank)
        for (std::size_t i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i) {
          const float wanted = static_cast<float>(value_of(rank, i));
          const std::size_t place = begin_of(counts, rank) + i;
          expect(convert<float>(all[place]) == wanted, "all_gather, element {} of rank {}", i, rank);
          expect(convert<float>(in_place[place]) == wanted, "all_gather in place, element {} of rank {}", i,
                 rank);
        }
    }
    // Rank p sends length + p · 3 + q elements to rank q, and none where p + q is a multiple of three.
    const auto sent = [&](int from, int to) {
      return (from + to) % 3 == 0 ? 0 : length + static_cast<std::size_t>(from * 3 + to);
    };
    Counts out, in;
    std::vector<T> outgoing;
    for (int other = 0; other < ranks.size(); ++other) {
      out.push_back(sent(ranks.rank(), other));
      in.push_back(sent(other, ranks.rank()));
      for (std::size_t i = 0; i < out.back(); ++i) outgoing.push_back(value<T>(ranks.rank() + 5 * other, i));
    }
    std::vector<T> incoming(total(in));
    ranks.all_to_all(outgoing, out, incoming, in, kDeadline);
    std::size_t next = 0;
    for (int other = 0; other < ranks.size(); ++other)
      for (std::size_t i = 0; i < in[static_cast<std::size_t>(other)]; ++i)
        expect(convert<float>(incoming[next++]) == static_cast<float>(value_of(other + 5 * ranks.rank(), i)),
               "all_to_all, element {} of rank {}", i, other);
  }
}

std::vector<std::byte> text_of(int rank, std::size_t length) {
  std::vector<std::byte> bytes(rank % 3 == 2 ? 0 : length * static_cast<std::size_t>(rank + 1));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank));
  return bytes;
}

void check_gathering(Communicator& ranks) {
  for (const std::size_t length : kLengths) {
    std::vector<std::vector<std::byte>> wanted;
    for (int rank = 0; rank < ranks.size(); ++rank) wanted.push_back(text_of(rank, length));
    const std::vector<std::byte> own = text_of(ranks.rank(), length);
    expect(ranks.all_gather_bytes(own, kDeadline) == wanted, "all_gather_bytes of {}", length);
    if (ranks.rank() != 0) wanted.clear();
    expect(ranks.gather_bytes(own, kDeadline) == wanted, "gather_bytes of {}", length);
  }
}

// Sums that round: near the sum in double precision, and the same bits on all ranks.
template <class T>
void check_rounding(Communicator& ranks, double unit) {
  for (const std::size_t length : {1u, 33u, 1000u, 40000u, 300001u}) {
    std::vector<T> data(length);
    std::vector<double> sums(length), sizes(length);
    for (int rank = 0; rank < ranks.size(); ++rank)
      for (std::size_t i = 0; i < length; ++i) {
        const T one = convert<T>(std::sin(static_cast<double>(i) * 1.7 + rank * 0.9));
        if (rank == ranks.rank()) data[i] = one;
        sums[i] += convert<double>(one);
        sizes[i] += std::abs(convert<double>(one));
      }
    ranks.all_reduce(data, Reduction::sum, kDeadline);
    for (std::size_t i = 0; i < length; ++i)
      expect(std::abs(convert<double>(data[i]) - sums[i]) <= ranks.size() * unit * sizes[i],
             "sum of {} of element {} is {}, not {}", name_of(dtype_of<T>()), i, convert<double>(data[i]),
             sums[i]);
    std::vector<T> first = data;
    ranks.broadcast(first, 0, kDeadline);
    expect(std::memcmp(first.data(), data.data(), length * sizeof(T)) == 0,
           "ranks have different bits of a sum of {} {}", length, name_of(dtype_of<T>()));
  }
}

void check_not_a_number(Communicator& ranks) {
  for (int owner = 0; owner < ranks.size(); ++owner)
    for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      const float own = owner == ranks.rank() ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
      expect(std::isnan(ranks.all_reduce_value(own, reduction, kDeadline)), "NaN of rank {} is lost", owner);
      expect(std::isnan(ranks.all_reduce_value(double{own}, reduction, kDeadline)), "NaN of rank {} is lost",
             owner);
    }
}

void check_misuse(Communicator& ranks) {
  std::vector<float> data(3);
  bool refused = false;
  try {
    ranks.broadcast(data, ranks.size(), kDeadline);
  } catch (const UserError&) {
    refused = true;
  }
  expect(refused, "a root that is no rank");
  ranks.barrier(kDeadline);  // it is still of use
}

}  // namespace

void check_collectives(Communicator& ranks) {
  check_reductions<float>(ranks);
  check_reductions<double>(ranks);
  check_reductions<std::int64_t>(ranks);
  check_reductions<Half>(ranks);
  check_reductions<BFloat16>(ranks);
  check_movements<float>(ranks);
  check_movements<std::int64_t>(ranks);
  check_movements<Half>(ranks);
  check_gathering(ranks);
  check_rounding<float>(ranks, 0x1p-24);
  check_rounding<double>(ranks, 0x1p-53);
  check_rounding<Half>(ranks, 0x1p-11);
  check_rounding<BFloat16>(ranks, 0x1p-8);
  check_not_a_number(ranks);
  check_misuse(ranks);
}

// More than 2³¹ bytes.
void check_large(Communicator& ranks) {
  const std::size_t length = (std::size_t{1} << 29) + 12345;
  std::vector<float> data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<float>(value_of(ranks.rank(), i));
  ranks.all_reduce(data, Reduction::sum, 10 * kDeadline);
  expect_reduced("large all_reduce", data, 0, ranks.size(), Reduction::sum);
  for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<float>(value_of(ranks.rank(), i));
  const Counts counts = counts_of_ranks(length, ranks.size());
  const std::span<float> own =
      std::span(data).subspan(begin_of(counts, ranks.rank()), counts[static_cast<std::size_t>(ranks.rank())]);
  ranks.reduce_scatter(data, counts, own, Reduction::sum, 10 * kDeadline);
  ranks.all_gather(own, counts, data, 10 * kDeadline);
  expect_reduced("large reduce_scatter and all_gather", data, 0, ranks.size(), Reduction::sum);
  if (ranks.rank() != 0) std::fill(data.begin(), data.end(), 0.0f);
  ranks.broadcast(data, 0, 10 * kDeadline);
  expect_reduced("large broadcast", data, 0, ranks.size(), Reduction::sum);
}

}  // namespace tandem::test
