#include "core/cpu/kernels/conv_library.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/shares.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;
using onednn::Primitive;

namespace {

// Minimum number of images per thread, unless all have as many; with fewer, threads idle at the end.
constexpr Index kImagesOfThread = 4;
// Minimum number of multiplications per share, about 20 µs.
constexpr double kProductsOfShare = 1e7;
// Minimum number of rows of a strip.
constexpr Index kRowsOfStrip = 4;
// Maximum number of floats for the partial filter gradients of all shares: 256 MiB.
constexpr Index kMostSums = Index{64} << 20;

double products_of(const Convolution& p) {
  return static_cast<double>(p.batch * p.out_height * p.out_width * p.out_channels) *
         static_cast<double>(p.kernel_height * p.kernel_width * p.channels / p.options.groups);
}

// Shares of the batch, and of each image's rows.
struct Division {
  Index images = 1, strips = 1;
};

Division division_of(Pass pass, const Convolution& p, int team) {
  if (team == 1) return {};
  const Index sums = p.out_channels * p.kernel_height * p.kernel_width * p.channels / p.options.groups;
  const bool filter = pass == Pass::filter_gradient;
  if (filter && sums * team > kMostSums) return {};
  const Index rows = pass == Pass::input_gradient ? p.height : p.out_height;
  const auto most = static_cast<Index>(products_of(p) / kProductsOfShare);
  if (p.batch >= kImagesOfThread * team || p.batch % team == 0) {
    const Index shares = filter ? shares_of_sums(team, sums) : shares_of(team);
    return {std::min(p.batch, std::clamp<Index>(most / team, 1, shares / team) * team), 1};
  }
  const Index strips = std::min<Index>(team / std::gcd(p.batch, Index{team}), rows / kRowsOfStrip);
  return {p.batch, std::clamp<Index>(most / p.batch, 1, std::max<Index>(strips, 1))};
}

// Rows of x and y of a share, and the rows of zeros above its x. Empty if the rows are padding alone.
struct Rows {
  Range x, y;
  Index above;
};

Index ceil_of(Index a, Index b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// Rows of y, and those of x that they read.
Rows strip_of_outputs(const Convolution& p, Index strip, Index strips) {
  const Index span = p.options.dilation[0] * (p.kernel_height - 1) + 1, step = p.options.stride[0];
  const Range y = part_of(p.out_height, strip, strips);
  const Index first = y.first * step - p.options.padding[0],
              end = (y.last - 1) * step - p.options.padding[0] + span;
  return {{std::max<Index>(first, 0), std::min(end, p.height)}, y, std::max<Index>(-first, 0)};
}

// Rows of x, and those of y that read them. A strip begins where the first tap of a row of y is, so that the
// rows above are no fewer than none.
Rows strip_of_inputs(const Convolution& p, Index strip, Index strips) {
  const Index span = p.options.dilation[0] * (p.kernel_height - 1) + 1, step = p.options.stride[0];
  const Index padding = p.options.padding[0];
  const Range steps = part_of(ceil_of(p.height + padding, step), strip, strips);
  const auto row = [&](Index steps_down) {
    return std::clamp<Index>(steps_down * step - padding, 0, p.height);
  };
  const Range x{row(steps.first), strip + 1 == strips ? p.height : row(steps.last)};
  const Index first = std::max<Index>(ceil_of(x.first + padding - span + 1, step), 0);
  const Index last = std::min(p.out_height, (x.last - 1 + padding) / step + 1);
  return {x, {first, last}, x.first + padding - first * step};
}

}  // namespace

LibraryConvolution::LibraryConvolution(Pass pass, const Convolution& problem)
    : pass_(pass), problem_(problem), team_(threads()) {
  const Division division = division_of(pass, problem, team_);
  divide(division.images, division.strips);
  const int weights = pass == Pass::filter_gradient ? 2 : 1;
  const auto differs = [&](const auto& same) { return same.front()->layout(weights) != layout(weights); };
  if (std::ranges::any_of(primitives_, differs)) divide(1, 1);
}

// A single share if the rows cannot be divided.
void LibraryConvolution::divide(Index images, Index strips) {
  shares_.clear();
  sizes_.clear();
  primitives_.clear();
  for (Index i = 0; i < images * strips; ++i) {
    const Range batch = part_of(problem_.batch, i / strips, images);
    Rows rows{{0, problem_.height}, {0, problem_.out_height}, problem_.options.padding[0]};
    if (strips > 1)
      rows = pass_ == Pass::input_gradient ? strip_of_inputs(problem_, i % strips, strips)
                                           : strip_of_outputs(problem_, i % strips, strips);
    Convolution size = problem_;
    size.batch = batch.count();
    size.height = rows.x.count();
    size.out_height = rows.y.count();
    size.options.padding[0] = rows.above;
    if (size.height <= 0 || size.out_height <= 0 || !onednn::expressible(size)) return divide(images, 1);
    const auto known = std::ranges::find_if(sizes_, [&](const Convolution& other) {
      return other.batch == size.batch && other.height == size.height &&
             other.out_height == size.out_height && other.options.padding == size.options.padding;
    });
    shares_.push_back(
        {batch.first, rows.x.first, rows.y.first, static_cast<std::size_t>(known - sizes_.begin())});
    if (known != sizes_.end()) continue;
    sizes_.push_back(size);
    auto& same = primitives_.emplace_back();
    same.push_back(onednn::convolution(pass_, size));
    for (int thread = 1; thread < team_; ++thread) same.push_back(same.front()->twin());
  }
}

// Address of an argument of a share.
const void* LibraryConvolution::at(int argument, int count, const void* address, const Share& share) const {
  const Convolution& p = problem_;
  const bool filter = pass_ == Pass::filter_gradient, input = pass_ == Pass::input_gradient;
  const bool is_first = argument == 0, is_second_image = argument == (filter ? 1 : count - 1);
  if (!is_first && !is_second_image) return address;
  const bool is_x = is_first != input;
  const Index rows = is_x ? share.image * p.height + share.x_row : share.image * p.out_height + share.y_row;
  const Index line = is_x ? p.width * p.channels : p.out_width * p.out_channels;
  // Results are images of `result`, except for filter gradients.
  const DType dtype = is_second_image && !filter ? p.result : p.dtype;
  return static_cast<const std::byte*>(address) + rows * line * static_cast<Index>(size_of(dtype));
}

void LibraryConvolution::run_share(int thread, const Share& share, const void* const* addresses, int count,
                                   float* sums) const {
  std::array<const void*, Primitive::kMaxArguments> of_share{};
  for (int i = 0; i < count; ++i) of_share[static_cast<std::size_t>(i)] = at(i, count, addresses[i], share);
  if (pass_ == Pass::filter_gradient) of_share[2] = sums;
  primitives_[share.size][static_cast<std::size_t>(thread)]->run(
      std::span(of_share.data(), static_cast<std::size_t>(count)));
}

void LibraryConvolution::run(std::initializer_list<const void*> addresses) const {
  const auto count = static_cast<int>(addresses.size());
  const auto shares = static_cast<Index>(shares_.size());
  const bool filter = pass_ == Pass::filter_gradient;
  auto* const total = filter ? static_cast<float*>(const_cast<void*>(addresses.begin()[2])) : nullptr;
  const Index elements =
      filter ? static_cast<Index>(primitives_.front().front()->bytes(2) / sizeof(float)) : 0;
  const Tensor memory = filter && shares > 1 ? workspace<float>({shares - 1, elements}) : Tensor{};
  const auto sums_of = [&](Index share) {
    return share == 0 || !filter ? total : memory.data<float>() + (share - 1) * elements;
  };
  over_shares(team_, shares, [&](int thread) {
    return [&, thread](Index share) {
      run_share(thread, shares_[static_cast<std::size_t>(share)], addresses.begin(), count, sums_of(share));
    };
  });
  if (shares == 1) return;
  parallel_for(elements >= kParallelElements, (elements + kBlock - 1) / kBlock, [&](Index block) {
    const Index first = block * kBlock, last = std::min(first + kBlock, elements);
    for (Index share = 1; share < shares; ++share) {
      const float* more = sums_of(share);
      for (Index i = first; i < last; ++i) total[i] += more[i];
    }
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
