#include "data/text/candidate_source.h"

#include <algorithm>

#include "core/backend.h"

namespace tandem::datasets {

namespace {

// The key of an augmented sample, with the number of the batch.
RandomKey key_of(const CandidateOptions& options, const BatchKey& key) {
  return {.seed = options.seed,
          .purpose = RandomPurpose::augmentation,
          .call = static_cast<std::uint32_t>(key.number),
          .step = key.epoch};
}

}  // namespace

CandidateSource::CandidateSource(SourcePtr source, const CandidateOptions& options)
    : Source(source->division()), source_(std::move(source)), options_(options), layout_(source_->layout()) {
  check(options_);
  const Shape target = layout_.parts()[layout_.index_of("target")].full;
  layout_.add_whole("candidate", {options_.samples}, DType::i64);
  layout_.add_whole("candidate_log_count", {options_.samples}, DType::f32);
  layout_.add_whole("target_log_count", target, DType::f32);
}

SourcePtr CandidateSource::divided(const ShardSpec& division) const {
  return std::make_shared<CandidateSource>(source_->divided(division), options_);
}

void CandidateSource::fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const {
  source_->fill(key, parallel, buffer);
  if (buffer.samples() == 0) return;
  const Tensor target = buffer.field("target");
  for (const Field& field : candidate_fields(options_, undivided(key), target)) {
    const Tensor to = buffer.field(field.name, field.value.shape());
    backend_for(Device{}).copy_bytes(field.value, to);
  }
}

std::vector<Field> candidate_fields(const CandidateOptions& options, const BatchKey& key,
                                    const Tensor& target) {
  const Candidates drawn = draw_candidates(options, key_of(options, key));
  const auto counts_of = [&](std::span<const std::int64_t> ids, const Shape& shape) {
    return Tensor::from(log_counts(options, drawn.tries, ids), shape);
  };
  const Shape samples{options.samples};
  const std::span targets(target.data<std::int64_t>(), static_cast<std::size_t>(target.numel()));
  return {{"candidate", Tensor::from(drawn.ids, samples)},
          {"candidate_log_count", counts_of(drawn.ids, samples)},
          {"target_log_count", counts_of(targets, target.shape())}};
}

}  // namespace tandem::datasets
