// Backward of scaled dot-product attention. A head of keys is one thread's, with the heads of queries that
// read it in order. Scores are computed transposed, [keys, queries], so that weights and their gradients are
// left operands as they come; sums of all gradients are f32 and rounded once.
#include <limits>
#include <memory>

#include "core/cpu/kernels/attention.h"
#include "core/cpu/kernels/attention_blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/shares.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kKeySide = 64;  // of a block
constexpr Index kMostQueries = 128;
// Queries of a block. More of them save traffic of the sums for keys; but scores of f32 leave the first
// cache, and few queries are padded.
template <class P>
constexpr Index queries_of_block(Index queries) {
  return P::kDepth > 1 && queries > 512 ? kMostQueries : 64;
}

template <class P>
class BackwardHead {
 public:
  using Blocks = HeadBlocks<P>;
  using Storage = typename P::Storage;

  BackwardHead(const AttentionBackward& args, bool tiles)
      : args_(args),
        size_(args.size),
        blocks_(tiles),
        width_(padded(size_.width)),
        values_(padded(size_.value_width)),
        side_(queries_of_block<P>(size_.queries)),
        queries_((size_.queries + side_ - 1) / side_ * side_),
        keys_((size_.keys + kKeySide - 1) / kKeySide * kKeySide),
        parts_(bytes()),
        dropout_(args.random, args.dropout) {
    operands([this]<class T>(T*& to, Index count) { to = parts_.template take<T>(count); });
  }

  // Gradients of head `head` of keys, and of the queries that read it.
  void run(Index text, Index head) {
    const Index group = size_.heads / size_.key_heads;
    const Index length =
        args_.mask.lengths.defined() ? args_.mask.lengths.data<std::int64_t>()[text] : size_.keys;
    load(Head(args_.key, text, head), length, size_.width, key_rows_, keys_);
    load(Head(args_.value, text, head), length, size_.value_width, value_rows_, keys_);
    Blocks::straight(key_rows_, keys_, width_, held_);
    Blocks::turned_rows(held_, keys_, width_, turned_key_rows_, key_step());
    std::fill_n(dkey_, keys_ * width_, 0.0f);
    std::fill_n(dvalue_, keys_ * values_, 0.0f);
    for (Index h = head * group; h < (head + 1) * group; ++h) {
      load_queries(text, h);
      const Index row = (text * size_.heads + h) * size_.queries;
      for (Index k = 0; k < length; k += kKeySide)
        for (Index q = 0; q < size_.queries; q += side_) add_block(row, q, k);
      put_queries(Head(args_.dquery, text, h));
    }
    put(Head(args_.dkey, text, head), dkey_, width_, size_.width, static_cast<float>(args_.scale));
    put(Head(args_.dvalue, text, head), dvalue_, values_, size_.value_width, 1.0f);
  }

 private:
  // Rows of the transposed arrays are a line of the cache further apart than a power of two, or those of a
  // tile would share one set of the cache.
  Index key_step() const { return keys_ + kPanel; }
  Index query_step() const { return queries_ + kLanes; }

  // Calls visit(pointer, count) for every array.
  template <class Visitor>
  void operands(const Visitor& visit) {
    visit(key_rows_, keys_ * width_);
    visit(value_rows_, keys_ * values_);
    visit(turned_key_rows_, width_ * key_step());
    visit(held_, std::max(queries_, keys_) * std::max(width_, values_));
    visit(turned_queries_, queries_ * width_);
    visit(straight_queries_, queries_ * width_);
    visit(turned_dresults_, queries_ * values_);
    visit(straight_dresults_, queries_ * values_);
    visit(weights_, kKeySide * side_);
    visit(dscores_, kKeySide * side_);
    visit(straight_dscores_, kKeySide * side_);
    visit(shifts_, queries_);
    visit(dots_, queries_);
    visit(first_, queries_);
    visit(last_, queries_);
    visit(scores_, kKeySide * side_);
    visit(dweights_, kKeySide * side_);
    visit(factors_, kKeySide * side_);
    visit(dkey_, keys_ * width_);
    visit(dvalue_, keys_ * values_);
    visit(turned_dquery_, width_ * query_step());
  }
  Index bytes() {
    Index sum = 0;
    operands([&]<class T>(T*&, Index count) { sum += Parts::bytes_of<T>(count); });
    return sum;
  }

  // Rows of a head, with zeros up to `all`.
  static void load(const Head& from, Index count, Index width, Storage* to, Index all) {
    Blocks::pack(from, 0, count, width, to);
    std::fill(to + padded(count) * padded(width), to + all * padded(width), Storage{});
  }

  void load_queries(Index text, Index head) {
    load(Head(args_.query, text, head), size_.queries, size_.width, held_, queries_);
    Blocks::turned(held_, queries_, width_, turned_queries_);
    Blocks::straight(held_, queries_, width_, straight_queries_);
    load(Head(args_.dresult, text, head), size_.queries, size_.value_width, held_, queries_);
    Blocks::turned(held_, queries_, values_, turned_dresults_);
    Blocks::straight(held_, queries_, values_, straight_dresults_);
    std::fill_n(turned_dquery_, width_ * query_step(), 0.0f);
    slope_ =
        args_.alibi ? attention::alibi_slope(static_cast<int>(head), static_cast<int>(size_.heads)) : 0.0f;

    const float* lse = args_.lse.data<float>() + (text * size_.heads + head) * size_.queries;
    const Head result(args_.result, text, head), dresult(args_.dresult, text, head);
    for (Index q = 0; q < size_.queries; ++q) {
      dots_[q] = dot(result, dresult, q);
      shifts_[q] = -lse[q] * kLog2E;
      seen_[static_cast<std::size_t>(q)] = seen_keys(args_.mask, text, q, size_.queries, size_.keys);
      first_[q] = static_cast<float>(seen_[static_cast<std::size_t>(q)].first);
      last_[q] = static_cast<float>(seen_[static_cast<std::size_t>(q)].last);
    }
    for (Index q = size_.queries; q < queries_; ++q) dots_[q] = shifts_[q] = first_[q] = last_[q] = 0.0f;
  }

  float dot(const Head& result, const Head& dresult, Index q) const {
    Vec total = zero();
    float a[kBlock], b[kBlock];
    for (Index e = 0; e < size_.value_width; e += kBlock) {
      const Index n = std::min(kBlock, size_.value_width - e);
      load_block(result.data, result.dtype, result.at(q) + e, a, n);
      load_block(dresult.data, dresult.dtype, dresult.at(q) + e, b, n);
      const Index whole = (n + kLanes - 1) / kLanes * kLanes;
      std::fill(a + n, a + whole, 0.0f);
      std::fill(b + n, b + whole, 0.0f);
      for (Index i = 0; i < whole; i += kLanes)
        total = fma(TANDEM_LEVEL::load(a + i), TANDEM_LEVEL::load(b + i), total);
    }
    return sum(total);
  }

  // Contributions of queries [q, q + side_) and keys [k, k + kKeySide). `row`: index of query 0 in [N,H,Tq].
  void add_block(Index row, Index q, Index k) {
    const Index count = std::min(side_, size_.queries - q);
    const SeenByRows seen(seen_.data() + q, count);
    if (seen.any.last <= k || seen.any.first >= k + kKeySide) return;
    const bool full = count == side_ && seen.all.first <= k && seen.all.last >= k + kKeySide;
    blocks_.multiply(kKeySide, side_, width_, key_rows_ + k * width_, width_, turned_queries_, width_, 0, q,
                     scores_, side_, false);
    blocks_.multiply(kKeySide, side_, values_, value_rows_ + k * values_, values_, turned_dresults_, values_,
                     0, q, dweights_, side_, false);
    if (dropout_.drops()) draw_factors(row, q, k);
    if (full && !dropout_.drops() && !args_.alibi) {
      weigh<true>(q, k);
    } else {
      weigh<false>(q, k);
    }
    blocks_.multiply(kKeySide, values_, side_, weights_, side_, straight_dresults_, queries_, q, 0,
                     dvalue_ + k * values_, values_, true);
    blocks_.multiply(kKeySide, width_, side_, dscores_, side_, straight_queries_, queries_, q, 0,
                     dkey_ + k * width_, width_, true);
    Blocks::straight(dscores_, kKeySide, side_, straight_dscores_);
    blocks_.multiply(width_, side_, kKeySide, turned_key_rows_ + k, key_step(), straight_dscores_, kKeySide,
                     0, 0, turned_dquery_ + q, query_step(), true);
  }

  // Weights of the keys [k, k + kKeySide) and gradients of their scores, for queries from q on. `plain`: all
  // queries see all keys, and there are no further terms.
  template <bool plain>
  void weigh(Index q, Index k) {
    const Vec scale = broadcast(scale_);
    const float *scores = scores_, *dweights = dweights_, *factors = factors_;
    Storage *weights = weights_, *dscores = dscores_;
    for (Index i = 0; i < side_; i += kLanes) {
      const Vec shift = TANDEM_LEVEL::load(shifts_ + q + i), dot = TANDEM_LEVEL::load(dots_ + q + i);
      for (Index j = 0; j < kKeySide; ++j) {
        const Index at = j * side_ + i;
        Vec x = fma(TANDEM_LEVEL::load(scores + at), scale, shift), dp = TANDEM_LEVEL::load(dweights + at);
        if constexpr (plain) {
          const Vec p = power_of_two_of<P>(x);
          P::store(weights + at, p);
          P::store(dscores + at, p * (dp - dot));
        } else {
          const Vec key = broadcast(static_cast<float>(k + j));
          if (args_.alibi) {
            const auto position = static_cast<float>(q + i + size_.keys - size_.queries);
            x = x - broadcast(slope_ * kLog2E) * (broadcast(position) + ascending() - key);
          }
          const std::uint32_t seen = positive(TANDEM_LEVEL::load(last_ + q + i) - key) &
                                     positive(key + broadcast(1.0f) - TANDEM_LEVEL::load(first_ + q + i));
          const Vec p = keep(seen, power_of_two_of<P>(x));
          const Vec factor = dropout_.drops() ? TANDEM_LEVEL::load(factors + at) : broadcast(1.0f);
          P::store(weights + at, p * factor);
          P::store(dscores + at, p * (dp * factor - dot));
        }
      }
    }
  }

  // Factors of dropout [keys, queries] of a block.
  void draw_factors(Index row, Index q, Index k) {
    const Index count = std::min(kKeySide, size_.keys - k);
    float ones[kKeySide], drawn[kMostQueries * kKeySide] = {};
    std::fill_n(ones, kKeySide, 1.0f);
    for (Index i = 0; i < std::min(side_, size_.queries - q); ++i)
      dropout_.apply(ones, (row + q + i) * size_.keys + k, count, drawn + i * kKeySide);
    for (Index i = 0; i < side_; i += kLanes)
      for (Index j = 0; j < kKeySide; j += kLanes)
        transpose_words(drawn + i * kKeySide + j, kKeySide, factors_ + j * side_ + i, side_);
  }

  void put_queries(const Head& to) {
    alignas(64) float block[kLanes * kLanes];
    for (Index q = 0; q < size_.queries; q += kLanes) {
      for (Index d = 0; d < size_.width; d += kLanes) {
        transpose_words(turned_dquery_ + d * query_step() + q, query_step(), block, kLanes);
        const Index n = std::min<Index>(kLanes, size_.width - d);
        for (Index i = 0; i < std::min<Index>(kLanes, size_.queries - q); ++i)
          put_row(to, q + i, d, block + i * kLanes, n, static_cast<float>(args_.scale));
      }
    }
  }
  void put(const Head& to, float* rows, Index step, Index width, float scale) const {
    for (Index t = 0; t < size_.keys; ++t) put_row(to, t, 0, rows + t * step, width, scale);
  }
  // Rows are padded to kLanes.
  static void put_row(const Head& to, Index t, Index first, float* row, Index width, float scale) {
    if (scale != 1.0f)
      for (Index d = 0; d < width; d += kLanes)
        store(row + d, TANDEM_LEVEL::load(row + d) * broadcast(scale));
    store_block(row, to.data, to.dtype, to.at(t) + first, width);
  }

  const AttentionBackward& args_;
  const AttentionSizes& size_;
  Blocks blocks_;
  Index width_, values_, side_, queries_, keys_;
  Parts parts_;
  DropoutMask dropout_;
  std::vector<KeyRange> seen_ = std::vector<KeyRange>(static_cast<std::size_t>(queries_));
  const float scale_ = static_cast<float>(args_.scale) * kLog2E;
  float slope_ = 0.0f;

  Storage *key_rows_, *value_rows_, *turned_key_rows_, *held_;
  Storage *turned_queries_, *straight_queries_, *turned_dresults_, *straight_dresults_;
  Storage *weights_, *dscores_, *straight_dscores_;  // [keys, queries] of a block
  float *shifts_, *dots_, *first_, *last_;  // of each query: -lse/ln 2, Σ dresult·result, seen keys
  float *scores_, *dweights_, *factors_;    // [keys, queries] of a block
  float *dkey_, *dvalue_, *turned_dquery_;  // sums, unscaled
};

}  // namespace

void CpuAttention::attention_backward(const AttentionBackward& args) {
  const AttentionSizes& size = args.size;
  const Index heads = size.texts * size.key_heads;
  if (heads == 0) return;
  const Index work = size.texts * size.heads * size.queries * size.keys * (size.width + size.value_width);
  const int team = work < kParallelElements ? 1 : threads();
  with_attention_operands(args.dquery.tensor.dtype(), [&]<class P>(bool tiles) {
    over_shares(team, heads, [&](int) {
      return [&, head = std::make_unique<BackwardHead<P>>(args, tiles)](Index share) {
        head->run(share / size.key_heads, share % size.key_heads);
      };
    });
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
