#include "studies/advise/roofline.h"

#include <algorithm>
#include <cmath>

namespace tandem::advise {

namespace {

constexpr double kSlow = 4.0, kMemoryShare = 0.9, kFlopShare = 0.9;

}  // namespace

const char* name_of(Bound bound) {
  constexpr const char* names[] = {"compute", "memory", "overhead"};
  return names[static_cast<int>(bound)];
}

double estimated_seconds(const Work& work, const Rates& rates, double filled) {
  return std::max(static_cast<double>(work.flop) / (rates.flops * filled),
                  static_cast<double>(work.bytes) / rates.bytes_per_second) +
         rates.overhead;
}

Bound bound_of(const Work& work, const Rates& rates, double measured, double filled) {
  const double compute = static_cast<double>(work.flop) / (rates.flops * filled);
  const double memory = static_cast<double>(work.bytes) / rates.bytes_per_second;
  if (rates.overhead > std::max(compute, memory)) return Bound::overhead;
  if (measured > kSlow * estimated_seconds(work, rates, filled)) return Bound::overhead;
  return compute > memory ? Bound::compute : Bound::memory;
}

double filled(const ProductSize& size, const UnitSize& unit) {
  return models::filled(size.m, unit.m) * models::filled(size.n, unit.n) *
         models::filled(size.k / size.taps, unit.k);
}

std::optional<BatchAdvice> batch_for(std::span<const BatchProduct> products, Index at, double ridge,
                                     Index multiple, Index most) {
  const auto reached = [&](double batch) {
    double flop = 0.0;
    for (const BatchProduct& product : products) {
      ProductSize size = product.size;
      const double n = static_cast<double>(size.n), k = static_cast<double>(size.k);
      const double m = static_cast<double>(size.m) * batch / static_cast<double>(at);
      if (m * n * k / (m * k + k * n + m * n) >= ridge) flop += static_cast<double>(product.flop);
    }
    return flop;
  };
  double all = 0.0;
  for (const BatchProduct& product : products) all += static_cast<double>(product.flop);
  const double limit = reached(1e12);
  if (limit <= 0.0) return std::nullopt;
  Index batch = multiple;
  while (batch + multiple <= most && reached(static_cast<double>(batch)) < kFlopShare * limit)
    batch += multiple;
  batch = std::min(batch, std::max<Index>(most, 1));
  return BatchAdvice{.batch = batch, .reached = reached(static_cast<double>(batch)) / all};
}

Index greatest_batch(Index first, double first_bytes, Index second, double second_bytes, double memory) {
  const double slope = (second_bytes - first_bytes) / static_cast<double>(second - first);
  const double start = first_bytes - slope * static_cast<double>(first);
  return slope > 0.0 ? std::max<Index>(0, static_cast<Index>((kMemoryShare * memory - start) / slope))
                     : second;
}

double step_speedup(const StepShares& shares, double factor) {
  return 1.0 / (shares.compute / factor + shares.memory / 2.0 + shares.overhead);
}

}  // namespace tandem::advise
