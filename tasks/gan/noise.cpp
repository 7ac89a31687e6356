#include "tasks/gan/noise.h"

#include <algorithm>
#include <cstring>

#include "autograd/ops/random.h"
#include "core/random.h"

namespace tandem::tasks {

namespace {

constexpr Index kBlock = 64;             // rows per draw
constexpr std::uint32_t kApart = 0xfff;  // micro-batch number that no training step reaches

}  // namespace

FixedNoise::FixedNoise(std::uint64_t seed, Index width, Index first)
    : seed_(seed), width_(width), block_(static_cast<std::uint32_t>(first / kBlock)) {
  if (const Index passed = first % kBlock; passed > 0) drawn_ = draw().rows(passed, kBlock - passed);
}

Tensor FixedNoise::draw() {
  const RandomScope scope(seed_, block_++, kApart);
  return random_normal({kBlock, 1, 1, width_});
}

Tensor FixedNoise::next(Index rows, Device device) {
  const Tensor z = Tensor::empty({rows, 1, 1, width_}, {.dtype = DType::f32, .kind = MemoryKind::data});
  auto* to = static_cast<std::byte*>(z.raw());
  while (rows > 0) {
    if (!drawn_.defined()) drawn_ = draw();
    const Index taken = std::min(rows, drawn_.size(0));
    const Tensor part = drawn_.rows(0, taken);
    std::memcpy(to, part.raw(), part.bytes());
    to += part.bytes();
    rows -= taken;
    drawn_ = taken < drawn_.size(0) ? drawn_.rows(taken, drawn_.size(0) - taken) : Tensor();
  }
  return z.to(device);
}

}  // namespace tandem::tasks
