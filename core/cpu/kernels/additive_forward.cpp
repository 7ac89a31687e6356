// Additive attention, forward. Each query computes its scores, their softmax and the weighted sum.
#include "core/cpu/kernels/attention.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

template <class C>
class ForwardQuery {
 public:
  ForwardQuery(const AdditiveForward& args, const AdditiveSizes& sizes, const Direction<C>& direction)
      : args_(args),
        size_(sizes),
        u_(direction.u.data()),
        bias_(count(sizes.features)),
        query_(bias_.size()),
        key_(bias_.size()),
        weights_(count(sizes.keys)),
        value_(count(sizes.channels)),
        context_(value_.size()) {
    if (args.in.b.defined()) load_row(args.in.b, 0, sizes.features, bias_.data());
  }

  void operator()(Index n, Index t) {
    const Index seen = seen_keys(args_.mask, n, t, size_.queries, size_.keys).last, row = t * size_.rows + n;
    score(n, row, seen);
    C* weights = weights_.data();
    softmax_of(weights, seen, weights);
    std::fill(weights + seen, weights + size_.keys, C(0));
    store_block(weights, args_.weights.raw(), args_.weights.dtype(), row * size_.keys, size_.keys);
    // The sum uses the weights as stored (rounded), which backward reads as well.
    load_block(args_.weights.raw(), args_.weights.dtype(), row * size_.keys, weights, seen);
    std::fill(context_.begin(), context_.end(), C(0));
    C *context = context_.data(), *value = value_.data();
    for (Index s = 0; s < seen; ++s) {
      load_row(args_.in.value, s * size_.rows + n, size_.channels, value);
      const C weight = weights[s];
      for (Index c = 0; c < size_.channels; ++c) context[c] += weight * value[c];
    }
    store_block(context, args_.context.raw(), args_.context.dtype(), row * size_.channels, size_.channels);
  }

 private:
  static std::size_t count(Index n) { return static_cast<std::size_t>(n); }

  void score(Index n, Index row, Index seen) {
    const C *u = u_, *bias = bias_.data();
    C *query = query_.data(), *key = key_.data();
    load_row(args_.in.query, row, size_.features, query);
    for (Index j = 0; j < size_.features; ++j) query[j] += bias[j];
    for (Index s = 0; s < seen; ++s) {
      load_row(args_.in.key, s * size_.rows + n, size_.features, key);
      weights_[count(s)] =
          sum_of<C>(size_.features, [&](Index j) { return attention::score_term(u[j], query[j] + key[j]); });
    }
  }

  const AdditiveForward& args_;
  const AdditiveSizes& size_;
  const C* u_;
  std::vector<C> bias_, query_, key_, weights_, value_, context_;
};

}  // namespace

void CpuAttention::additive_attention(const AdditiveForward& args) {
  const AdditiveSizes sizes(args.in);
  visit_compute(
      [&]<class C>(C) {
        const Direction<C> direction(args.in);
        parallel_ranges(sizes.parallel(), sizes.rows * sizes.queries, [&](Range range) {
          ForwardQuery<C> query(args, sizes, direction);
          for (Index i = range.first; i < range.last; ++i) {
            const Index n = i / sizes.queries, t = i % sizes.queries;
            query(n, t);
          }
        });
      },
      args.in.query);
}

}  // namespace tandem::cpu::TANDEM_LEVEL
