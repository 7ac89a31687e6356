// Additive attention, backward. Three passes give the same reduction order for any number of threads: score
// gradients by query, value gradients by key, and all gradients behind the tanh by row and block of features.
// The third pass recomputes each tanh.
#include "core/cpu/kernels/attention.h"
#include "core/cpu/kernels/blocks.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

constexpr Index kFeatures = 64;  // features per block: keys and their gradients stay in L2

std::size_t count(Index n) { return static_cast<std::size_t>(n); }

template <class C>
class Backward {
 public:
  explicit Backward(const AdditiveBackward& args)
      : args_(args),
        size_(args.in),
        direction_(args.in),
        dscores_(workspace<C>({size_.queries * size_.rows * size_.keys})),
        blocks_((size_.features + kFeatures - 1) / kFeatures) {}

  void run() {
    if (wanted(0) || wanted(1) || wanted(3) || wanted(4) || wanted(5)) {
      scores();
      features();
    }
    if (wanted(2)) values();
  }

 private:
  bool wanted(int input) const { return args_.gradients[count(input)].tensor.defined(); }
  Index seen(Index n, Index t) const { return seen_keys(args_.mask, n, t, size_.queries, size_.keys).last; }

  // Gradients of the scores, dscores [Tq,N,Tk], at unmasked keys.
  void scores() {
    parallel_ranges(size_.parallel(), size_.rows * size_.queries, [&](Range range) {
      std::vector<C> weights(count(size_.keys)), dweights(weights.size());
      std::vector<C> dcontext(count(size_.channels)), value(dcontext.size());
      for (Index i = range.first; i < range.last; ++i) {
        const Index n = i / size_.queries, t = i % size_.queries;
        const Index row = t * size_.rows + n, last = seen(n, t);
        load_row(args_.weights, row, size_.keys, weights.data());
        if (args_.dweights.defined()) load_row(args_.dweights, row, size_.keys, dweights.data());
        if (args_.dcontext.defined()) {
          load_row(args_.dcontext, row, size_.channels, dcontext.data());
          for (Index s = 0; s < last; ++s) {
            load_row(args_.in.value, s * size_.rows + n, size_.channels, value.data());
            const C *a = dcontext.data(), *b = value.data();
            const C dot = sum_of<C>(size_.channels, [&](Index c) { return a[c] * b[c]; });
            dweights[count(s)] = args_.dweights.defined() ? dweights[count(s)] + dot : dot;
          }
        }
        softmax_gradient_of(weights.data(), dweights.data(), last, dscores_.data<C>() + row * size_.keys);
      }
    });
  }

  // dvalue(s,n) = Σ_t weights(t,n,s)·dcontext(t,n).
  void values() {
    parallel_ranges(size_.parallel(), size_.rows * size_.keys, [&](Range range) {
      std::vector<C> sum(count(size_.channels)), dcontext(sum.size());
      for (Index i = range.first; i < range.last; ++i) {
        const Index n = i / size_.keys, s = i % size_.keys;
        std::fill(sum.begin(), sum.end(), C(0));
        for (Index t = 0; t < size_.queries && args_.dcontext.defined(); ++t) {
          if (s >= seen(n, t)) continue;
          const Index row = t * size_.rows + n;
          C weight;
          load_block(args_.weights.raw(), args_.weights.dtype(), row * size_.keys + s, &weight, 1);
          load_row(args_.dcontext, row, size_.channels, dcontext.data());
          for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weight * dcontext[c];
        }
        put(args_.gradients[2], (s * size_.rows + n) * size_.channels, sum.data(), size_.channels);
      }
    });
  }

  // Buffers for one row and one block of features.
  struct Block {
    explicit Block(const AdditiveSizes& size) : keys(count(size.keys * kFeatures)), dkeys(keys.size()) {}
    std::vector<C> keys, dkeys;  // [Tk,kFeatures]
    C query[kFeatures], dquery[kFeatures], bias[kFeatures] = {}, du[kFeatures], db[kFeatures];
  };

  void features() {
    // Partial gradients of u and b, one per row.
    const Tensor parts = workspace<C>({2 * size_.rows * size_.features});
    parallel_ranges(size_.parallel(), size_.rows * blocks_, [&](Range range) {
      Block block(size_);
      for (Index i = range.first; i < range.last; ++i) {
        const Index n = i / blocks_, b = i % blocks_;
        const Index first = b * kFeatures, width = std::min(kFeatures, size_.features - first);
        row_of_block(block, n, first, width);
        C* part = parts.data<C>() + n * size_.features + first;
        std::copy_n(block.du, width, part);
        std::copy_n(block.db, width, part + size_.rows * size_.features);
      }
    });
    parameters(parts.data<C>());
  }

  void row_of_block(Block& block, Index n, Index first, Index width) {
    const AdditiveInputs& in = args_.in;
    const auto at = [&](Index time) { return (time * size_.rows + n) * size_.features + first; };
    if (in.b.defined()) load_block(in.b.raw(), in.b.dtype(), first, block.bias, width);
    for (Index s = 0; s < size_.keys; ++s)
      load_block(in.key.raw(), in.key.dtype(), at(s), block.keys.data() + s * kFeatures, width);
    std::fill(block.dkeys.begin(), block.dkeys.end(), C(0));
    std::fill_n(block.du, width, C(0));
    std::fill_n(block.db, width, C(0));
    const C* u = direction_.u.data() + first;
    for (Index t = 0; t < size_.queries; ++t) {
      load_block(in.query.raw(), in.query.dtype(), at(t), block.query, width);
      for (Index j = 0; j < width; ++j) block.query[j] += block.bias[j];
      std::fill_n(block.dquery, width, C(0));
      const C* dscore = dscores_.data<C>() + (t * size_.rows + n) * size_.keys;
      const Index last = seen(n, t);
      for (Index s = 0; s < last; ++s)
        add_key(block, u, dscore[s], block.keys.data() + s * kFeatures, block.dkeys.data() + s * kFeatures,
                width);
      for (Index j = 0; j < width; ++j) block.db[j] += block.dquery[j];
      put(args_.gradients[0], at(t), block.dquery, width);
    }
    for (Index s = 0; s < size_.keys; ++s)
      put(args_.gradients[1], at(s), block.dkeys.data() + s * kFeatures, width);
  }

  static void add_key(Block& block, const C* u, C dscore, const C* key, C* dkey, Index width) {
    for (Index j = 0; j < width; ++j) {
      const auto g = attention::feature_gradient(u[j], block.query[j] + key[j], dscore);
      block.dquery[j] += g.sum;
      dkey[j] += g.sum;
      block.du[j] += g.u;
    }
  }

  // Sums the partial gradients of all rows into those of v, g and b.
  void parameters(const C* parts) {
    const Index n = size_.features;
    std::vector<C> du(count(n)), db(count(n));
    for (Index row = 0; row < size_.rows; ++row) {
      const C *from_u = parts + row * n, *from_b = parts + (size_.rows + row) * n;
      for (Index j = 0; j < n; ++j) {
        du[count(j)] += from_u[j];
        db[count(j)] += from_b[j];
      }
    }
    put(args_.gradients[5], 0, db.data(), n);
    if (args_.in.g.defined()) {
      const Direction<C>& d = direction_;
      const C along = sum_of<C>(n, [&](Index j) { return d.v[count(j)] * du[count(j)]; });
      C dg = along / d.norm;
      put(args_.gradients[4], 0, &dg, 1);
      for (std::size_t j = 0; j < du.size(); ++j)
        du[j] = attention::normalised_gradient(d.v[j], du[j], d.g, d.norm, along);
    }
    put(args_.gradients[3], 0, du.data(), n);
  }

  const AdditiveBackward& args_;
  const AdditiveSizes size_;
  const Direction<C> direction_;
  const Tensor dscores_;
  const Index blocks_;
};

}  // namespace

void CpuAttention::additive_attention_backward(const AdditiveBackward& args) {
  visit_compute([&]<class C>(C) { Backward<C>(args).run(); }, args.in.query);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
