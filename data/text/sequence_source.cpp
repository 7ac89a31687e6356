#include "data/text/sequence_source.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::datasets {

void LabelledSequences::add(std::span<const std::int32_t> sequence, std::int64_t label) {
  ids.insert(ids.end(), sequence.begin(), sequence.end());
  begins.push_back(static_cast<Index>(ids.size()));
  labels.push_back(label);
}

std::vector<Index> LabelledSequences::lengths() const {
  std::vector<Index> lengths;
  for (std::size_t i = 1; i < begins.size(); ++i) lengths.push_back(begins[i] - begins[i - 1]);
  return lengths;
}

SequenceSource::SequenceSource(Sequences sequences, BucketOptions options, Device device,
                               const ShardSpec& division)
    : BucketSource(sequences->lengths(), options, device, division), sequences_(std::move(sequences)) {
  if (options.sentences > 0) {
    const Index longest = padded_length(std::ranges::max(epochs_.lengths()), options.grid);
    layout_.add_whole("token", {longest, layout_.samples()}, DType::i64);
  } else {
    layout_.add_whole("token", {most_padded(epochs_.lengths(), options, division.parts)}, DType::i64);
  }
  layout_.add("length", {}, DType::i64);
  layout_.keep_on_host("length");
  layout_.add("label", {}, DType::i64);
}

SourcePtr SequenceSource::divided(const ShardSpec& division) const {
  return std::make_shared<SequenceSource>(sequences_, epochs_.options(), device_,
                                          this->division().into(division));
}

void SequenceSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const auto [order, whole, samples, count, steps] = begin(key, buffer);
  if (count == 0) return;
  std::int64_t* token = buffer.field("token", {steps, count}).data<std::int64_t>();
  std::int64_t* length = buffer.field("length").data<std::int64_t>();
  std::int64_t* label = buffer.field("label").data<std::int64_t>();
  std::fill_n(token, steps * count, 0);
  for (Index i = 0; i < count; ++i) {
    const std::size_t sample = samples[static_cast<std::size_t>(i)];
    const std::int32_t* const sequence = sequences_->ids.data() + sequences_->begins[sample];
    length[i] = epochs_.lengths()[sample];
    for (Index t = 0; t < length[i]; ++t) token[t * count + i] = sequence[t];
    label[i] = sequences_->labels[sample];
  }
}

}  // namespace tandem::datasets
