#include "core/cpu/kernels/conv_library.h"

#include <algorithm>
#include <array>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/shares.h"
#include "core/cpu/team.h"

namespace tandem::cpu::TANDEM_LEVEL {

using onednn::Convolution;
using onednn::Pass;
using onednn::Primitive;

namespace {

// Minimum number of images per thread, unless all have as many; with fewer, threads idle at the end.
constexpr Index kImagesOfThread = 4;
// Minimum number of multiplications per share, about 20 µs.
constexpr double kProductsOfShare = 1e7;
// Maximum number of floats for the partial filter gradients of all shares: 256 MiB.
constexpr Index kMostSums = Index{64} << 20;

double products_of(const Convolution& p) {
  return static_cast<double>(p.batch * p.out_height * p.out_width * p.out_channels) *
         static_cast<double>(p.kernel_height * p.kernel_width * p.channels / p.options.groups);
}

Convolution with_batch(Convolution p, Index batch) {
  p.batch = batch;
  return p;
}

// Number of shares for a batch that `team` threads divide.
Index shares_for(Pass pass, const Convolution& p, int team) {
  if (team == 1 || (p.batch < kImagesOfThread * team && p.batch % team != 0)) return 1;
  Index most = shares_of(team);
  if (pass == Pass::filter_gradient) {
    const Index sums = p.out_channels * p.kernel_height * p.kernel_width * p.channels / p.options.groups;
    if (sums * team > kMostSums) return 1;
    most = shares_of_sums(team, sums);
  }
  return std::clamp<Index>(static_cast<Index>(products_of(p) / kProductsOfShare) / team, 1, most / team) *
         team;
}

std::size_t image_bytes(Index height, Index width, Index channels, DType dtype) {
  return static_cast<std::size_t>(height * width * channels) * size_of(dtype);
}

}  // namespace

LibraryConvolution::LibraryConvolution(Pass pass, const Convolution& problem)
    : pass_(pass), problem_(problem), team_(threads()) {
  const Index shares = shares_for(pass, problem, team_);
  if (shares > 1) make_shares(shares);
  if (large_.empty()) large_.push_back(onednn::convolution(pass, problem));
}

// Creates no primitives if the shares would need different weight layouts.
void LibraryConvolution::make_shares(Index shares) {
  const TeamSize one(1);
  const int weights = pass_ == Pass::filter_gradient ? 2 : 1;
  const Index images = problem_.batch / shares;
  const bool differ = problem_.batch % shares != 0;
  large_.push_back(onednn::convolution(pass_, with_batch(problem_, images + (differ ? 1 : 0))));
  if (differ) smaller_.push_back(onednn::convolution(pass_, with_batch(problem_, images)));
  if (differ && smaller_.front()->layout(weights) != large_.front()->layout(weights)) {
    large_.clear();
    smaller_.clear();
    return;
  }
  for (Primitives* primitives : {&large_, &smaller_})
    for (int thread = 1; thread < team_ && !primitives->empty(); ++thread)
      primitives->push_back(primitives->front()->twin());
  shares_ = shares;
}

void LibraryConvolution::run_share(int thread, Index share, const void* const* addresses, int count,
                                   float* sums) const {
  const Convolution& p = problem_;
  const bool filter = pass_ == Pass::filter_gradient;
  const std::size_t x =
      image_bytes(p.height, p.width, p.channels, pass_ == Pass::input_gradient ? p.result : p.dtype);
  const std::size_t y =
      image_bytes(p.out_height, p.out_width, p.out_channels, pass_ == Pass::forward ? p.result : p.dtype);
  // Byte offsets from share to share, for the arguments that hold images; other arguments are common to all.
  std::array<std::size_t, Primitive::kMaxArguments> steps{};
  steps[0] = pass_ == Pass::input_gradient ? y : x;
  steps[filter ? 1 : static_cast<std::size_t>(count - 1)] = pass_ == Pass::input_gradient ? x : y;
  const Range images = part_of(p.batch, share, shares_);
  std::array<const void*, Primitive::kMaxArguments> of_share{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    of_share[i] =
        static_cast<const std::byte*>(addresses[i]) + static_cast<std::size_t>(images.first) * steps[i];
  if (filter) of_share[2] = sums;
  const bool is_large = images.count() * shares_ >= p.batch;
  const Primitives& primitives = is_large ? large_ : smaller_;
  primitives[static_cast<std::size_t>(thread)]->run(
      std::span(of_share.data(), static_cast<std::size_t>(count)));
}

void LibraryConvolution::run(std::initializer_list<const void*> addresses) const {
  if (shares_ == 1) return large_.front()->run(addresses);
  const auto count = static_cast<int>(addresses.size());
  if (pass_ != Pass::filter_gradient) {
    over_shares(team_, shares_, [&](int thread) {
      return [&, thread](Index share) { run_share(thread, share, addresses.begin(), count, nullptr); };
    });
    return;
  }
  auto* const total = static_cast<float*>(const_cast<void*>(addresses.begin()[2]));
  const auto elements = static_cast<Index>(large_.front()->bytes(2) / sizeof(float));
  const Tensor memory = workspace<float>({shares_ - 1, elements});
  const auto sums_of = [&](Index share) {
    return share == 0 ? total : memory.data<float>() + (share - 1) * elements;
  };
  over_shares(team_, shares_, [&](int thread) {
    return [&, thread](Index share) { run_share(thread, share, addresses.begin(), count, sums_of(share)); };
  });
  parallel_for(elements >= kParallelElements, (elements + kBlock - 1) / kBlock, [&](Index block) {
    const Index first = block * kBlock, last = std::min(first + kBlock, elements);
    for (Index share = 1; share < shares_; ++share) {
      const float* more = sums_of(share);
      for (Index i = first; i < last; ++i) total[i] += more[i];
    }
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
