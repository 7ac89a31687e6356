#include "studies/profile/limits.h"

#include <algorithm>
#include <limits>

#include "core/kernels/conv.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/formulas.h"
#include "core/kernels/matmul.h"
#include "core/kernels/random.h"

namespace tandem::profile {

namespace {

// Larger than the caches of a GPU, and than a core's share of a CPU's caches.
constexpr Index kCopyBytes = Index{256} << 20;
constexpr int kRepeats = 5;
constexpr Index kSmallProduct = 256, kFairProduct = 1024, kLargestProduct = 8192;
// Sizes grow until a product of at least kFairProduct takes kProductSeconds, or any takes kLongSeconds.
constexpr double kProductSeconds = 5e-3, kLongSeconds = 0.2;

template <class Work>
double seconds_of(Backend& backend, const Work& work) {
  const std::uint64_t first = backend.timestamp();
  work();
  const double seconds = backend.seconds_between(first, backend.timestamp());
  backend.clear_timestamps();
  return seconds;
}

template <class Work>
double best_of(Backend& backend, int repeats, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) best = std::min(best, seconds_of(backend, work));
  return best;
}

// The first time if it is long, else the best of several further runs.
template <class Work>
double fastest(Backend& backend, const Work& work) {
  const double first = seconds_of(backend, work);
  return first < kLongSeconds ? best_of(backend, kRepeats, work) : first;
}

Tensor noise(Backend& backend, const Shape& shape, DType dtype, std::uint64_t seed) {
  const Tensor tensor = Tensor::empty(shape, {dtype, backend.device(), MemoryKind::workspace});
  backend.random().random_normal({.seed = seed}, tensor, 0.0, 1.0);
  return tensor;
}

}  // namespace

double Limits::flops(DType operands) const {
  const auto measured = [&](DType dtype) {
    const auto found = std::ranges::find(products, dtype, &std::pair<DType, double>::first);
    return found == products.end() ? 0.0 : found->second;
  };
  const double own = measured(operands);
  return own > 0.0 ? own : measured(DType::f32);
}

double Limits::bound(std::int64_t bytes, std::int64_t flop, DType operands) const {
  const double moving = static_cast<double>(bytes) / bytes_per_second;
  return flop == 0 ? moving : std::max(moving, static_cast<double>(flop) / flops(operands));
}

CopyLoad::CopyLoad(Backend& backend) : backend_(backend) {
  const TensorOptions options{DType::u8, backend.device(), MemoryKind::workspace};
  from_ = Tensor::empty({kCopyBytes}, options);
  to_ = Tensor::empty({kCopyBytes}, options);
  // Writes both: the first touch of memory is slow on a CPU, and unwritten pages share one page of zeros.
  backend.copy_bytes(from_, to_);
  backend.copy_bytes(to_, from_);
}

double CopyLoad::seconds() {
  constexpr int kCopies = 3;  // consecutive copies, to amortise the start
  return best_of(backend_, kRepeats, [&] { enqueue(kCopies); }) / kCopies;
}

void CopyLoad::enqueue(std::int64_t copies) {
  for (std::int64_t i = 0; i < copies; ++i) backend_.copy_bytes(from_, to_);
}

double CopyLoad::empty_interval() {
  enqueue(1);
  std::vector<std::uint64_t> marks(16);
  for (std::uint64_t& mark : marks) mark = backend_.timestamp();
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < marks.size(); ++i)
    least = std::min(least, backend_.seconds_between(marks[i - 1], marks[i]));
  backend_.clear_timestamps();
  return least;
}

double product_rate(Backend& backend, DType operands) {
  double best = 0.0;
  for (Index n = kSmallProduct; n <= kLargestProduct; n *= 2) {
    const Tensor a = noise(backend, {n, n}, operands, 1), b = noise(backend, {n, n}, operands, 2);
    const Tensor c = Tensor::empty({n, n}, {operands, backend.device(), MemoryKind::workspace});
    const auto product = [&] { backend.matmul().matmul(a, b, {}, c, {}); };
    const double seconds = fastest(backend, product);
    const auto size = static_cast<double>(n);
    best = std::max(best, 2.0 * size * size * size / seconds);
    if (seconds > kLongSeconds || (n >= kFairProduct && seconds > kProductSeconds)) break;
  }
  return best;
}

double convolution_rate(Backend& backend, DType operands) {
  constexpr Index kBatch = 16, kFirstExtent = 56, kFirstChannels = 64;
  double best = 0.0;
  for (const Index part : {1, 2, 4, 8}) {
    const Index extent = kFirstExtent / part, channels = kFirstChannels * part;
    const Tensor x = noise(backend, {kBatch, extent, extent, channels}, operands, 1);
    const Tensor filter = noise(backend, {channels, 3, 3, channels}, operands, 2);
    const Tensor y = Tensor::empty(x.shape(), {operands, backend.device(), MemoryKind::workspace});
    const auto convolution = [&] { backend.conv().conv2d(x, filter, {}, y, {.padding = {1, 1}}); };
    const double flop = 2.0 * 9.0 * static_cast<double>(x.numel() * channels);
    best = std::max(best, flop / fastest(backend, convolution));
  }
  return best;
}

double elementwise_rate(Backend& backend, DType storage) {
  const TensorOptions options{storage, backend.device(), MemoryKind::workspace};
  const Tensor x = Tensor::empty({kCopyBytes / static_cast<Index>(size_of(storage))}, options);
  const Tensor y = Tensor::empty(x.shape(), options);
  backend.fill(x, 1.0);
  backend.fill(y, 0.0);
  const double seconds = best_of(backend, kRepeats, [&] {
    backend.elementwise().pointwise(formula_id<formulas::Relu>(), {}, {&x, 1}, y);
  });
  return static_cast<double>(x.bytes() + y.bytes()) / seconds;
}

Limits measured_limits(Backend& backend, std::span<const DType> dtypes) {
  Limits limits;
  {
    CopyLoad load(backend);
    limits.bytes_per_second = load.bytes() / load.seconds();
  }
  for (const DType dtype : dtypes) {
    limits.products.emplace_back(dtype, product_rate(backend, dtype));
    limits.convolutions.emplace_back(dtype, convolution_rate(backend, dtype));
    limits.elementwise.emplace_back(dtype, elementwise_rate(backend, dtype));
  }
  return limits;
}

}  // namespace tandem::profile
