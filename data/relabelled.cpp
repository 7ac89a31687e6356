#include "data/relabelled.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"
#include "data/class_order.h"

namespace tandem::datasets {

namespace {

Index label_in(const std::vector<Index>& order, Index own) { return order.at(static_cast<std::size_t>(own)); }

void relabel(std::vector<BoxObject>& objects, const std::vector<Index>& order) {
  for (BoxObject& object : objects) object.label = label_in(order, object.label);
}

// Copies, because a mask may be a view of the source's memory.
Tensor relabelled_mask(const Tensor& mask, const std::vector<Index>& order) {
  std::array<std::uint8_t, 256> to{};
  std::iota(to.begin(), to.end(), std::uint8_t{0});  // includes kIgnored
  for (std::size_t own = 0; own < order.size(); ++own) to.at(own) = static_cast<std::uint8_t>(order[own]);
  const Tensor moved = Tensor::empty(mask.shape(), {.dtype = DType::u8, .kind = MemoryKind::data});
  const std::uint8_t* const from = mask.data<std::uint8_t>();
  std::transform(from, from + mask.numel(), moved.data<std::uint8_t>(),
                 [&](std::uint8_t own) { return to[own]; });
  return moved;
}

}  // namespace

Relabelled::Relabelled(DatasetPtr source, std::vector<Index> order)
    : Decorated(std::move(source)), order_(std::move(order)) {
  ensure(static_cast<Index>(order_.size()) == info_.classes && (!info_.boxes() || order_.front() == 0),
         info_.name, "an order of {} labels for {} classes", order_.size(), info_.classes);
  if (!info_.class_names.empty()) info_.class_names = in_order(info_.class_names, order_);
  if (!info_.class_values.empty()) info_.class_values = in_order(info_.class_values, order_);
  const BoxCorpus* const own = source_->box_corpus();
  if (!own) return;
  corpus_ = *own;
  corpus_->classes.names = in_order(own->classes.names, order_);
  corpus_->classes.ids = in_order(own->classes.ids, order_);
  for (BoxImage& image : corpus_->images) relabel(image.objects, order_);
}

Sample Relabelled::get(Index index) const {
  Sample sample = source_->get(index);
  if (info_.masks) {
    sample.mask = relabelled_mask(sample.mask, order_);
  } else if (info_.boxes()) {
    relabel(sample.objects, order_);
  } else {
    sample.label = label_in(order_, sample.label);
  }
  return sample;
}

}  // namespace tandem::datasets
