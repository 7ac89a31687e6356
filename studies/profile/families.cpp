#include "studies/profile/families.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "autograd/ops/all_ops.h"

namespace tandem::profile {

namespace {

using Table = std::unordered_map<const OpInfo*, Traits>;

template <class List>
void add(Table& table, Family family) {
  for_each_op(List{}, [&]<class Op>() {
    table[&Op::info] = {
        .family = family, .selects = family == Family::shape, .hands_on = family == Family::shape};
  });
}

template <class... Ops>
void hand_on(Table& table) {
  ((table[&Ops::info].hands_on = true), ...);
}

template <class... Ops>
void select(Table& table) {
  ((table[&Ops::info].selects = true), ...);
}

Table make_table() {
  Table table;
  add<ElementwiseOps>(table, Family::elementwise);
  add<ReduceOps>(table, Family::reduce);
  add<MatmulOps>(table, Family::matmul);
  add<ConvOps>(table, Family::conv);
  add<PoolOps>(table, Family::pool);
  add<NormOps>(table, Family::norm);
  add<SoftmaxOps>(table, Family::softmax);
  add<LossOps>(table, Family::loss);
  add<IndexOps>(table, Family::index);
  add<ShapeOps>(table, Family::shape);
  add<RnnOps>(table, Family::rnn);
  add<AttentionOps>(table, Family::attention);
  add<BoxOps>(table, Family::boxes);
  add<RandomOps>(table, Family::random);
  table[&ops::Cast::info].family = Family::cast;
  hand_on<ops::Cast, ops::Add, ops::Sub, ops::AddScalar>(table);
  select<ops::Embedding, ops::Gather, ops::IndexSelect>(table);
  return table;
}

}  // namespace

std::string_view name_of(Family family) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "elementwise", "reduce", "matmul",    "conv",  "pool",   "norm", "softmax", "loss", "index",
      "shape",       "rnn",    "attention", "boxes", "random", "cast", "update",  "other"};
  return kNames[static_cast<std::size_t>(family)];
}

Traits traits_of(const OpInfo& op) {
  static const Table table = make_table();
  const auto found = table.find(&op);
  return found == table.end() ? Traits{} : found->second;
}

}  // namespace tandem::profile
