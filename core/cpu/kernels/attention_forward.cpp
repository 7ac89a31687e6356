// Forward of scaled dot-product attention: blocks of scores that stay in the first cache, and a softmax that
// is rescaled from block to block of keys. Blocks of keys start at multiples of kKeys, and no sum depends on
// the number of queries: a query gives the same bits alone as among others.
#include <cmath>
#include <limits>
#include <memory>

#include "core/cpu/kernels/attention.h"
#include "core/cpu/kernels/attention_blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/shares.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kQueries = 32, kKeys = 128;  // of a block
constexpr float kNone = -std::numeric_limits<float>::infinity();

template <class P>
class ForwardHead {
 public:
  using Blocks = HeadBlocks<P>;
  using Storage = typename P::Storage;

  ForwardHead(const AttentionForward& args, bool tiles)
      : args_(args),
        size_(args.size),
        blocks_(tiles),
        width_(padded(size_.width)),
        values_(padded(size_.value_width)),
        keys_(padded(size_.keys)),
        parts_(bytes()),
        rows_(parts_.take<Storage>(std::max(keys_ * std::max(width_, values_), kQueries * width_))),
        turned_keys_(parts_.take<Storage>(keys_ * width_)),
        straight_values_(parts_.take<Storage>(keys_ * values_)),
        scores_(parts_.take<float>(kQueries * kKeys)),
        weights_(parts_.take<Storage>(kQueries * kKeys)),
        sums_(parts_.take<float>(kQueries * values_)),
        dropout_(args.random, args.dropout) {
    std::fill_n(weights_, kQueries * kKeys, Storage{});
  }

  // Queries [range) of one head.
  void run(Index text, Index head, Range range) {
    const Index group = size_.heads / size_.key_heads;
    if (text != text_ || head / group != key_head_) {
      text_ = text;
      key_head_ = head / group;
      // Beyond the row's length memory may hold anything.
      const Index length =
          args_.mask.lengths.defined() ? args_.mask.lengths.data<std::int64_t>()[text] : size_.keys;
      used_ = padded(length);
      Blocks::pack(Head(args_.key, text, key_head_), 0, length, size_.width, rows_);
      Blocks::turned(rows_, used_, width_, turned_keys_);
      Blocks::pack(Head(args_.value, text, key_head_), 0, length, size_.value_width, rows_);
      Blocks::straight(rows_, used_, values_, straight_values_);
    }
    const Head query(args_.query, text, head), result(args_.result, text, head);
    slope_ =
        args_.alibi ? attention::alibi_slope(static_cast<int>(head), static_cast<int>(size_.heads)) : 0.0f;
    float* lse = args_.lse.data<float>() + (text * size_.heads + head) * size_.queries;
    for (Index q = range.first; q < range.last; q += kQueries) {
      const Index count = std::min(kQueries, range.last - q);
      Blocks::pack(query, q, count, size_.width, rows_);
      for (Index r = 0; r < count; ++r)
        seen_[r] = seen_keys(args_.mask, text, q + r, size_.queries, size_.keys);
      attend((text * size_.heads + head) * size_.queries + q, q, count);
      for (Index r = 0; r < count; ++r) {
        float* row = sums_ + r * values_;
        const float factor = total_[r] > 0.0f || total_[r] != total_[r] ? 1.0f / total_[r] : 0.0f;
        for (Index e = 0; e < values_; e += kLanes) store(row + e, load(row + e) * broadcast(factor));
        store_block(row, result.data, result.dtype, result.at(q + r), size_.value_width);
        lse[q + r] = factor == 0.0f ? kNone : top_[r] * kLn2 + std::log(total_[r]);
      }
    }
  }

 private:
  Index bytes() const {
    return Parts::bytes_of<Storage>(std::max(keys_ * std::max(width_, values_), kQueries * width_)) +
           Parts::bytes_of<Storage>(keys_ * width_) + Parts::bytes_of<Storage>(keys_ * values_) +
           Parts::bytes_of<float>(kQueries * kKeys) + Parts::bytes_of<Storage>(kQueries * kKeys) +
           Parts::bytes_of<float>(kQueries * values_);
  }

  // Unnormalised results of `count` queries from q on, with their largest scores and sums. `row`: index of
  // the first query in [N,H,Tq].
  void attend(Index row, Index q, Index count) {
    const SeenByRows seen(seen_, count);
    std::fill_n(top_, count, kNone);
    std::fill_n(total_, count, 0.0f);
    std::fill_n(sums_, count * values_, 0.0f);
    for (Index k = seen.any.first / kKeys * kKeys; k < seen.any.last; k += kKeys) {
      const Index columns = std::min(kKeys, padded(seen.any.last - k));
      blocks_.multiply(count, columns, width_, rows_, width_, turned_keys_, width_, 0, k, scores_, kKeys,
                       false);
      for (Index r = 0; r < count; ++r) weigh(row + r, q + r, r, k, columns);
      blocks_.multiply(count, values_, columns, weights_, kKeys, straight_values_, used_, k, 0, sums_,
                       values_, true);
    }
  }

  // Turns the scores of query r, at position t of its text, for keys [k, k + columns) into weights. Scores
  // are in units of ln 2.
  void weigh(Index row, Index t, Index r, Index k, Index columns) {
    float* s = scores_ + r * kKeys;
    Storage* w = weights_ + r * kKeys;
    const Index first = std::clamp<Index>(seen_[r].first - k, 0, columns);
    const Index last = std::clamp<Index>(seen_[r].last - k, first, columns);
    if (first == last) {
      std::fill(w, w + columns, Storage{});
      return;
    }
    const bool masked = last - first < columns;
    Vec scale = broadcast(scale_);
    float hidden = scale_ > 0.0f ? kNone : -kNone;  // -inf, scaled
    // Scaled apart in all blocks or in none, since that rounds otherwise.
    if (args_.alibi || scale_ == 0.0f) {
      const auto position = static_cast<float>(t + size_.keys - size_.queries - k);
      const Vec slope = broadcast(slope_ * kLog2E);
      for (Index j = 0; j < columns; j += kLanes) {
        const Vec distance = broadcast(position - static_cast<float>(j)) - ascending();
        store(s + j, load(s + j) * scale - slope * distance);
      }
      scale = broadcast(1.0f);
      hidden = kNone;
    }
    if (masked) {
      std::fill(s, s + first, hidden);
      std::fill(s + last, s + columns, hidden);
    }
    Vec largest_score = broadcast(kNone);
    for (Index j = 0; j < columns; j += kLanes) largest_score = max(load(s + j) * scale, largest_score);
    const float before = top_[r], top = std::max(before, largest(largest_score));
    const Vec shift = broadcast(-top);
    Vec sums = zero();
    for (Index j = 0; j < columns; j += kLanes) {
      const Vec x = fma(load(s + j), scale, shift);
      const Vec e = masked ? power_of_two_or_zero<P>(x) : power_of_two_of<P>(x);
      sums = sums + e;
      if (dropout_.drops()) {
        store(s + j, e);
      } else {
        P::store(w + j, e);
      }
    }
    if (dropout_.drops()) {
      dropout_.apply(s, row * size_.keys + k, last, s);
      for (Index j = 0; j < columns; j += kLanes) P::store(w + j, load(s + j));
    }
    if (before != top && before != kNone) {
      const float factor = std::exp2(before - top);
      total_[r] *= factor;
      float* to = sums_ + r * values_;
      for (Index e = 0; e < values_; e += kLanes) store(to + e, load(to + e) * broadcast(factor));
    }
    total_[r] += sum(sums);
    top_[r] = top;
  }

  const AttentionForward& args_;
  const AttentionSizes& size_;
  Blocks blocks_;
  Index width_, values_, keys_;
  Parts parts_;
  Storage *rows_, *turned_keys_, *straight_values_;
  float* scores_;
  Storage* weights_;
  float* sums_;
  DropoutMask dropout_;
  Index text_ = -1, key_head_ = -1, used_ = 0;  // what keys and values are packed of
  const float scale_ = static_cast<float>(args_.scale) * kLog2E;
  float slope_ = 0.0f;
  KeyRange seen_[kQueries];
  float top_[kQueries], total_[kQueries];
};

}  // namespace

void CpuAttention::attention(const AttentionForward& args) {
  const AttentionSizes& size = args.size;
  const Index heads = size.texts * size.heads;
  if (heads * size.queries == 0) return;
  const Index work = heads * size.queries * (size.keys + 1) * (size.width + size.value_width);
  const int team = work < kParallelElements * 4 ? 1 : threads();
  // Blocks of queries are divided where there are few heads; each part packs the keys again.
  const Index blocks = (size.queries + kQueries - 1) / kQueries;
  const Index parts = std::clamp<Index>(shares_of(team) / heads, 1, std::max<Index>(1, blocks / 8));
  with_attention_operands(args.query.tensor.dtype(), [&]<class P>(bool tiles) {
    over_shares(team, heads * parts, [&](int) {
      return [&, head = std::make_unique<ForwardHead<P>>(args, tiles)](Index share) {
        const Range range = part_of(blocks, share % parts, parts);
        head->run(share / parts / size.heads, share / parts % size.heads,
                  {range.first * kQueries, std::min(size.queries, range.last * kQueries)});
      };
    });
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
