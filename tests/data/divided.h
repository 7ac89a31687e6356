// Divided sources against undivided ones: parts cut out of whole batches.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/backend.h"
#include "data/loader.h"

namespace tandem::test {

// On which axis of a field its samples are; -1: it is the batch's.
using SampleAxis = std::function<int(const std::string&)>;

// A batch on the host.
struct HostBatch {
  struct Part {
    std::string name;
    Shape shape;
    std::string bytes;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> fields;
  Index samples = 0;
  double weight = 0.0, rate_factor = 1.0;
  bool operator==(const HostBatch&) const = default;
};

inline HostBatch on_host(const datasets::Batch& batch) {
  HostBatch host{
      .fields = {}, .samples = batch.samples, .weight = batch.weight, .rate_factor = batch.rate_factor};
  for (const datasets::Field& field : batch.fields()) {
    const Tensor value = field.value.to(Device{});
    backend_for(field.value.device()).synchronize();
    host.fields.push_back(
        {field.name, value.shape(), {static_cast<const char*>(value.raw()), value.bytes()}});
  }
  return host;
}

// Batches of the epoch from where the loader stands, and the position before each and behind the last.
struct Served {
  std::vector<HostBatch> batches;
  std::vector<Index> positions;
};

inline Served serve_epoch(datasets::Loader& loader) {
  Served served;
  served.positions.push_back(loader.state().position);
  while (const auto batch = loader.next()) {
    served.batches.push_back(on_host(*batch));
    const datasets::LoaderState state = loader.state();
    served.positions.push_back(state.position);
  }
  return served;
}

// So many samples of a field on an axis, from `first` on.
inline HostBatch::Part cut(const HostBatch::Part& field, int axis, Index first, Index count) {
  if (axis < 0) return field;
  HostBatch::Part part{field.name, field.shape.with(axis, count), ""};
  const Index outer = field.shape.product(0, axis), each = field.shape[axis];
  const std::size_t inner = field.bytes.size() / static_cast<std::size_t>(outer * each);
  for (Index o = 0; o < outer; ++o)
    part.bytes += field.bytes.substr(static_cast<std::size_t>(o * each + first) * inner,
                                     static_cast<std::size_t>(count) * inner);
  return part;
}

// How many of `count` each of `parts` gets when they are dealt out one by one.
inline std::vector<Index> dealt(Index count, Index parts) {
  std::vector<Index> each(static_cast<std::size_t>(parts));
  for (Index i = 0; i < count; ++i) ++each[static_cast<std::size_t>(i % parts)];
  return each;
}

// Of a batch of streams some of which have ended: the targets of those from `first` on.
inline Index targets_of(const HostBatch& whole, Index first, Index count) {
  Index targets = 0;
  for (const HostBatch::Part& field : whole.fields) {
    if (field.name != "length") continue;
    const auto* const lengths = reinterpret_cast<const std::int64_t*>(field.bytes.data());
    targets = std::accumulate(lengths + first, lengths + first + count, Index{0});
  }
  return targets;
}

// Of a batch, all parts. Their weights are not known from it.
inline std::vector<HostBatch> cut_apart(const HostBatch& whole, Index parts, const SampleAxis& axis_of) {
  Index count = 0;
  for (const HostBatch::Part& field : whole.fields) {
    if (const int axis = axis_of(field.name); axis >= 0) count = field.shape[axis];
  }
  std::vector<HostBatch> result;
  Index first = 0;
  for (const Index own : dealt(count, parts)) {
    HostBatch part{.fields = {},
                   .samples = whole.samples / count * own,
                   .weight = 0.0,
                   .rate_factor = whole.rate_factor};
    if (count > 0 && whole.samples % count != 0) part.samples = targets_of(whole, first, own);
    if (part.samples > 0) {
      for (const HostBatch::Part& field : whole.fields)
        part.fields.push_back(cut(field, axis_of(field.name), first, own));
    }
    result.push_back(part);
    first += own;
  }
  return result;
}

// A source's first two epochs.
struct TwoEpochs {
  explicit TwoEpochs(const datasets::SourcePtr& source, int threads = 0) {
    datasets::Loader loader(source, {.threads = threads});
    for (Served& epoch : epochs) epoch = serve_epoch(loader);
  }
  Served epochs[2];
};

// Parts that follow each other, as against the batches that they are of.
inline void check_parts(const Served& whole, const Served& divided, Index parts, const SampleAxis& axis_of) {
  REQUIRE(static_cast<Index>(divided.batches.size()) == static_cast<Index>(whole.batches.size()) * parts);
  for (std::size_t k = 0; k < whole.batches.size(); ++k) {
    const std::vector<HostBatch> expected = cut_apart(whole.batches[k], parts, axis_of);
    double weight = 0.0;
    Index samples = 0;
    for (std::size_t p = 0; p < expected.size(); ++p) {
      const std::size_t at = k * expected.size() + p;
      HostBatch part = divided.batches[at];
      CAPTURE(k, p);
      CHECK(divided.positions[at] == whole.positions[k]);
      CHECK((part.samples > 0) == !part.fields.empty());
      samples += part.samples;
      weight += part.weight;
      if (part.samples == 0) CHECK(part.weight == 0.0);
      part.weight = 0.0;
      CHECK(part == expected[p]);
    }
    CHECK(samples == whole.batches[k].samples);
    CHECK(weight == Approx(whole.batches[k].weight).epsilon(1e-12));
  }
  CHECK(divided.positions.back() == whole.positions.back());
}

// Every k-th batch of some parts, from every beginning of an undivided batch on.
inline void check_seeking(const datasets::SourcePtr& divided, const TwoEpochs& whole, const TwoEpochs& all,
                          int threads) {
  const auto parts = static_cast<std::size_t>(divided->division().parts);
  datasets::Loader loader(divided, {.threads = threads});
  for (std::size_t step = 0; step < whole.epochs[1].batches.size(); ++step) {
    const std::size_t k = (step * 3 + 1) % whole.epochs[1].batches.size();
    const Index position = whole.epochs[1].positions[k];
    loader.seek({1, position});
    CHECK(loader.batches_served() == static_cast<Index>(k * parts));
    for (std::size_t p = 0; p < parts; ++p) {
      CHECK(loader.state() == datasets::LoaderState{1, position});
      CHECK(on_host(loader.next().value()) == all.epochs[1].batches[k * parts + p]);
    }
    CHECK(loader.state().position == whole.epochs[1].positions[k + 1]);
    if (position > 0) {  // begins later than one before
      loader.seek({1, position - 1 > whole.epochs[1].positions[k - 1] ? position - 1 : position});
      CHECK(loader.batches_served() == static_cast<Index>(k * parts));
    }
  }
  loader.seek({0, whole.epochs[0].positions.back()});
  CHECK_FALSE(loader.next());
  CHECK(loader.state() == datasets::LoaderState{1, 0});
  CHECK(on_host(loader.next().value()) == all.epochs[1].batches[0]);
}

// All that is said of a divided source, for some numbers of parts.
inline void check_divided(const datasets::SourcePtr& source, const SampleAxis& axis_of) {
  const TwoEpochs whole(source);
  const Index room = source->layout().bytes();
  for (const Index parts : {1, 2, 3, 5}) {
    CAPTURE(parts);
    const datasets::SourcePtr divided = source->divided({.parts = parts, .first = 0, .count = parts});
    CHECK(divided->layout().bytes() <= room);
    const TwoEpochs all(divided), ahead(divided, 3);
    for (const std::size_t epoch : {0U, 1U}) {
      check_parts(whole.epochs[epoch], all.epochs[epoch], parts, axis_of);
      CHECK(ahead.epochs[epoch].batches == all.epochs[epoch].batches);
      CHECK(ahead.epochs[epoch].positions == all.epochs[epoch].positions);
    }
    for (const int threads : {0, 3}) check_seeking(divided, whole, all, threads);
    for (Index first = 0; first < parts; ++first) {
      for (Index count = 1; count <= parts - first; ++count) {
        CAPTURE(first, count);
        const datasets::SourcePtr some = source->divided({parts, first, count});
        CHECK(some->layout().samples() == divided->layout().samples());
        const TwoEpochs own(some, first == 1 ? 3 : 0);
        for (const std::size_t epoch : {0U, 1U}) {
          const Served &found = own.epochs[epoch], &every = all.epochs[epoch];
          REQUIRE(static_cast<Index>(found.batches.size() * static_cast<std::size_t>(parts)) ==
                  static_cast<Index>(every.batches.size()) * count);
          for (std::size_t i = 0; i < found.batches.size(); ++i) {
            const auto number = static_cast<Index>(i);
            const auto at = static_cast<std::size_t>(number / count * parts + first + number % count);
            CHECK(found.batches[i] == every.batches[at]);
            CHECK(found.positions[i] == every.positions[at]);
          }
          CHECK(found.positions.back() == every.positions.back());
        }
      }
    }
  }
}

}  // namespace tandem::test
